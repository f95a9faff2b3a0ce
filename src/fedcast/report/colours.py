"""Colours of series and of everything else that is drawn, for white paper and for a dark screen."""

from __future__ import annotations

from typing import Literal

# After Okabe and Ito (2008), distinct under red-green colour blindness; darker or lighter where contrast needs it. The
# first one is reserved for the baseline.
LIGHT = ("#687482", "#0072b2", "#d55e00", "#008a65", "#b04a8b", "#a97400", "#3b8fd0", "#8c3b2e")
DARK = ("#9aa7b5", "#5fb4ee", "#ff9a52", "#2cc99d", "#e79bcb", "#ecc04f", "#a9d8ff", "#e29484")

# Colours with a name: on paper, and the CSS variable of the report page that replaces them there.
INK, MUTED, GRID, PAPER = "ink", "muted", "grid", "paper"
_NAMED = {
    INK: ("#1b232c", "--ink"),
    MUTED: ("#566270", "--muted"),
    GRID: ("#e1e5ea", "--grid"),
    PAPER: ("#ffffff", "--card"),
}

Colour = int | str
"""A series number (0 is the baseline), ``ink``, ``muted``, ``grid``, ``paper``, or ``#rrggbb``."""

Dash = Literal["solid", "dashed", "dotted", "dashdot"]

_DASHES: tuple[Dash, ...] = ("solid", "dashed", "dotted")
# Colours of series other than the baseline; further series repeat them with other dashes.
NUM_COLOURS = len(LIGHT) - 1


def palette_index(series: int) -> int:
    """Return the index of a series' colour in the palette; all colours but the first repeat."""
    return 0 if series == 0 else 1 + (series - 1) % NUM_COLOURS


def dash_of(series: int) -> Dash:
    """Return the dash pattern of a series' line, which differs between series of the same colour."""
    return _DASHES[max(series - 1, 0) // NUM_COLOURS % len(_DASHES)]


def hex_of(colour: Colour) -> str:
    """Return a colour as it is on paper."""
    if isinstance(colour, int):
        return LIGHT[palette_index(colour)]
    return _NAMED[colour][0] if colour in _NAMED else colour


def css_of(colour: Colour) -> str:
    """Return a colour for the report page, where it follows light and dark mode."""
    if isinstance(colour, int):
        return f"var(--c{palette_index(colour)})"
    return f"var({_NAMED[colour][1]})" if colour in _NAMED else colour


def series_class(series: int) -> str:
    """Return the CSS classes that give a series its colour and its dash pattern on the report page."""
    return f"s{palette_index(series)} {dash_of(series)}"
