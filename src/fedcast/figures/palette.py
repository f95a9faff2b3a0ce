"""Colours of series: told apart also by those who see no red and green, each for white paper and for a dark screen."""

from __future__ import annotations

# After Okabe and Ito (2008), darker or lighter where contrast asks for it. The first is for what others are held to.
LIGHT = ("#687482", "#0072b2", "#d55e00", "#008a65", "#b04a8b", "#a97400", "#3b8fd0", "#8c3b2e")
DARK = ("#9aa7b5", "#5fb4ee", "#ff9a52", "#2cc99d", "#e79bcb", "#ecc04f", "#a9d8ff", "#e29484")


def colour(place: int) -> str:
    """The colour of the n-th series on paper; they repeat after eight.

    Example:
        >>> colour(1), colour(9)
        ('#0072b2', '#0072b2')
    """
    return LIGHT[place % len(LIGHT)]
