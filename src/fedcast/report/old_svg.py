"""What plots are made of: scales, ticks, axes and lines. Lengths are in units of the view box, colours are the page's.

A plot of the usual width is as readable in half a desktop page as over the whole of a phone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedcast.formatting import number
from fedcast.report.figures.palette import colour_place, pattern
from fedcast.report.markup import Markup, coordinate, empty_tag, join, tag
from fedcast.typing import Floats

Formatter = Callable[[float], str]

WIDTH, HEIGHT = 440.0, 268.0
LEFT, RIGHT, TOP, BOTTOM = 50.0, 22.0, 30.0, 42.0
# Below a frame without ticks.
LOW_BOTTOM = 24.0
_TICK_GAP = 7.0
_NICE_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True)
class Scale:
    """A straight line from values to places.

    Attributes:
        low: value at `start`.
        high: value at `end`.
        start: place in the view box.
        end: place in the view box.
    """

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: ArrayLike) -> Floats:
        """Places of values.

        Example:
            >>> Scale(0, 10, 100, 0)([0, 2.5]).tolist()
            [100.0, 75.0]
        """
        share = (np.asarray(value, dtype=np.float64) - self.low) / ((self.high - self.low) or 1.0)
        places: Floats = self.start + share * (self.end - self.start)
        return places


@dataclass(frozen=True)
class Frame:
    """Where marks are drawn: both scales, and the size of the whole."""

    x: Scale
    y: Scale
    width: float = WIDTH
    height: float = HEIGHT


def frame(x: tuple[float, float], y: tuple[float, float], top: float = TOP, bottom: float = BOTTOM) -> Frame:
    """A frame for values in these ranges, with room for axes."""
    return Frame(Scale(*x, LEFT, WIDTH - RIGHT), Scale(*y, HEIGHT - bottom, top))


def nice_step(low: float, high: float, about: int = 5, whole: bool = False) -> float:
    """A round step that cuts the range into some `about` parts.

    Example:
        >>> nice_step(0, 20.6), nice_step(0, 0.05), nice_step(0, 3, whole=True)
        (5.0, 0.01, 1.0)
    """
    rough = max((high - low) / about, 1e-12)
    decade = 10.0 ** math.floor(math.log10(rough))
    step = next(nice * decade for nice in _NICE_STEPS if nice * decade >= rough * 0.999)
    return max(step, 1.0) if whole else step


def ticks(low: float, high: float, about: int = 5, whole: bool = False) -> list[float]:
    """Round values within a range.

    Example:
        >>> ticks(0, 80), ticks(0.3, 1.1, 4)
        ([0.0, 20.0, 40.0, 60.0, 80.0], [0.4, 0.6, 0.8, 1.0])
    """
    step = nice_step(low, high, about, whole)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(place * step, 12) for place in range(first, last + 1)]


def upper_end(values: Iterable[float], about: int = 5) -> float:
    """A round value no less than any of these, to end a scale that begins at 0.

    Example:
        >>> upper_end([3.0, 20.6]), upper_end([])
        (25.0, 1.0)
    """
    highest = max(values, default=0.0)
    if highest <= 0:
        return 1.0
    step = nice_step(0, highest, about)
    return round(math.ceil(highest / step - 1e-9) * step, 12)


def plain_ticks(values: Sequence[float]) -> Formatter:
    """Numbers, all with the decimals that the one with most of them needs.

    Example:
        >>> show = plain_ticks([0.0, 0.25, 0.5])
        >>> show(0.5), plain_ticks([0.0, 5000.0])(5000.0)
        ('0.50', '5,000')
    """
    decimals = max((len(f"{value:.6g}".partition(".")[2]) for value in values), default=0)
    return lambda value: number(value, decimals)


def ends_around(values: Sequence[float], about: int = 5) -> tuple[float, float]:
    """Round values around all of these, for a scale that need not begin at 0.

    Example:
        >>> ends_around([16.9, 21.0]), ends_around([20.0])
        ((16.0, 21.0), (10.0, 30.0))
    """
    low, high = min(values), max(values)
    if high == low:
        low, high = (0.5 * low, 1.5 * high) if low else (0.0, 1.0)
    step = nice_step(low, high, about)
    return round(math.floor(low / step + 1e-9) * step, 12), round(math.ceil(high / step - 1e-9) * step, 12)


def x_axis(place: Frame, values: Sequence[float], label: str, show: Formatter | None = None) -> Markup:
    """Ticks and a label below the frame."""
    show = show or plain_ticks(values)
    base = place.y.start
    low = base + (32 if values else 16)
    texts = [
        tag("text", show(value), x=float(at), y=base + 16, class_="tick", text_anchor="middle")
        for value, at in zip(values, place.x(values), strict=True)
    ]
    line = empty_tag("line", x1=place.x.start, x2=place.x.end, y1=base, y2=base, class_="axis")
    name = tag("text", label, x=place.x.end, y=low, class_="label", text_anchor="end")
    return join([line, *texts, name])


def y_axis(place: Frame, values: Sequence[float], label: str, show: Formatter | None = None) -> Markup:
    """Grid lines with ticks on the left, and a label above them."""
    show = show or plain_ticks(values)
    marks = []
    for value, at in zip(values, place.y(values), strict=True):
        marks.append(empty_tag("line", x1=place.x.start, x2=place.x.end, y1=float(at), y2=float(at), class_="grid"))
        where = {"x": place.x.start - _TICK_GAP, "y": float(at) + 4}
        marks.append(tag("text", show(value), class_="tick", text_anchor="end", **where))
    name = [tag("text", label, x=0.0, y=13.0, class_="label")] if label else []
    return join([*marks, *name])


def level(place: Frame, value: float, label: str = "", at_end: bool = False) -> Markup:
    """A dashed line across the frame at one value, with its name, if it has one, above its left or its right end."""
    at = float(place.y(value))
    line = empty_tag("line", x1=place.x.start, x2=place.x.end, y1=at, y2=at, class_="target")
    x, anchor = (place.x.end - 4, "end") if at_end else (place.x.start + 4, "start")
    name = [tag("text", label, x=x, y=at - 5, class_="label", text_anchor=anchor)] if label else []
    return join([line, *name])


def line_path(x: Floats, y: Floats) -> str:
    """The path of a line through points.

    Example:
        >>> line_path(np.array([0.0, 10.0]), np.array([5.0, 2.5]))
        'M0 5L10 2.5'
    """
    points = [f"{coordinate(one)} {coordinate(other)}" for one, other in zip(x.tolist(), y.tolist(), strict=True)]
    return "M" + "L".join(points)


def band_path(x: Floats, low: Floats, high: Floats) -> str:
    """The path around a band."""
    return line_path(np.concatenate([x, x[::-1]]), np.concatenate([high, low[::-1]])) + "Z"


def bar(x: float, y: float, width: float, height: float, **attributes: object) -> Markup:
    """A bar, whatever the signs of its sides."""
    return empty_tag("rect", x=x, y=y, width=max(width, 0.0), height=max(height, 0.0), **attributes)


def plot(place: Frame, *marks: object, name: str, says: str, **attributes: object) -> Markup:
    """The whole picture. `name` is for scripts and tests, `says` for those who cannot see it.

    It takes the keyboard's focus: arrows then go from mark to mark.
    """
    box = f"0 0 {coordinate(place.width)} {coordinate(place.height)}"
    return tag(
        "svg", *marks, viewBox=box, class_="plot", role="img", aria_label=says, tabindex=0, data_plot=name, **attributes
    )


def series_class(number: int) -> str:
    """The classes that give a series its colour and the pattern of its line.

    Example:
        >>> series_class(1), series_class(8)
        ('s1 solid', 's1 dashed')
    """
    return f"s{colour_place(number)} {pattern(number)}"
