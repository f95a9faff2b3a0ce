"""Numbers as text for people."""

from __future__ import annotations

from collections.abc import Sequence

from fedcast_paper.over_seeds import mean_of

ABSENT = "–"


def number(value: float | None, form: str, half_width: float | None = None) -> str:
    """A number with its interval, which has no sign, or a dash.

    Example:
        >>> number(97.418, ".2f", 0.111), number(-0.001, "+z.2f", 0.03), number(None, ".2f")
        ('97.42 ± 0.11', '+0.00 ± 0.03', '–')
    """
    if value is None:
        return ABSENT
    return f"{value:{form}}" + ("" if half_width is None else f" ± {half_width:{form.lstrip('+')}}")


def mean_text(values: Sequence[float | None], form: str) -> str:
    """The mean of the values that are there, with its interval, and how many are not.

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


def percent(share: float) -> str:
    """A share in per cent, in as many digits as it has.

    Example:
        >>> percent(0.1), percent(0.001)
        ('10 %', '0.1 %')
    """
    return f"{100 * share:.3g} %"
