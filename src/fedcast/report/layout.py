"""Lay a figure out: from panels and marks in units of the data to shapes and texts at places in points.

`svg` and `save` draw what comes out without any decision of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Literal

import numpy as np

from fedcast.errors import FedcastError
from fedcast.formatting import number, percent, quantity
from fedcast.report.colours import GRID, INK, MUTED, Colour
from fedcast.report.drawing import Axis, Bars, Dots, Figure, Key, Line, Mark, Panel, Role, Segments
from fedcast.report.scales import Scale, ends_around, log_ticks, nice_step, ticks
from fedcast.report.shapes import LINE_DOT, Items, Shapes, Style, Words, dot_shapes, draw_mark, extent_of, line_shapes

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
# Room for a tick, in units of its text size.
_PER_TICK = {"x": 6.5, "y": 3.4}
_GAP, _EDGE = 6.0, 3.0
_ROTATED, _LONGEST_LABEL = 30.0, 16
_BLANKS = {" ": "␣", "\n": "↵"}


@dataclass(frozen=True, eq=False)
class Drawing:
    """A figure that was laid out, in points: items in drawing order, and the x and y scale of each panel."""

    width: float
    height: float
    items: tuple[Shapes | Words, ...]
    scales: tuple[tuple[Scale, Scale], ...]
    description: str


def lay_out(figure: Figure, width: str = "screen", *, html: bool = False) -> Drawing:
    """Place everything in a figure; widths are those of `fedcast.report.save_figure`.

    With `html` it is laid out for the report page, which shows title and legend itself.

    Example:
        >>> drawing = lay_out(Figure([[Panel([Line([0, 1], [2, 3], label="a")])]]), "column")
        >>> drawing.width, [word.text for word in drawing.items if isinstance(word, Words)][-1]
        (252.0, 'a')
    """
    check_width(width)
    wide = WIDTHS_PT[width] or figure.width
    # A narrow figure is not as low as it is narrow, and its marks not as small.
    ratio = wide / figure.width
    style = Style(wide, _TEXT_PT[width], marks=min(1.0, ratio**0.5), heights=min(1.0, ratio**0.6))
    if html:
        style = Style(figure.width, _TEXT_PT["html"], _HTML_ROOM, legend=False)
    columns = _columns(figure, style)
    top, items = _heading(figure, style)
    scales: list[tuple[Scale, Scale]] = []
    for row in figure.rows:
        heads, below, draws = zip(*map(_place, row, columns, repeat(style)), strict=True)
        for draw in draws:
            drawn, both = draw(top, max(heads))
            items += drawn
            scales.append(both)
        top += max(heads) + max(below)
    marks = [mark for row in figure.rows for panel in row if not panel.legend for mark in panel.marks]
    if style.legend and (keys := figure.keys or _keys(marks)):
        found, tall = _legend(keys, _EDGE, style.width - 2 * _EDGE, top + _GAP, style)
        items += found
        top += tall + 2 * _GAP
    return Drawing(style.width, round(top + _EDGE, 1), tuple(items), tuple(scales), figure.description or figure.title)


def check_width(width: str) -> None:
    """Check the name of a width of a figure."""
    if width not in WIDTHS_PT:
        raise FedcastError(f"invalid value {width!r} for width: expected {', '.join(WIDTHS_PT)}")


def _heading(figure: Figure, style: Style) -> tuple[float, Items]:
    """Return the height and the lines of note and title, wrapped to the width of the figure."""
    top, items = _EDGE, Items()
    if not style.legend:
        return top, items
    heads: tuple[tuple[str, Role, Colour], ...] = ((figure.note, "label", 2), (figure.title, "title", INK))
    for text, role, colour in heads:
        lines = [""]
        for word in text.split(" "):
            longer = f"{lines[-1]} {word}".strip()
            if lines[-1] and style.text_width(longer, role) > style.width - 2 * _EDGE:
                lines.append(word)
            else:
                lines[-1] = longer
        for line in lines if text else ():
            top += style.line(role)
            items.append(style.words(_EDGE, top - 2, line, role, colour=colour))
    return top + (_GAP if items else 0.0), items


def _columns(figure: Figure, style: Style) -> list[tuple[float, float, float]]:
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


def _left_room(panel: Panel, style: Style) -> float:
    if not panel.y.show:
        _, texts = _ticks_of(panel, "x", style.width, style)
        return style.text_width(texts[0], "tick") / 2 + 1 if texts and panel.x.tick_labels is None else _EDGE
    _, texts = _ticks_of(panel, "y", panel.height * style.heights, style)
    return max((style.text_width(text, "tick") for text in texts), default=0.0) + _GAP + _EDGE


_Draw = Callable[[float, float], tuple[Items, tuple[Scale, Scale]]]


def _place(panel: Panel, column: tuple[float, float, float], style: Style) -> tuple[float, float, _Draw]:
    """Return the heights of a panel above and below the top of its y axis, and the function that draws it."""
    begin, end, room = column
    low, high = _limits(panel, "x")
    bottom, peak = _limits(panel, "y")
    left, right = begin + room, end - _right_room(panel, end - begin - room, style)
    tall = (right - left) * (peak - bottom) / (high - low) if panel.equal else panel.height * style.heights
    x = _scale(panel.x, low, high, left, right)
    keys = (panel.keys or _keys(panel.marks)) if panel.legend and style.legend else ()
    # The y axis has its label above its end, clear of the topmost tick.
    above = _GAP + 0.6 * style.text["tick"]
    head = _GAP + (style.line("name") + 3.0 if panel.title else 0.0)
    head += above + style.text["label"] if panel.y.label else 0.0
    head += _legend(keys, left, right - left, 0.0, style)[1] + _GAP if keys else 0.0

    def draw(top: float, head: float) -> tuple[Items, tuple[Scale, Scale]]:
        """Draw below `top`; the area between the axes starts `head` below it."""
        first, base = top + head, top + head + tall
        y = _scale(panel.y, bottom, peak, base, first)
        items: Items = []
        if panel.title:
            top += style.line("name")
            items.append(style.words(left, top - 1, panel.title, "name"))
            top += 3.0
        items += _legend(keys, left, right - left, top, style)[0]
        items += _axes(panel, x, y, base, first, style)
        if panel.y.label:
            items.append(style.words(max(begin, _EDGE), first - above, panel.y.label, "label"))
        for mark in panel.marks:
            items += draw_mark(mark, x, y, style)
        if panel.scale_bar is not None:
            (unit, length), long, foot = panel.scale_bar, nice_step(0.0, high - low), base + 2 * _GAP
            start, end = x.start, float(x(low + long))
            path = np.array([(start, foot - 4), (start, foot), (end, foot), (end, foot - 4)])
            items.append(Shapes("path", [path], stroke=MUTED, css="scale"))
            items.append(style.words(end + _GAP, foot + 2, quantity(long / length, unit), "tick"))
        return items, (x, y)

    foot = _EDGE
    if panel.scale_bar is not None:
        foot = 3 * _GAP + style.line("tick")
    elif panel.x.show:
        foot = _x_ticks(panel, x, style)[3] + (style.line("label") + 2 if panel.x.label else 0.0) + _GAP
    return head, tall + foot, draw


def _scale(axis: Axis, low: float, high: float, start: float, end: float) -> Scale:
    start, end = (end, start) if axis.flipped else (start, end)
    return Scale(low, high, start, end, axis.kind, axis.threshold)


def _right_room(panel: Panel, wide: float, style: Style) -> float:
    """Return what the last tick label needs beyond the end of the x axis."""
    values, texts = _ticks_of(panel, "x", wide, style)
    if not texts:
        return 2 * _EDGE
    last, (low, high) = int(np.argmax(values)), _limits(panel, "x")
    beyond = style.text_width(_shortened(texts[last]), "tick") / 2 - wide * (high - values[last]) / ((high - low) or 1)
    return max(2 * _EDGE, beyond + 2)


def _limits(panel: Panel, which: Literal["x", "y"]) -> tuple[float, float]:
    """Return the ends of an axis: as given, or round values that leave room for all marks."""
    axis = panel.x if which == "x" else panel.y
    low, high = axis.limits
    if low is not None and high is not None:
        return low, high if high > low else low + 1.0
    values = np.concatenate([np.zeros(0), *(extent_of(mark, which) for mark in panel.marks)])
    values = values[np.isfinite(values) & (values > (0 if axis.kind == "log" else -np.inf))]
    values = values if len(values) else np.array([0.0, 1.0])
    first = float(values.min()) if low is None else low
    last = float(values.max()) if high is None else high
    if axis.kind == "log":
        nice_low, nice_high = first / 1.1, last * 1.1
    elif which == "y":
        nice_low, nice_high = ends_around([first, last])
    else:
        # Bars and dots need room at the ends, lines do not.
        room = 0.03 * (last - first) if any(isinstance(mark, Bars | Dots) for mark in panel.marks) else 0.0
        nice_low, nice_high = first - room, last + room if last > first else last + 1.0
    return nice_low if low is None else low, nice_high if high is None else high


def _ticks_of(panel: Panel, which: Literal["x", "y"], length: float, style: Style) -> tuple[list[float], list[str]]:
    """Return the marked values of an axis of that length, and their texts."""
    axis, (low, high) = panel.x if which == "x" else panel.y, _limits(panel, which)
    if not axis.show:
        return [], []
    if axis.ticks is not None:
        values = [float(value) for value in axis.ticks]
    elif axis.kind == "log":
        values = log_ticks(low, high)
    else:
        about = round(length / (_PER_TICK[which] * style.text["tick"]))
        values = ticks(low, high, max(2, min(5, about)), axis.whole)
    if axis.tick_labels is not None:
        return values, [_BLANKS.get(text, text) for text in axis.tick_labels]
    if axis.percent or axis.kind == "log":
        return values, [percent(value) if axis.percent else f"{value:g}" for value in values]
    # All have the decimals that the one with most of them needs.
    decimals = max((len(f"{value:.6g}".partition(".")[2]) for value in values), default=0)
    return values, [number(value, decimals) for value in values]


def _x_ticks(panel: Panel, x: Scale, style: Style) -> tuple[list[float], list[str], bool, float]:
    """Return places, texts, whether the texts must be rotated to fit, and their height."""
    values, texts = _ticks_of(panel, "x", abs(x.end - x.start), style)
    texts, places = [_shortened(text) for text in texts], x(values)
    longest = max((style.text_width(text, "tick") for text in texts), default=0.0)
    if panel.x.tick_labels is None or len(texts) < 2 or longest + 4 <= np.min(np.diff(np.sort(places))):
        return places.tolist(), texts, False, style.line("tick") + 3 if texts else 0.0
    return places.tolist(), texts, True, 8 + longest * math.sin(math.radians(_ROTATED)) + style.text["tick"]


def _axes(panel: Panel, x: Scale, y: Scale, base: float, peak: float, style: Style) -> Iterator[Shapes | Words]:
    left, right = sorted((x.start, x.end))
    values, texts = _ticks_of(panel, "y", base - peak, style)
    y_places = y(values).tolist()
    if panel.y.grid is not False and values:
        yield _rules([(left, at, right, at) for at in y_places], "grid", GRID)
    places, x_texts, rotated, height = _x_ticks(panel, x, style)
    if panel.x.grid and places:
        yield _rules([(at, peak, at, base) for at in places], "grid", GRID)
    for at, text in zip(y_places, texts, strict=True):
        yield style.words(left - _GAP, at + 0.36 * style.text["tick"], text, "tick", anchor="end")
    if not panel.x.show:
        return
    yield _rules([(left, base, right, base)], "axis", MUTED, 0.6)
    low = base + 12 if rotated else base + style.line("tick") + 1
    look: dict[str, Any] = {"anchor": "end", "rotate": _ROTATED} if rotated else {"anchor": "middle"}
    for at, text in zip(places, x_texts, strict=True):
        yield style.words(at, low, text, "tick", **look)
    if panel.x.label:
        yield style.words(right, base + height + style.line("label"), panel.x.label, "label", anchor="end")


def _rules(places: Sequence[Sequence[float]], css: str, colour: Colour, opacity: float = 1.0) -> Shapes:
    return Shapes("line", places, stroke=colour, opacity=opacity, css=css, stroke_width=0.7)


def _keys(marks: Sequence[Mark]) -> list[Key]:
    """Return one entry for each label, in the order of the marks."""
    labelled = [mark for mark in marks if isinstance(mark, Line | Dots | Bars | Segments) and mark.label]
    first = {mark.label: mark for mark in reversed(labelled)}
    return [Key(label, first[label]) for label in dict.fromkeys(mark.label for mark in labelled)]


def _legend(keys: Sequence[Key], left: float, wide: float, top: float, style: Style) -> tuple[Items, float]:
    """Draw entries side by side, in as many lines as they need; also return the height."""
    sample, apart = 1.7 * style.text["label"], 1.4 * style.text["label"]
    line = 1.2 * style.line("label")
    items: Items = []
    x, y = left, top + line / 2
    for key in keys:
        long = sample + 4 + style.text_width(key.label, "label")
        if x > left and x + long > left + wide:
            x, y = left, y + line
        items += _sample(key.mark, x, y, sample, style)
        items.append(style.words(x + sample + 4, y + 0.35 * style.text["label"], key.label, "label", colour=INK))
        x += long + apart
    return items, y + line / 2 - top


def _sample(mark: Line | Dots | Bars | Segments, x: float, y: float, wide: float, style: Style) -> Items:
    middle = x + wide / 2
    colour = mark.colour if isinstance(mark.colour, int | str) else mark.colour[0] if len(mark.colour) else MUTED
    if isinstance(mark, Bars):
        side = 0.9 * style.text["label"]
        return [Shapes("rect", [(middle - side / 2, y - side / 2, side, side)], fill=colour)]
    if isinstance(mark, Segments):
        mark = Line([], [], colour, dash=mark.dash, width=max(mark.width, 1.0), opacity=mark.opacity)
    if isinstance(mark, Line):
        line = line_shapes(mark, [np.array([(x, y), (x + wide, y)])], style)
        if mark.shape is None:
            return [line]
        place = np.array([[middle, y, LINE_DOT * style.marks]])
        return [line, dot_shapes(place, Dots([0], [0], shape=mark.shape), colour, style)]
    radius = float(np.max(np.asarray(mark.radius), initial=0.0)) if not mark.cell else 3.0 / style.marks
    place = np.array([[middle, y, min(radius * style.marks, 0.6 * style.text["label"])]])
    return [dot_shapes(place, mark, colour, style)]


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 1] + "…"
