"""Shapes and texts at places in points, and how marks in units of the data become shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, groupby, pairwise
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
    Names,
    Role,
    Segments,
    Text,
)
from fedcast.report.name_places import place_names
from fedcast.report.scales import Scale
from fedcast.typing import Floats

# Radius of the dots on a line in points.
LINE_DOT = 2.4
# Names of points: between a point and its name in points, and the longest name in letters.
_NAME_GAP, _LONGEST_NAME = 2.0, 24
_NARROW, _WIDE = frozenset("iljtfI.,:;|!'()[] "), frozenset("mwMW%@…→")


@dataclass(frozen=True, eq=False)
class Shapes:
    """N shapes of one look."""

    kind: Literal["circle", "rect", "line", "path"]
    #: circle (x, y, radius), rect (x, y, width, height), line (x1, y1, x2, y2), path float[P, 2]
    places: Sequence[Any]
    closed: bool = False
    fill: Colours | None = None  #: one colour or N of them; None: not filled
    stroke: Colours | None = None  #: one colour or N of them; None: no outline
    stroke_width: float = 1.0
    dash: Dash = "solid"
    opacity: float = 1.0
    css: str = ""  #: CSS class of the group, on the page
    item_css: str | Sequence[str] = ""  #: CSS classes of all shapes or N of them, on the page
    series: int | None = None
    tips: Sequence[str] = ()  #: N texts, or none
    data: Mapping[str, Sequence[object]] = field(default_factory=dict)  #: data attributes of the page, N values each


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


Items = list[Shapes | Words]


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

    def words(self, x: float, y: float, text: str, role: Role, colour: Colour | None = None, **options: Any) -> Words:
        """Return a text in the size and, unless it has one of its own, the colour of its role."""
        usual = MUTED if role in ("tick", "label") else INK
        return Words(x, y, text, role, self.text[role], usual if colour is None else colour, **options)

    def line(self, role: Role) -> float:
        """Return the height of a line of text."""
        return 1.25 * self.room * self.text[role]


def _em(letter: str) -> float:
    """Return the width of a letter in units of the font size."""
    if letter in _NARROW:
        return 0.36
    if letter in _WIDE or letter > "\u2e80":
        return 0.98
    return 0.7 if letter.isupper() else 0.62


def draw_mark(mark: Mark, x: Scale, y: Scale, style: Style) -> Items:
    """Place a mark on the scales of its panel."""
    match mark:
        case Line():
            return _draw_line(mark, x, y, style)
        case Dots():
            return _draw_dots(mark, x, y, style)
        case Bars():
            return _draw_bars(mark, x, y)
        case Segments():
            x1, y1, x2, y2 = _floats(mark.ends).reshape(-1, 4).T
            places = np.stack([x(x1), y(y1), x(x2), y(y2)], axis=1).tolist()
            look = {name: getattr(mark, name) for name in ("opacity", "dash", "series", "css", "tips", "data")}
            return [Shapes("line", places, stroke=mark.colour, stroke_width=mark.width * style.marks, **look)]
        case Level():
            return _draw_level(mark, x, y, style)
        case Text():
            at, base = float(x(mark.x)) + mark.dx * style.marks, float(y(mark.y)) + mark.dy * style.marks
            look = {"anchor": mark.anchor, "rotate": mark.rotate}
            return [style.words(at, base, mark.text, mark.role, mark.colour, **look)]
        case Names():
            return _draw_names(mark, x, y, style)
        case HoverColumns():
            edges = x(np.arange(len(mark.tips) + 1)).tolist()
            top, tall = min(y.start, y.end), abs(y.end - y.start)
            strips = [(left, top, right - left, tall) for left, right in pairwise(edges)]
            return [Shapes("rect", strips, item_css="strip", tips=mark.tips)]


def extent_of(mark: Mark, which: Literal["x", "y"]) -> Floats:
    """Return values of an axis that a mark reaches."""
    found: list[Any] = []
    match mark:
        case Names():
            found = [getattr(mark, which)]
        case Line() | Dots():
            found = [mark.x] if which == "x" else [edge for edge in (mark.y, mark.low, mark.high) if edge is not None]
        case Bars() if mark.horizontal == (which == "x"):
            ends = np.add(_floats(mark.base), mark.length)
            found = [mark.base, ends if mark.error is None else ends + np.asarray(mark.error)]
        case Bars():
            found = [np.asarray(mark.at) + side * 0.6 * mark.width for side in (-1, 1)]
        case Segments():
            found = [_floats(mark.ends).reshape(-1, 2)[:, 0 if which == "x" else 1]]
        case Level() if mark.vertical == (which == "x"):
            found = [mark.value]
        case Text():
            found = [getattr(mark, which)]
        case HoverColumns() if which == "x":
            found = [0.0, float(len(mark.tips))]
    return np.concatenate([np.zeros(0), *(np.ravel(_floats(part)) for part in found)])


def _draw_line(line: Line, x: Scale, y: Scale, style: Style) -> Items:
    across, up = _floats(line.x), _floats(line.y)
    items: Items = []
    if line.low is not None and line.high is not None:
        low, high = (np.clip(_floats(edge), y.low, y.high) for edge in (line.low, line.high))
        band = np.stack([x(np.concatenate([across, across[::-1]])), y(np.concatenate([high, low[::-1]]))], axis=1)
        items.append(
            Shapes("path", [band], closed=True, fill=line.colour, opacity=0.16, item_css="band", series=line.series)
        )
    pieces = [np.stack([x(piece[:, 0]), y(piece[:, 1])], axis=1) for piece in _inside(across, up, y.low, y.high)]
    items.append(replace(line_shapes(line, pieces, style), item_css="line", series=line.series))
    if line.shape is not None:
        points = Dots(across, up, line.colour, line.shape, radius=LINE_DOT, series=line.series)
        items += _draw_dots(points, x, y, style)
    return items


def line_shapes(line: Line, pieces: Sequence[Floats], style: Style) -> Shapes:
    """Return paths float[P, 2] in the look of a line."""
    dash = line.dash or (dash_of(line.colour) if isinstance(line.colour, int) else "solid")
    width = line.width * style.marks
    return Shapes("path", pieces, stroke=line.colour, stroke_width=width, dash=dash, opacity=line.opacity)


def _inside(x: Floats, y: Floats, low: float, high: float) -> list[Floats]:
    """Cut a line at the limits of its panel and where it has no value.

    Example:
        >>> [piece.tolist() for piece in _inside(np.array([0.0, 1.0, 2.0]), np.array([0.0, 2.0, 2.0]), 0.0, 1.0)]
        [[[0.0, 0.0], [0.5, 1.0]]]
    """
    points = [(float(x[0]), float(y[0]))] if len(x) else []
    for x1, y1, x2, y2 in zip(x, y, x[1:], y[1:], strict=False):
        shares = [(edge - y1) / (y2 - y1) for edge in (low, high) if min(y1, y2) < edge < max(y1, y2)]
        points += [(float(x1 + share * (x2 - x1)), float(y1 + share * (y2 - y1))) for share in sorted(shares)]
        points.append((float(x2), float(y2)))
    room = 1e-9 * (high - low)
    pieces = groupby(points, key=lambda point: low - room <= point[1] <= high + room)
    return [np.array(list(piece)) for is_inside, piece in pieces if is_inside]


def _draw_dots(dots: Dots, x: Scale, y: Scale, style: Style) -> Items:
    across, up = _floats(dots.x), _floats(dots.y)
    unit = 0.5 * min(abs(float(x(1) - x(0))), abs(float(y(1) - y(0)))) if dots.cell else style.marks
    radii = np.maximum(_floats(dots.radius) * unit, 0.6 if dots.cell else 0.0)
    inside = (up >= min(y.low, y.high) - 1e-9) & (up <= max(y.low, y.high) + 1e-9) & np.isfinite(across)
    items: Items = []
    if dots.low is not None and dots.high is not None:
        at, (low, high) = x(across), (y(np.clip(_floats(edge), y.low, y.high)) for edge in (dots.low, dots.high))
        bars = np.stack([at, low, at, high], axis=1).tolist()
        items.append(Shapes("line", bars, stroke_width=style.marks, stroke=dots.colour))
    places = np.stack([x(across), y(up), np.broadcast_to(radii, across.shape)], axis=1)[inside]

    def chosen(values: Any) -> Any:
        return values if isinstance(values, int | str) else tuple(compress(values, inside))

    data = {name: chosen(values) for name, values in dots.data.items()}
    for_page = {"series": dots.series, "tips": chosen(dots.tips), "item_css": chosen(dots.css), "data": data}
    return [*items, replace(dot_shapes(places, dots, chosen(dots.colour), style), **for_page)]


def dot_shapes(places: Floats, dots: Dots, colour: Colours, style: Style) -> Shapes:
    """Return dots at places (x, y, radius), float[N, 3]."""
    look: dict[str, Any] = {"opacity": dots.opacity}
    if dots.hollow or dots.shape == "cross":
        look |= {"stroke_width": 1.3 * style.marks, "stroke": colour}
    else:
        look |= {"stroke": dots.edge, "stroke_width": 0.9 * style.marks, "fill": colour}
    if dots.shape == "circle":
        return Shapes("circle", places.tolist(), **look)
    outline = _OUTLINES[dots.shape]
    paths = [np.array([at_x, at_y]) + radius * outline for at_x, at_y, radius in places]
    return Shapes("path", paths, closed=dots.shape != "cross", **look)


_OUTLINES: dict[str, Floats] = {
    "square": 0.9 * np.array([(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)]),
    "triangle": 1.2 * np.array([(-0.87, 0.5), (0.87, 0.5), (0.0, -1.0)]),
    "diamond": 1.2 * np.array([(-1.0, 0.0), (0.0, -1.0), (1.0, 0.0), (0.0, 1.0)]),
    "cross": np.array([(-1.0, -1.0), (1.0, 1.0), (0.0, 0.0), (1.0, -1.0), (-1.0, 1.0)]),
}


def _draw_bars(bars: Bars, x: Scale, y: Scale) -> Items:
    along, across = (x, y) if bars.horizontal else (y, x)
    at, length = _floats(bars.at), _floats(bars.length)
    base = np.broadcast_to(_floats(bars.base), at.shape)
    ends = [along(np.clip(values, along.low, along.high)) for values in (base, base + length)]
    sides = [across(at + side * bars.width / 2) for side in (-1, 1)]
    low, high = np.minimum(*ends), np.maximum(*ends)
    near, far = np.minimum(*sides), np.maximum(*sides)
    turn = [0, 1, 2, 3] if bars.horizontal else [1, 0, 3, 2]
    boxes = np.stack([low, near, high - low, far - near], axis=1)[:, turn].tolist()
    items: Items = [Shapes("rect", boxes, tips=bars.tips, data=bars.data, fill=bars.colour)]
    if bars.error is not None:
        half = _floats(bars.error)
        lows, highs = (along(base + length + side * half) for side in (-1, 1))
        whiskers = np.stack([lows, across(at), highs, across(at)], axis=1)[:, turn].tolist()
        items.append(Shapes("line", whiskers, stroke=INK, stroke_width=0.8))
    return items


def _draw_level(level: Level, x: Scale, y: Scale, style: Style) -> Items:
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


def _draw_names(names: Names, x: Scale, y: Scale, style: Style) -> Items:
    points = np.stack([x(names.x), y(names.y)], axis=1)
    tall = style.room * style.text["label"]
    texts = [text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1] + "…" for text in names.texts]
    sizes = np.array([(style.text_width(text, "label"), tall) for text in texts]).reshape(-1, 2)
    radii = np.broadcast_to(_floats(names.radius) * style.marks + _NAME_GAP, len(texts))
    pieces = _floats(names.lines).reshape(-1, 4)
    lines = np.stack([x(pieces[:, 0]), y(pieces[:, 1]), x(pieces[:, 2]), y(pieces[:, 3])], axis=1)
    frame = min(x.start, x.end), min(y.start, y.end), max(x.start, x.end), max(y.start, y.end)
    colours = [names.colour] * len(texts) if isinstance(names.colour, int | str) else names.colour
    boxes = place_names(points, radii, sizes, frame, lines)
    items: Items = []
    for text, colour, (at, level), radius, (left, top, wide, _) in zip(
        texts, colours, points, radii, boxes, strict=True
    ):
        if not np.isfinite(left):
            continue
        # A text may be narrower than estimated: one on the left of its point ends there.
        place, anchor = (left, "start") if left >= at else (left + wide, "end") if left + wide <= at else (at, "middle")
        near = np.clip(at, left, left + wide), np.clip(level, top, top + tall)
        if np.hypot(near[0] - at, near[1] - level) > radius + _NAME_GAP:
            items.append(Shapes("line", [(at, level, *near)], stroke=MUTED, stroke_width=0.6 * style.marks))
        items.append(style.words(float(place), float(top + 0.82 * tall), text, "label", colour, anchor=anchor))
    return items


def _floats(values: ArrayLike) -> Floats:
    return np.asarray(values, dtype=np.float64)
