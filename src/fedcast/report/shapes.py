"""Shapes and texts at places in points, and how marks in units of the data become shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from fedcast.report.colours import INK, MUTED, Colour, Dash, dash_of
from fedcast.report.drawing import (
    Anchor,
    Bars,
    Colours,
    Dots,
    HoverColumns,
    Level,
    Line,
    Mark,
    Role,
    Segments,
    Shape,
    Text,
)
from fedcast.report.scales import Scale
from fedcast.typing import Floats

_GAP = 6.0
# Room for a tick, in units of its text size.
_PER_X_TICK, _PER_Y_TICK = 6.5, 3.4
# Radius of the dots on a line in points.
LINE_DOT = 2.4
_NARROW, _WIDE = frozenset("iljtfI.,:;|!'()[] "), frozenset("mwMW%@…→")


@dataclass(frozen=True, eq=False)
class Shapes:
    """Shapes of one look.

    Attributes:
        kind: of the shapes.
        places: N of them: circle (x, y, radius), rect (x, y, width, height), line (x1, y1, x2, y2), path float[P, 2].
        closed: whether paths are closed.
        fill: None: not filled.
        stroke: None: no outline.
        stroke_width: in points.
        dash: of outlines.
        fills: N colours in place of `fill`.
        strokes: N colours in place of `stroke`.
        opacity: of all shapes.
        css: CSS class of the group, on the page.
        item_css: CSS classes of each shape, on the page.
        series: see `Line`.
        tips: N texts, or none.
        data: data attributes of the page, N values each.
    """

    kind: Literal["circle", "rect", "line", "path"]
    places: Sequence[Any]
    closed: bool = False
    fill: Colour | None = None
    stroke: Colour | None = None
    stroke_width: float = 1.0
    dash: Dash = "solid"
    fills: Sequence[Colour] | None = None
    strokes: Sequence[Colour] | None = None
    opacity: float = 1.0
    css: str = ""
    item_css: str | Sequence[str] = ""
    series: int | None = None
    tips: Sequence[str] = ()
    data: Mapping[str, Sequence[object]] = field(default_factory=dict)


@dataclass(frozen=True)
class Words:
    """A line of text; `y` is its base line."""

    x: float
    y: float
    text: str
    role: Role
    size: float
    colour: Colour
    anchor: Anchor = "start"
    rotate: float = 0.0


@dataclass(frozen=True)
class Style:
    """Sizes at one width: of texts, and how much smaller than on a screen marks and panels are."""

    width: float
    text: Mapping[Role, float]
    room: float = 1.0
    marks: float = 1.0
    heights: float = 1.0
    legend: bool = True

    def text_width(self, text: str, role: Role) -> float:
        """Return the width of a text as a wide sans-serif font has it."""
        return self.room * self.text[role] * sum(_em(letter) for letter in text)

    def words(self, x: float, y: float, text: str, role: Role, **options: Any) -> Words:
        """Return a text in the size and colour of its role."""
        colour = MUTED if role in ("tick", "label") else INK
        return Words(x, y, text, role, self.text[role], **{"colour": colour, **options})

    def x_ticks(self, wide: float) -> float:
        """Return how many ticks there is room for."""
        return wide / (_PER_X_TICK * self.text["tick"])

    def y_ticks(self, tall: float) -> float:
        """Return how many ticks there is room for."""
        return tall / (_PER_Y_TICK * self.text["tick"])

    @property
    def above_ticks(self) -> float:
        """Return how far above the end of the y axis its label stands, clear of the topmost tick."""
        return _GAP + 0.6 * self.text["tick"]

    def line(self, role: Role) -> float:
        """Return the height of a line of text."""
        return 1.25 * self.room * self.text[role]


def _em(letter: str) -> float:
    """Return the width of a letter in units of the font size, as a wide sans-serif font has it."""
    if letter in _NARROW:
        return 0.36
    if letter in _WIDE or letter > "\u2e80":
        return 0.98
    return 0.7 if letter.isupper() else 0.62


def draw_mark(mark: Mark, x: Scale, y: Scale, style: Style) -> list[Shapes | Words]:
    """Place a mark on the scales of its panel."""
    match mark:
        case Line():
            return _draw_line(mark, x, y, style)
        case Dots():
            return _draw_dots(mark, x, y, style)
        case Bars():
            return _draw_bars(mark, x, y)
        case Segments():
            ends = np.asarray(mark.ends, dtype=np.float64).reshape(-1, 2, 2)
            places = np.stack([x(ends[:, 0, 0]), y(ends[:, 0, 1]), x(ends[:, 1, 0]), y(ends[:, 1, 1])], axis=1)
            look: dict[str, Any] = {"stroke_width": mark.width * style.marks, "opacity": mark.opacity, "css": mark.css}
            return [Shapes("line", places.tolist(), data=mark.data, **_coloured("stroke", mark.colour), **look)]
        case Level():
            return _draw_level(mark, x, y, style)
        case Text():
            at, base = float(x(mark.x)) + mark.dx * style.marks, float(y(mark.y)) + mark.dy * style.marks
            options = {} if mark.colour is None else {"colour": mark.colour}
            return [style.words(at, base, mark.text, mark.role, anchor=mark.anchor, rotate=mark.rotate, **options)]
        case HoverColumns():
            edges = x(np.arange(len(mark.tips) + 1)).tolist()
            top, tall = min(y.start, y.end), abs(y.end - y.start)
            strips = [(left, top, right - left, tall) for left, right in pairwise(edges)]
            return [Shapes("rect", strips, item_css="strip", tips=mark.tips)]


def _draw_line(line: Line, x: Scale, y: Scale, style: Style) -> list[Shapes | Words]:
    across, up = np.asarray(line.x, dtype=np.float64), np.asarray(line.y, dtype=np.float64)
    items: list[Shapes | Words] = []
    if line.low is not None and line.high is not None:
        low, high = (np.clip(np.asarray(edge, dtype=np.float64), y.low, y.high) for edge in (line.low, line.high))
        band = np.stack([x(np.concatenate([across, across[::-1]])), y(np.concatenate([high, low[::-1]]))], axis=1)
        items.append(
            Shapes("path", [band], closed=True, fill=line.colour, opacity=0.16, item_css="band", series=line.series)
        )
    dash = line.dash or (dash_of(line.colour) if isinstance(line.colour, int) else "solid")
    pieces = [np.stack([x(a), y(b)], axis=1) for a, b in _inside(across, up, y.low, y.high)]
    look: dict[str, Any] = {"stroke_width": line.width * style.marks, "dash": dash, "opacity": line.opacity}
    items.append(Shapes("path", pieces, stroke=line.colour, item_css="line", series=line.series, **look))
    if line.shape is not None:
        points = Dots(across, up, line.colour, line.shape, radius=LINE_DOT, series=line.series)
        items += _draw_dots(points, x, y, style)
    return items


def _inside(x: Floats, y: Floats, low: float, high: float) -> list[tuple[Floats, Floats]]:
    """Cut a line at the limits of its panel and where it has no value.

    Example:
        >>> pieces = _inside(np.array([0.0, 1.0, 2.0]), np.array([0.0, 2.0, 2.0]), 0.0, 1.0)
        >>> [(a.tolist(), b.tolist()) for a, b in pieces]
        [([0.0, 0.5], [0.0, 1.0])]
    """
    points = [(float(x[0]), float(y[0]))] if len(x) else []
    for x1, y1, x2, y2 in zip(x, y, x[1:], y[1:], strict=False):
        shares = [(edge - y1) / (y2 - y1) for edge in (low, high) if min(y1, y2) < edge < max(y1, y2)]
        points += [(float(x1 + share * (x2 - x1)), float(y1 + share * (y2 - y1))) for share in sorted(shares)]
        points.append((float(x2), float(y2)))
    room = 1e-9 * (high - low)
    pieces: list[list[tuple[float, float]]] = [[]]
    for point in points:
        if low - room <= point[1] <= high + room:
            pieces[-1].append(point)
        elif pieces[-1]:
            pieces.append([])
    kept = [np.array(piece) for piece in pieces if piece]
    return [(piece[:, 0], piece[:, 1]) for piece in kept]


def _draw_dots(dots: Dots, x: Scale, y: Scale, style: Style) -> list[Shapes | Words]:
    across, up = np.asarray(dots.x, dtype=np.float64), np.asarray(dots.y, dtype=np.float64)
    unit = style.marks
    if dots.cell:
        unit = 0.5 * min(abs(float(x(1) - x(0))), abs(float(y(1) - y(0))))
    radii = np.broadcast_to(np.asarray(dots.radius, dtype=np.float64) * unit, across.shape)
    if dots.cell:
        radii = np.maximum(radii, 0.6)
    inside = (up >= min(y.low, y.high) - 1e-9) & (up <= max(y.low, y.high) + 1e-9) & np.isfinite(across)
    items = _error_bars(x(across), dots.low, dots.high, dots.colour, y, style)
    places = np.stack([x(across), y(up), radii], axis=1)[inside]
    per_item = {
        "tips": _chosen(dots.tips, inside),
        "item_css": dots.css if isinstance(dots.css, str) else _chosen(dots.css, inside),
        "data": {name: _chosen(values, inside) for name, values in dots.data.items()},
    }
    colour = dots.colour if isinstance(dots.colour, int | str) else _chosen(dots.colour, inside)
    return [*items, dot_shapes(places, dots, colour, style, per_item)]


def dot_shapes(
    places: Floats, dots: Dots, colour: Colours, style: Style, per_item: Mapping[str, Any] | None = None
) -> Shapes:
    """Return dots at places (x, y, radius), float[N, 3]."""
    look: dict[str, Any] = {"opacity": dots.opacity, "series": dots.series, **(per_item or {})}
    if dots.hollow or dots.shape == "cross":
        look |= {"stroke_width": 1.3 * style.marks, **_coloured("stroke", colour)}
    else:
        look |= {"stroke": dots.edge, "stroke_width": 0.9 * style.marks, **_coloured("fill", colour)}
    if dots.shape == "circle":
        return Shapes("circle", places.tolist(), **look)
    outline = _OUTLINES[dots.shape]
    paths = [np.array([at_x, at_y]) + radius * outline for at_x, at_y, radius in places]
    return Shapes("path", paths, closed=dots.shape != "cross", **look)


_OUTLINES: dict[Shape, Floats] = {
    "square": 0.9 * np.array([(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)]),
    "triangle": 1.2 * np.array([(-0.87, 0.5), (0.87, 0.5), (0.0, -1.0)]),
    "diamond": 1.2 * np.array([(-1.0, 0.0), (0.0, -1.0), (1.0, 0.0), (0.0, 1.0)]),
    "cross": np.array([(-1.0, -1.0), (1.0, 1.0), (0.0, 0.0), (1.0, -1.0), (-1.0, 1.0)]),
}


def _error_bars(
    at: Floats, low: ArrayLike | None, high: ArrayLike | None, colour: Colours, scale: Scale, style: Style
) -> list[Shapes | Words]:
    """Draw upright error bars."""
    if low is None or high is None:
        return []
    ends = [scale(np.clip(np.asarray(edge, dtype=np.float64), scale.low, scale.high)) for edge in (low, high)]
    places = np.stack([at, ends[0], at, ends[1]], axis=1).tolist()
    return [Shapes("line", places, stroke_width=style.marks, **_coloured("stroke", colour))]


def _draw_bars(bars: Bars, x: Scale, y: Scale) -> list[Shapes | Words]:
    along, across = (x, y) if bars.horizontal else (y, x)
    at, length = np.asarray(bars.at, dtype=np.float64), np.asarray(bars.length, dtype=np.float64)
    base = np.broadcast_to(np.asarray(bars.base, dtype=np.float64), at.shape)
    ends = [along(np.clip(values, along.low, along.high)) for values in (base, base + length)]
    sides = [across(at + side * bars.width / 2) for side in (-1, 1)]
    low, high = np.minimum(*ends), np.maximum(*ends)
    near, far = np.minimum(*sides), np.maximum(*sides)
    boxes = (low, near, high - low, far - near) if bars.horizontal else (near, low, far - near, high - low)
    places = np.stack(boxes, axis=1).tolist()
    items: list[Shapes | Words] = [
        Shapes("rect", places, tips=bars.tips, data=bars.data, **_coloured("fill", bars.colour))
    ]
    if bars.error is not None:
        half = np.asarray(bars.error, dtype=np.float64)
        lows, highs = (along(base + length + side * half) for side in (-1, 1))
        middle = across(at)
        whisker = (lows, middle, highs, middle) if bars.horizontal else (middle, lows, middle, highs)
        items.append(Shapes("line", np.stack(whisker, axis=1).tolist(), stroke=INK, stroke_width=0.8))
    return items


def _draw_level(level: Level, x: Scale, y: Scale, style: Style) -> list[Shapes | Words]:
    left, right = sorted((x.start, x.end))
    if level.vertical:
        at = float(x(level.value))
        place = (at, min(y.start, y.end), at, max(y.start, y.end))
        words = style.words(at + 4, place[1] + style.text["label"], level.label, "label")
    else:
        at = float(y(level.value))
        place = (left, at, right, at)
        end, anchor = (right - 4, "end") if level.at_end else (left + 4, "start")
        words = style.words(end, at - 4, level.label, "label", anchor=anchor)
    line = Shapes("line", [place], stroke=level.colour, stroke_width=style.marks, dash=level.dash, css="target")
    return [line, words] if level.label else [line]


def _coloured(kind: Literal["fill", "stroke"], colour: Colours) -> dict[str, Any]:
    return {kind: colour} if isinstance(colour, int | str) else {f"{kind}s": tuple(colour)}


def _chosen(values: Sequence[Any], chosen: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    return tuple(value for value, kept in zip(values, chosen, strict=True) if kept) if len(values) else ()
