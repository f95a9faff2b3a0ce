"""Lay a figure out: from panels and marks in units of the data to shapes and texts at places in points.

Both back ends (`svg`, `matplotlib_backend`) draw what comes out without any decision of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from fedcast.errors import FedcastError
from fedcast.formatting import number, percent, quantity
from fedcast.report.colours import GRID, INK, MUTED, Colour, Dash, dash_of
from fedcast.report.drawing import (
    Anchor,
    Axis,
    Bars,
    Colours,
    Dots,
    Figure,
    HoverColumns,
    Key,
    Level,
    Line,
    Mark,
    Panel,
    Role,
    Segments,
    Shape,
    Text,
)
from fedcast.report.scales import Scale, ends_around, log_ticks, nice_step, ticks
from fedcast.typing import Floats

# Of a column and of a page of a two-column journal, in points.
WIDTHS_PT: dict[str, float | None] = {"screen": None, "column": 3.5 * 72, "page": 7.16 * 72}
_TEXT_PT: dict[str, dict[Role, float]] = {
    "screen": {"tick": 9.0, "label": 9.5, "name": 10.0, "title": 12.0},
    "column": {"tick": 7.0, "label": 7.0, "name": 7.5, "title": 8.0},
    "page": {"tick": 7.5, "label": 7.5, "name": 8.0, "title": 9.0},
    "html": {"tick": 11.0, "label": 11.0, "name": 12.0, "title": 13.0},
}
# The page enlarges its texts on phones; room is left for that.
_HTML_ROOM = 13 / 11
_GAP, _EDGE = 6.0, 3.0
# Room for a tick, in units of its text size; and the radius of dots on a line in points.
_PER_X_TICK, _PER_Y_TICK = 6.5, 3.4
_LINE_DOT = 2.4
_ROTATED, _LONGEST_LABEL = 30.0, 16
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


@dataclass(frozen=True, eq=False)
class Drawing:
    """A figure that was laid out.

    Attributes:
        width: in points.
        height: in points.
        items: in the order in which they are drawn.
        scales: of the x and the y axis of each panel, row by row.
        description: for readers who cannot see it.
    """

    width: float
    height: float
    items: tuple[Shapes | Words, ...]
    scales: tuple[tuple[Scale, Scale], ...]
    description: str


@dataclass(frozen=True)
class _Style:
    """Sizes at one width: of texts, and how much smaller than on a screen marks and panels are."""

    width: float
    text: Mapping[Role, float]
    room: float = 1.0
    marks: float = 1.0
    heights: float = 1.0
    legend: bool = True

    def text_width(self, text: str, role: Role) -> float:
        return self.room * self.text[role] * sum(_em(letter) for letter in text)

    def words(self, x: float, y: float, text: str, role: Role, **options: Any) -> Words:
        colour = MUTED if role in ("tick", "label") else INK
        return Words(x, y, text, role, self.text[role], **{"colour": colour, **options})

    def x_ticks(self, wide: float) -> float:
        """Return how many ticks there is room for."""
        return wide / (_PER_X_TICK * self.text["tick"])

    def y_ticks(self, tall: float) -> float:
        return tall / (_PER_Y_TICK * self.text["tick"])

    @property
    def above_ticks(self) -> float:
        """Return how far above the end of the y axis its label stands, clear of the topmost tick."""
        return _GAP + 0.6 * self.text["tick"]

    def line(self, role: Role) -> float:
        return 1.25 * self.room * self.text[role]


def lay_out(figure: Figure, width: str = "screen", *, html: bool = False) -> Drawing:
    """Place everything in a figure.

    Args:
        figure: what to draw.
        width: ``screen`` (the figure's own), ``column`` (3.5 in) or ``page`` (7.16 in).
        html: whether it becomes part of the report page, which shows title and legend itself.

    Example:
        >>> drawing = lay_out(Figure([[Panel([Line([0, 1], [2, 3], label="a")])]]), "column")
        >>> drawing.width, [word.text for word in drawing.items if isinstance(word, Words)][-1]
        (252.0, 'a')
    """
    style = _style_of(figure, width, html)
    columns = _columns(figure, style)
    top, items = _heading(figure, style)
    scales: list[tuple[Scale, Scale]] = []
    for row in figure.rows:
        placed = [_Placed.of(panel, columns[place], style) for place, panel in enumerate(row)]
        head = max(panel.head for panel in placed)
        for panel in placed:
            found, place = panel.draw(top, head)
            items += found
            scales.append(place)
        top += head + max(panel.tall + panel.foot for panel in placed)
    keys = figure.keys or _keys(
        [mark for row in figure.rows for panel in row if not panel.legend for mark in panel.marks]
    )
    if keys and style.legend:
        found, tall = _legend(keys, _EDGE, style.width - 2 * _EDGE, top + _GAP, style)
        items += found
        top += tall + 2 * _GAP
    return Drawing(style.width, round(top + _EDGE, 1), tuple(items), tuple(scales), figure.description or figure.title)


def check_width(width: str) -> None:
    """Check the name of a width of a figure."""
    if width not in WIDTHS_PT:
        raise FedcastError(f"invalid value {width!r} for width: expected {', '.join(WIDTHS_PT)}")


def _style_of(figure: Figure, width: str, html: bool) -> _Style:
    check_width(width)
    if html:
        return _Style(figure.width, _TEXT_PT["html"], _HTML_ROOM, legend=False)
    wide = WIDTHS_PT[width] or figure.width
    # A narrow figure is not as low as it is narrow, and its marks not as small.
    ratio = wide / figure.width
    return _Style(wide, _TEXT_PT[width], marks=min(1.0, ratio**0.5), heights=min(1.0, ratio**0.6))


def _heading(figure: Figure, style: _Style) -> tuple[float, list[Shapes | Words]]:
    top, items = _EDGE, list[Shapes | Words]()
    if not style.legend:
        return top, items
    for text, role, colour in ((figure.note, "label", 2), (figure.title, "title", INK)):
        for line in _wrapped(text, style.width - 2 * _EDGE, role, style) if text else []:  # type: ignore[arg-type]
            top += style.line(role)  # type: ignore[arg-type]
            items.append(style.words(_EDGE, top - 2, line, role, colour=colour))  # type: ignore[arg-type]
    return top + (_GAP if items else 0.0), items


def _wrapped(text: str, width: float, role: Role, style: _Style) -> list[str]:
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and style.text_width(longer, role) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def _columns(figure: Figure, style: _Style) -> list[tuple[float, float, float]]:
    """Return left edge, right edge and room for y ticks of each column."""
    count = max(len(row) for row in figure.rows)
    shares = np.asarray(figure.column_widths or [1.0] * count, dtype=np.float64)
    gap = 2.5 * _GAP
    ends = np.cumsum(shares) / shares.sum() * (style.width + gap)
    found = []
    for column in range(count):
        panels = [row[column] for row in figure.rows if column < len(row)]
        room = max(_left_room(panel, style) for panel in panels)
        found.append((float(ends[column - 1]) if column else 0.0, float(ends[column]) - gap, room))
    return found


def _left_room(panel: Panel, style: _Style) -> float:
    if not panel.y.show:
        return _EDGE
    _, texts = _ticks_of(panel.y, *_limits(panel, "y"), style.y_ticks(panel.height * style.heights))
    return max((style.text_width(text, "tick") for text in texts), default=0.0) + _GAP + _EDGE


@dataclass(frozen=True, eq=False)
class _Placed:
    """A panel with its place across the figure."""

    panel: Panel
    style: _Style
    left: float
    x: Scale
    y_limits: tuple[float, float]
    head: float
    tall: float
    foot: float

    @classmethod
    def of(cls, panel: Panel, column: tuple[float, float, float], style: _Style) -> _Placed:
        begin, end, room = column
        low, high = _limits(panel, "x")
        left, right = begin + room, end - _right_room(panel.x, low, high, end - begin - room, style)
        bottom, top = _limits(panel, "y")
        tall = panel.height * style.heights
        if panel.equal:
            tall = (right - left) * (top - bottom) / (high - low)
        start, stop = (right, left) if panel.x.flipped else (left, right)
        x = Scale(low, high, start, stop, panel.x.kind, panel.x.threshold)
        head = _GAP + (style.line("name") + 3.0 if panel.title else 0.0)
        head += style.above_ticks + style.text["label"] if panel.y.label else 0.0
        if keys := _own_keys(panel, style):
            head += _legend(keys, left, right - left, 0.0, style)[1] + _GAP
        return cls(panel, style, begin, x, (bottom, top), head, tall, _foot(panel, x, style))

    def draw(self, top: float, head: float) -> tuple[list[Shapes | Words], tuple[Scale, Scale]]:
        """Draw below `top`; the area between the axes starts `head` below it."""
        panel, style = self.panel, self.style
        peak = top + head
        base = peak + self.tall
        start, stop = (peak, base) if panel.y.flipped else (base, peak)
        y = Scale(*self.y_limits, start, stop, panel.y.kind, panel.y.threshold)
        items = [*self._above(top), *_axes(panel, self.x, y, base, peak, style)]
        if panel.y.label:
            items.append(style.words(max(self.left, _EDGE), peak - style.above_ticks, panel.y.label, "label"))
        for mark in panel.marks:
            items += _draw_mark(mark, self.x, y, style)
        if panel.scale_bar is not None:
            items += _scale_bar(panel.scale_bar, self.x, base + 2 * _GAP, style)
        return items, (self.x, y)

    def _above(self, top: float) -> list[Shapes | Words]:
        panel, style = self.panel, self.style
        items: list[Shapes | Words] = []
        left, right = sorted((self.x.start, self.x.end))
        if panel.title:
            top += style.line("name")
            items.append(style.words(left, top - 1, panel.title, "name"))
            top += 3.0
        if keys := _own_keys(panel, style):
            found, tall = _legend(keys, left, right - left, top, style)
            items += found
            top += tall + _GAP
        return items


def _right_room(axis: Axis, low: float, high: float, wide: float, style: _Style) -> float:
    """Return what the last tick label needs beyond the end of the axis."""
    values, texts = _ticks_of(axis, low, high, style.x_ticks(wide))
    if not texts or not axis.show:
        return 2 * _EDGE
    last = int(np.argmax(values))
    beyond = style.text_width(_shortened(texts[last]), "tick") / 2 - wide * (high - values[last]) / ((high - low) or 1)
    return float(max(2 * _EDGE, beyond + 2))


def _foot(panel: Panel, x: Scale, style: _Style) -> float:
    if panel.scale_bar is not None:
        return 3 * _GAP + style.line("tick")
    if not panel.x.show:
        return _EDGE
    return _x_tick_height(panel.x, x, style) + (style.line("label") + 2 if panel.x.label else 0.0) + _GAP


def _x_tick_height(axis: Axis, x: Scale, style: _Style) -> float:
    texts, rotated = _x_tick_texts(axis, x, style)
    if not rotated:
        return style.line("tick") + 3 if texts else 0.0
    longest = max(style.text_width(text, "tick") for text in texts)
    return 8 + longest * float(np.sin(np.radians(_ROTATED))) + style.text["tick"]


def _limits(panel: Panel, which: Literal["x", "y"]) -> tuple[float, float]:
    """Return the ends of an axis: as given, or round values that leave room for all marks."""
    axis: Axis = getattr(panel, which)
    low, high = axis.limits
    if low is not None and high is not None:
        return low, high if high > low else low + 1.0
    values = np.concatenate([np.zeros(0), *(_extent(mark, which) for mark in panel.marks)])
    values = values[np.isfinite(values)]
    if axis.kind == "log":
        values = values[values > 0]
    values = values if len(values) else np.array([0.0, 1.0])
    first, last = float(values.min()), float(values.max())
    first, last = first if low is None else low, last if high is None else high
    if axis.kind == "log":
        return (first if low is not None else first / 1.1), (last if high is not None else last * 1.1)
    if which == "x" and not any(isinstance(mark, Bars | Dots) for mark in panel.marks):
        return first, last if last > first else first + 1.0
    nice_low, nice_high = ends_around([first, last])
    if which == "x":
        room = 0.03 * (last - first)
        nice_low, nice_high = first - room, last + room if last > first else last + 1.0
    return nice_low if low is None else low, nice_high if high is None else high


def _extent(mark: Mark, which: Literal["x", "y"]) -> Floats:
    """Return values of an axis that a mark reaches."""
    found: list[ArrayLike] = []
    match mark:
        case Line() | Dots():
            found = (
                [mark.x] if which == "x" else [mark.y, *(edge for edge in (mark.low, mark.high) if edge is not None)]
            )
        case Bars():
            at = np.asarray(mark.at, dtype=np.float64)
            ends = np.asarray(mark.base, dtype=np.float64) + np.asarray(mark.length, dtype=np.float64)
            error = 0.0 if mark.error is None else np.asarray(mark.error, dtype=np.float64)
            across = mark.horizontal == (which == "x")
            found = [mark.base, ends + error] if across else [at - 0.6 * mark.width, at + 0.6 * mark.width]
        case Segments():
            found = [np.asarray(mark.ends, dtype=np.float64).reshape(-1, 2)[:, 0 if which == "x" else 1]]
        case Level() if mark.vertical == (which == "x"):
            found = [mark.value]
        case Text():
            found = [getattr(mark, which)]
        case HoverColumns() if which == "x":
            found = [0.0, float(len(mark.tips))]
    return np.concatenate([np.zeros(0), *(np.ravel(np.asarray(part, dtype=np.float64)) for part in found)])


def _ticks_of(axis: Axis, low: float, high: float, about: float) -> tuple[list[float], list[str]]:
    """Return the marked values of an axis, and their texts."""
    if not axis.show:
        return [], []
    if axis.ticks is not None:
        values = [float(value) for value in axis.ticks]
    elif axis.kind == "log":
        values = log_ticks(low, high)
    else:
        values = ticks(low, high, max(2, min(5, round(about))), axis.whole)
    if axis.tick_labels is not None:
        return values, [_visible(text) for text in axis.tick_labels]
    return values, [_number_format(values, axis)(value) for value in values]


def _number_format(values: Sequence[float], axis: Axis) -> Callable[[float], str]:
    """Return how numbers are written: all with the decimals that the one with most of them needs."""
    if axis.percent:
        return percent
    if axis.kind == "log":
        return lambda value: f"{value:g}"
    decimals = max((len(f"{value:.6g}".partition(".")[2]) for value in values), default=0)
    return lambda value: number(value, decimals)


def _x_tick_texts(axis: Axis, x: Scale, style: _Style) -> tuple[list[str], bool]:
    """Return the texts below the panel, and whether they must be rotated to fit."""
    wide = abs(x.end - x.start)
    values, texts = _ticks_of(axis, x.low, x.high, style.x_ticks(wide))
    texts = [_shortened(text) for text in texts]
    if axis.tick_labels is None or len(texts) < 2:
        return texts, False
    apart = float(np.min(np.diff(np.sort(x(values)))))
    return texts, max(style.text_width(text, "tick") for text in texts) + 4 > apart


def _axes(panel: Panel, x: Scale, y: Scale, base: float, peak: float, style: _Style) -> Iterator[Shapes | Words]:
    left, right = sorted((x.start, x.end))
    values, texts = _ticks_of(panel.y, *_limits(panel, "y"), style.y_ticks(base - peak))
    y_places = y(values).tolist()
    if panel.y.grid is not False and values:
        yield _rules([(left, at, right, at) for at in y_places], "grid", GRID)
    x_values, _ = _ticks_of(panel.x, x.low, x.high, style.x_ticks(right - left))
    if panel.x.grid and x_values:
        yield _rules([(at, peak, at, base) for at in x(x_values).tolist()], "grid", GRID)
    for at, text in zip(y_places, texts, strict=True):
        yield style.words(left - _GAP, at + 0.36 * style.text["tick"], text, "tick", anchor="end")
    if not panel.x.show:
        return
    yield _rules([(left, base, right, base)], "axis", MUTED, 0.6)
    x_texts, rotated = _x_tick_texts(panel.x, x, style)
    low = base + style.line("tick") + 1
    for at, text in zip(x(x_values).tolist(), x_texts, strict=True):
        place: dict[str, Any] = {"anchor": "end", "rotate": _ROTATED} if rotated else {"anchor": "middle"}
        yield style.words(at, base + 12 if rotated else low, text, "tick", **place)
    if panel.x.label:
        low = base + _x_tick_height(panel.x, x, style) + style.line("label")
        yield style.words(right, low, panel.x.label, "label", anchor="end")


def _rules(places: Sequence[Sequence[float]], css: str, colour: Colour, opacity: float = 1.0) -> Shapes:
    return Shapes("line", places, stroke=colour, opacity=opacity, css=css, stroke_width=0.7)


def _scale_bar(bar: tuple[str, float], x: Scale, top: float, style: _Style) -> list[Shapes | Words]:
    unit, length = bar
    long = nice_step(0.0, x.high - x.low)
    left, right = x.start, float(x(x.low + long))
    path = np.array([(left, top - 4), (left, top), (right, top), (right, top - 4)])
    words = style.words(right + _GAP, top + 2, quantity(long / length, unit), "tick")
    return [Shapes("path", [path], stroke=MUTED, css="scale"), words]


def _draw_mark(mark: Mark, x: Scale, y: Scale, style: _Style) -> list[Shapes | Words]:
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


def _draw_line(line: Line, x: Scale, y: Scale, style: _Style) -> list[Shapes | Words]:
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
        points = Dots(across, up, line.colour, line.shape, radius=_LINE_DOT, series=line.series)
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


def _draw_dots(dots: Dots, x: Scale, y: Scale, style: _Style) -> list[Shapes | Words]:
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
    return [*items, _dot_shapes(places, dots, colour, style, per_item)]


def _dot_shapes(
    places: Floats, dots: Dots, colour: Colours, style: _Style, per_item: Mapping[str, Any] | None = None
) -> Shapes:
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
    at: Floats, low: ArrayLike | None, high: ArrayLike | None, colour: Colours, scale: Scale, style: _Style
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


def _draw_level(level: Level, x: Scale, y: Scale, style: _Style) -> list[Shapes | Words]:
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


def _own_keys(panel: Panel, style: _Style) -> Sequence[Key]:
    """Return the entries of a panel's own legend."""
    return (panel.keys or _keys(panel.marks)) if panel.legend and style.legend else ()


def _keys(marks: Sequence[Mark]) -> list[Key]:
    """Return one entry for each label, in the order of the marks."""
    found: dict[str, Key] = {}
    for mark in marks:
        if isinstance(mark, Line | Dots | Bars) and mark.label:
            found.setdefault(mark.label, Key(mark.label, mark))
    return list(found.values())


def _legend(
    keys: Sequence[Key], left: float, wide: float, top: float, style: _Style
) -> tuple[list[Shapes | Words], float]:
    """Draw entries side by side, in as many lines as they need; also return the height."""
    sample, apart = 1.7 * style.text["label"], 1.4 * style.text["label"]
    line = 1.2 * style.line("label")
    items: list[Shapes | Words] = []
    x, y = left, top + line / 2
    for key in keys:
        long = sample + 4 + style.text_width(key.label, "label")
        if x > left and x + long > left + wide:
            x, y = left, y + line
        items += _sample(key.mark, x, y, sample, style)
        items.append(style.words(x + sample + 4, y + 0.35 * style.text["label"], key.label, "label", colour=INK))
        x += long + apart
    return items, y + line / 2 - top


def _sample(mark: Line | Dots | Bars, x: float, y: float, wide: float, style: _Style) -> list[Shapes | Words]:
    middle = x + wide / 2
    colour = mark.colour if isinstance(mark.colour, int | str) else mark.colour[0] if len(mark.colour) else MUTED
    if isinstance(mark, Bars):
        side = 0.9 * style.text["label"]
        return [Shapes("rect", [(middle - side / 2, y - side / 2, side, side)], fill=colour)]
    if isinstance(mark, Line):
        dash = mark.dash or (dash_of(colour) if isinstance(colour, int) else "solid")
        path = np.array([(x, y), (x + wide, y)])
        look: dict[str, Any] = {"stroke_width": mark.width * style.marks, "dash": dash, "opacity": mark.opacity}
        line = Shapes("path", [path], stroke=colour, **look)
        if mark.shape is None:
            return [line]
        place = np.array([[middle, y, _LINE_DOT * style.marks]])
        return [line, _dot_shapes(place, Dots([0], [0], shape=mark.shape), colour, style)]
    radius = float(np.max(np.asarray(mark.radius), initial=0.0)) if not mark.cell else 3.0 / style.marks
    place = np.array([[middle, y, min(radius * style.marks, 0.6 * style.text["label"])]])
    return [_dot_shapes(place, replace(mark, series=None), colour, style)]


def _coloured(kind: Literal["fill", "stroke"], colour: Colours) -> dict[str, Any]:
    return {kind: colour} if isinstance(colour, int | str) else {f"{kind}s": tuple(colour)}


def _chosen(values: Sequence[Any], chosen: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    return tuple(value for value, kept in zip(values, chosen, strict=True) if kept) if len(values) else ()


def _em(letter: str) -> float:
    """Return the width of a letter in units of the font size, as a wide sans-serif font has it."""
    if letter in _NARROW:
        return 0.36
    if letter in _WIDE or letter > "\u2e80":
        return 0.98
    return 0.7 if letter.isupper() else 0.62


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 1] + "…"


def _visible(name: str) -> str:
    return {" ": "␣", "\n": "↵"}.get(name, name)
