"""Formatting helpers for user-facing text: names, suggestions, counts, numbers with units, intervals, p-values."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedcast.typing import Names

# Longer values are cut in messages.
_MOST_SHOWN = 80
# A no-break space.
SPACE = "\u00a0"
_DIGITS = 3
_SMALLEST_P = 0.001
# Relative changes smaller than this are rounding.
_UNCHANGED = 1e-9
_LONGEST_NAME = 100
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))


def printable(text: str) -> str:
    r"""Return a text with its control characters escaped, so that no file can move the cursor of a terminal.

    Example:
        >>> print(printable("\x1b[31mred"))
        \x1b[31mred
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def shown_value(value: object) -> str:
    """Return a value for a message: text in quotes, and only the start of a long value.

    Example:
        >>> shown_value("oops"), len(shown_value("1" * 5000))
        ("'oops'", 100)
    """
    shown = repr(value)
    return shown if len(shown) <= _MOST_SHOWN else f"{shown[:_MOST_SHOWN]}… ({len(shown):,} characters)"


def short_repr(name: str, facts: Mapping[str, str]) -> str:
    """Return a one-line representation of a value from what is most worth knowing of it.

    Example:
        >>> short_repr("World", {"dataset": "digits", "users": "100"})
        'World(dataset: digits, users: 100)'
    """
    return f"{name}({', '.join(f'{key}: {value}' for key, value in facts.items())})".replace(SPACE, " ")


def html_table(title: str, facts: Mapping[str, str]) -> str:
    """Return the same as an HTML table for notebooks; every text is escaped.

    Example:
        >>> html_table("World", {"users": "<100"})
        '<table><caption>World</caption><tr><th>users</th><td>&lt;100</td></tr></table>'
    """
    rows = "".join(f"<tr><th>{escape(key)}</th><td>{escape(value)}</td></tr>" for key, value in facts.items())
    return f"<table><caption>{escape(title)}</caption>{rows}</table>"


def html_columns(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table with a row of titles as HTML for notebooks; every text is escaped."""
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def setting_text(value: object) -> str:
    """Return the value of a parameter as a scenario file or an option of a command has it, without quotes.

    Example:
        >>> setting_text(0.050), setting_text((1, 2)), setting_text(None), setting_text("daca")
        ('0.05', '[1, 2]', 'unset', 'daca')
    """
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(setting_text, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return "unset" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def user_label(user: int, names: Names | None) -> str:
    """Return the label of a user: its name if users have names, otherwise its number.

    Example:
        >>> import numpy as np
        >>> user_label(1, None), user_label(1, np.array(["lobby", "gate"]))
        ('user 1', 'user gate')
    """
    return f"user {user if names is None else names[user]}"


def similar_name(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the known name that is most similar to a misspelt one, or None if none is similar.

    Example:
        >>> similar_name("blnd", ["blend", "gain"])
        'blend'
    """
    if len(name) > _LONGEST_NAME:  # no typo of any name, and slow to compare
        return None
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)), None)


def did_you_mean(name: str | None, otherwise: str) -> str:
    """Return the end of a message on something unknown: the name that is meant, if there is one, and what to do.

    Example:
        >>> did_you_mean("blend", "choose one of blend, gain"), did_you_mean(None, "choose one of blend, gain")
        ('; did you mean blend? Choose one of blend, gain', '; choose one of blend, gain')
    """
    return f"; did you mean {name}? {otherwise[0].upper()}{otherwise[1:]}" if name else f"; {otherwise}"


def pluralize(count: int, one: str, many: str | None = None) -> str:
    """Return a count with its noun in singular or plural.

    Example:
        >>> pluralize(1, "user"), pluralize(2000, "user"), pluralize(2, "class", "classes")
        ('1 user', '2,000 users', '2 classes')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def sentence(text: str) -> str:
    """Return text with a capital first letter and a full stop; the name of a parameter keeps its first letter.

    Example:
        >>> sentence("rounds are extrapolated"), sentence("rounds.target_accuracy = 0.96: beyond the fit")
        ('Rounds are extrapolated.', 'rounds.target_accuracy = 0.96: beyond the fit.')
    """
    is_name = "." in text.split(" ")[0][:-1]
    return f"{text[:1] if is_name else text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def number(value: float, decimals: int | None = None) -> str:
    """Format a number, by default with as many decimals as give three significant digits.

    Example:
        >>> number(1234.5), number(16.9651), number(0.0357), number(48), number(0.0)
        ('1,234', '17.0', '0.0357', '48', '0')
    """
    if decimals is None:
        decimals = 0 if float(value).is_integer() else _decimals(value)
    return f"{value:,.{decimals}f}".replace("-", "−")


def percent(share: float) -> str:
    """Format a share in per cent.

    Example:
        >>> percent(0.85) == f"85{SPACE}%", percent(0.11714) == f"11.7{SPACE}%"
        (True, True)
    """
    shown = round(100 * float(share), 1)
    return f"{number(shown, 0 if shown.is_integer() else 1)}{SPACE}%"


def quantity(value: float, unit: str) -> str:
    """Format a number with its unit and a fitting SI prefix; times from 3 hours on are given in hours.

    Example:
        >>> quantity(0.0352, "J").replace(SPACE, " "), quantity(36806016.0, "B").replace(SPACE, " ")
        ('35.2 mJ', '36.8 MB')
    """
    scale, named = unit_for(value, unit)
    return f"{number(value / scale)}{SPACE}{named}"


def relative_change(before: float, after: float) -> str:
    """Format a change in per cent: with its sign, and with as many decimals as show that it is none of 0.

    Example:
        >>> [relative_change(*pair).replace(SPACE, " ") for pair in ((2, 1), (1, 1), (1e5, 99_999), (10, 10.4))]
        ['−50.0 %', 'unchanged', '−0.001 %', '+4.0 %']
    """
    change = 100 * (after / before - 1)
    if abs(change) < 100 * _UNCHANGED:
        return "unchanged"
    decimals = 1 if abs(change) >= 0.05 else -int(f"{change:.0e}".partition("e")[2])
    return f"{change:+,.{decimals}f}{SPACE}%".replace("-", "−")


def unit_for(largest: float, unit: str) -> tuple[float, str]:
    """Return the divisor, and the unit with its SI prefix, for values up to `largest`.

    Example:
        >>> unit_for(0.05, "J"), unit_for(17.0, "s"), unit_for(36_000.0, "s")
        ((0.001, 'mJ'), (1.0, 's'), (3600.0, 'h'))
    """
    size = abs(largest)
    if unit == "s" and size >= 1:
        return (3600.0, "h") if size >= 3 * 3600 else (1.0, "s")
    if size == 0:
        return 1.0, unit
    scale, prefix = next(((scale, prefix) for scale, prefix in _PREFIXES if size >= scale), _PREFIXES[-1])
    return scale, prefix + unit


def mean_and_interval(
    mean: float, half_width: float | None, unit: str = "", largest: float | None = None
) -> tuple[str, str | None]:
    """Format a mean with its unit, and the half width of its interval with as many decimals; % is a unit for shares.

    The SI prefix fits `largest`, of all numbers that are shown together; by default the mean.

    Example:
        >>> [text.replace(SPACE, " ") for text in mean_and_interval(16.97, 0.31, "s")]
        ['17.0 s', '± 0.3']
        >>> mean_and_interval(48.0, None)
        ('48', None)
        >>> [mean_and_interval(each, None, "s", 1.2)[0].replace(SPACE, " ") for each in (1.2, 0.5093)]
        ['1.20 s', '0.509 s']
    """
    prefixed = mean if largest is None else largest
    scale, named = (0.01, "%") if unit == "%" else unit_for(prefixed, unit) if unit else (1.0, "")
    mean, half = mean / scale, half_width
    decimals = 1 if unit == "%" else 0 if mean.is_integer() and not half else _decimals(mean)
    text = number(mean, decimals) + (f"{SPACE}{named}" if named else "")
    return text, None if half is None else f"±{SPACE}{number(half / scale, decimals)}"


def difference(
    mean: float, half_width: float | None, unit: str = "", largest: float | None = None
) -> tuple[str, str | None]:
    """Format a mean difference with its sign and unit, and the half width of its interval with as many decimals.

    Differences of shares, whose unit is %, are in percentage points. The SI prefix fits `largest`, of all numbers that
    are shown together; by default the larger of both.

    Example:
        >>> [text.replace(SPACE, " ") for text in difference(-0.004, 3.1, "s")]
        ['0.00 s', '± 3.10']
        >>> [text.replace(SPACE, " ") for text in difference(0.0123, 0.004, "%")]
        ['+1.2 points', '± 0.4']
    """
    own = max(abs(mean), half_width or 0.0)
    prefixed = own if largest is None else largest
    scale, named = (0.01, "points") if unit == "%" else unit_for(prefixed, unit) if unit else (1.0, "")
    decimals = 1 if unit == "%" else _decimals(own / scale)
    shown = round(mean / scale, decimals)
    text = ("+" if shown > 0 else "") + number(shown + 0.0, decimals) + (f"{SPACE}{named}" if named else "")
    return text, None if half_width is None else f"±{SPACE}{number(half_width / scale, decimals)}"


def p_value(value: float) -> str:
    """Format the p-value of a test.

    Example:
        >>> p_value(0.02536).replace(SPACE, " "), p_value(1e-5).replace(SPACE, " ")
        ('p = 0.025', 'p < 0.001')
    """
    sign, shown = ("<", _SMALLEST_P) if value < _SMALLEST_P else ("=", value)
    return f"p{SPACE}{sign}{SPACE}{shown:.3f}"


def _decimals(value: float) -> int:
    """Return how many decimals give three significant digits; at most four."""
    if value == 0:
        return 0
    return min(4, max(0, _DIGITS - 1 - math.floor(math.log10(abs(value)))))
