"""Numbers for people: three digits that count, a unit that fits, the interval beside the mean."""

from __future__ import annotations

import math

from fedcast.runs.comparison import Interval

# A space at which no line breaks.
SPACE = "\u00a0"
_DIGITS = 3
_SMALLEST_P = 0.001
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"))


def number(value: float, decimals: int | None = None) -> str:
    """A plain number, with as many decimals as give three digits that count unless told.

    Example:
        >>> number(1234.5), number(16.9651), number(0.0357), number(48), number(0.0)
        ('1,234', '17.0', '0.0357', '48', '0')
    """
    if decimals is None:
        decimals = 0 if float(value).is_integer() else _decimals(value)
    return f"{value:,.{decimals}f}".replace("-", "−")


def percent(share: float) -> str:
    """A share in per cent.

    Example:
        >>> percent(0.85) == f"85{SPACE}%", percent(0.11714) == f"11.7{SPACE}%"
        (True, True)
    """
    shown = round(100 * float(share), 1)
    return f"{number(shown, 0 if shown.is_integer() else 1)}{SPACE}%"


def quantity(value: float, unit: str) -> str:
    """A number with a unit and the prefix that suits it; seconds have no prefix above one, hours are written from 3 on.

    Example:
        >>> quantity(0.0352, "J").replace(SPACE, " "), quantity(36806016.0, "B").replace(SPACE, " ")
        ('35.2 mJ', '36.8 MB')
    """
    scale, named = unit_for(value, unit)
    return f"{number(value / scale)}{SPACE}{named}"


def unit_for(largest: float, unit: str) -> tuple[float, str]:
    """What to divide by, and the unit with its prefix, for values up to `largest`.

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


def mean_and_interval(found: Interval, unit: str = "") -> tuple[str, str | None]:
    """A mean with its unit, and the half width of its interval with as many decimals; % is a unit for shares.

    Example:
        >>> [text.replace(SPACE, " ") for text in mean_and_interval(Interval(16.97, 0.31, 3), "s")]
        ['17.0 s', '± 0.3']
        >>> mean_and_interval(Interval(48.0, None, 1))
        ('48', None)
    """
    scale, named = (0.01, "%") if unit == "%" else unit_for(found.mean, unit) if unit else (1.0, "")
    mean, half = found.mean / scale, found.half_width
    decimals = 1 if unit == "%" else 0 if mean.is_integer() and not half else _decimals(mean)
    text = number(mean, decimals) + (f"{SPACE}{named}" if named else "")
    return text, None if half is None else f"±{SPACE}{number(half / scale, decimals)}"


def p_value(value: float) -> str:
    """The p-value of a test.

    Example:
        >>> p_value(0.02536).replace(SPACE, " "), p_value(1e-5).replace(SPACE, " ")
        ('p = 0.025', 'p < 0.001')
    """
    sign, shown = ("<", _SMALLEST_P) if value < _SMALLEST_P else ("=", value)
    return f"p{SPACE}{sign}{SPACE}{shown:.3f}"


def _decimals(value: float) -> int:
    """As many as give three digits that count; at most four."""
    if value == 0:
        return 0
    return min(4, max(0, _DIGITS - 1 - math.floor(math.log10(abs(value)))))
