"""Colours of series: told apart also by those who see no red and green, each for white paper and for a dark screen."""

from __future__ import annotations

# After Okabe and Ito (2008), darker or lighter where contrast asks for it. The first is for what others are held to.
LIGHT = ("#687482", "#0072b2", "#d55e00", "#008a65", "#b04a8b", "#a97400", "#3b8fd0", "#8c3b2e")
DARK = ("#9aa7b5", "#5fb4ee", "#ff9a52", "#2cc99d", "#e79bcb", "#ecc04f", "#a9d8ff", "#e29484")


# Of lines, when all colours but the first have been used: the same again in the next of these.
PATTERNS = ("solid", "dashed", "dotted")
_REPEATED = len(LIGHT) - 1


def colour_place(place: int) -> int:
    """Which colour the n-th series has; all but the first repeat, which nothing else may be taken for.

    Example:
        >>> [colour_place(place) for place in (0, 1, 7, 8)]
        [0, 1, 7, 1]
    """
    return 0 if place == 0 else 1 + (place - 1) % _REPEATED


def colour(place: int) -> str:
    """The colour of the n-th series on paper.

    Example:
        >>> colour(1), colour(8)
        ('#0072b2', '#0072b2')
    """
    return LIGHT[colour_place(place)]


def pattern(place: int) -> str:
    """How the line of the n-th series is drawn, so that those of one colour differ.

    Example:
        >>> pattern(0), pattern(1), pattern(8), pattern(15)
        ('solid', 'solid', 'dashed', 'dotted')
    """
    return PATTERNS[max(place - 1, 0) // _REPEATED % len(PATTERNS)]
