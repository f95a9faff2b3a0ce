"""Numbers as text, and tables of text for the results page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fedcast_paper.over_seeds import mean_of
from fedcast_paper.reproduction_result import Columns, Result, where

Row = dict[str, str]
ABSENT = "–"
NO_BREAK = "\N{NO-BREAK SPACE}"


def number(value: float | None, form: str, half_width: float | None = None) -> str:
    """Format a number with the half-width of its confidence interval; None is a dash.

    Example:
        >>> number(97.418, ".2f", 0.111), number(-0.001, "+z.2f", 0.03), number(None, ".2f")
        ('97.42 ± 0.11', '+0.00 ± 0.03', '–')
    """
    if value is None:
        return ABSENT
    return f"{value:{form}}" + ("" if half_width is None else f" ± {half_width:{form.lstrip('+')}}")


def mean_text(values: Sequence[float | None], form: str) -> str:
    """Format the mean of the known values with its confidence interval, and the number of missing values.

    Example:
        >>> mean_text([30.0, 32.0, None], ".1f")
        '31.0 ± 12.7 (1 of 3 never)'
    """
    known = [value for value in values if value is not None]
    if not known:
        return "never"
    mean = mean_of(known)
    missing = f" ({len(values) - len(known)} of {len(values)} never)" if len(known) < len(values) else ""
    return number(mean.mean, form, mean.half_width) + missing


def unbroken(text: str) -> str:
    r"""Return the text with spaces, and hyphens in words, at which no line ends.

    Example:
        >>> ascii(unbroken("CIFAR-10: -0.5"))
        "'CIFAR\\u201110:\\xa0-0.5'"
    """
    return re.sub(r"(?<=\w)-(?=\w)", "\N{NON-BREAKING HYPHEN}", text).replace(" ", NO_BREAK)


def percent(fraction: float) -> str:
    """Format a fraction in percent with up to three digits.

    Example:
        >>> percent(0.1), percent(0.001)
        ('10 %', '0.1 %')
    """
    return f"{100 * fraction:.3g} %"


def percent_points(fraction: float | None, half_width: float | None = None) -> str:
    """Format a fraction in percent with two decimals and without the sign.

    Example:
        >>> percent_points(0.9742, 0.001), percent_points(None)
        ('97.42 ± 0.10', '–')
    """
    if fraction is None:
        return ABSENT
    return number(100 * fraction, ".2f", None if half_width is None else 100 * half_width)


def rows_of(columns: Columns) -> Iterator[dict[str, Any]]:
    """Iterate over the rows of a table."""
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, values, strict=True))


def by_label(result: Result, column: str, heading: str, name: Callable[[Any], str]) -> list[Row]:
    """Return a row for each value of a column of the table ``runs``: skew, rounds to the target, loss and accuracy."""
    runs = result.tables["runs"]
    rows = []
    for value in dict.fromkeys(runs[column]):
        some = where(runs, **{column: value})
        rows.append(
            {
                heading: name(value),
                "average EMD": number(mean_of(some["emd_after"]).mean, ".3f"),
                "shift": number(mean_of(some["shift"]).mean, ".3f"),
                "rounds to 95 %": mean_text(some["rounds"], ".1f"),
                "mean loss": mean_text(some["mean_loss"], ".3f"),
                "final accuracy, %": mean_text([100 * value for value in some["accuracy"]], ".2f"),
            }
        )
    return rows


def markdown_table(columns: Columns) -> str:
    r"""Format columns as a Markdown table.

    Example:
        >>> print(markdown_table({"a": [1, 2], "b": ["x|y", "z"]}))
        | a | b |
        |---|---|
        | 1 | x\|y |
        | 2 | z |
        <BLANKLINE>
    """
    length = max((len(column) for column in columns.values()), default=0)
    rows = [list(columns), *([str(column[row]) for column in columns.values()] for row in range(length))]
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(columns), *lines[1:], ""])
