"""Where time goes, and what privacy costs of it."""

from __future__ import annotations

from collections.abc import Sequence

from fedcast.formatting import percent, quantity
from fedcast.report.figures.delay_split import PART_COLOURS, PARTS, DelaySplit
from fedcast.report.figures.leakage import LeakageCurve
from fedcast.report.markup import Markup, empty_tag, join, tag
from fedcast.report.old_svg import (
    BOTTOM,
    HEIGHT,
    RIGHT,
    WIDTH,
    Frame,
    Scale,
    bar,
    ends_around,
    frame,
    line_path,
    plot,
    series_class,
    ticks,
    upper_end,
    x_axis,
    y_axis,
)

_LEAST_ROW, _MOST_ROW = 42.0, 72.0


def split_plot(split: DelaySplit) -> Markup:
    """Stacked bars, the name and the total above each."""
    longest = upper_end(split.totals.tolist())
    tall = min(max((HEIGHT - BOTTOM) / len(split.names), _LEAST_ROW), _MOST_ROW)
    height = tall * len(split.names) + BOTTOM + 6
    place = Frame(Scale(0.0, longest, 4.0, WIDTH - RIGHT), Scale(0.0, 1.0, height - BOTTOM, 4.0), WIDTH, height)
    values = ticks(0.0, longest)
    grid = [
        empty_tag("line", x1=float(at), x2=float(at), y1=place.y.end, y2=place.y.start, class_="grid")
        for at in place.x(values)
    ]
    rows = [_row(place, split, row, tall) for row in range(len(split.names))]
    says = "Seconds of sharing, download, compute and upload of " + ", ".join(split.names)
    axis = x_axis(place, values, "simulated seconds")
    return plot(place, *grid, axis, *rows, name="time-split", says=says)


def _row(place: Frame, split: DelaySplit, row: int, tall: float) -> Markup:
    top = 6 + tall * row
    total = float(split.totals[row])
    texts = [
        tag("text", split.names[row], x=place.x.start, y=top + 12, class_="name"),
        tag("text", quantity(total, "s"), x=place.x.end, y=top + 12, class_="name", text_anchor="end"),
    ]
    bars = []
    for part, name in enumerate(PARTS):
        length, begin = float(split.seconds[row, part]), float(split.begins[row, part])
        if length > 0:
            left, right = place.x([begin, begin + length]).tolist()
            share = f"{percent(length / total)} of {quantity(total, 's')}"
            tip = f"{split.names[row]}: {name}\n{quantity(length, 's')}, {share}"
            look = f"mark s{PART_COLOURS[part]}"
            bars.append(bar(left, top + 19, right - left, tall - 27, class_=look, data_tip=tip, data_part=name))
    return join([*texts, *bars])


def leakage_plot(curves: Sequence[LeakageCurve]) -> Markup:
    """Planned delay against planned leakage, one line per run, and a ring where training met the target."""
    measured = [line.measured for line in curves if line.measured is not None]
    ratios = [float(line.ratio[-1]) for line in curves] + [ratio for ratio, _ in measured]
    delays = [float(line.delay_s[0]) for line in curves] + [delay for _, delay in measured]
    delays += [float(line.delay_s[-1]) for line in curves]
    end, (bottom, top) = upper_end(ratios), ends_around(delays)
    place = frame((0.0, end), (bottom, top))
    marks = [
        y_axis(place, ticks(bottom, top), "seconds to the target"),
        x_axis(place, ticks(0.0, end), "average sharing ratio", percent),
        *(_curve(place, line) for line in curves),
    ]
    says = "Planned seconds to the target against the average sharing ratio"
    return plot(place, *marks, name="leakage", says=says, data_nearest=True)


def _curve(place: Frame, line: LeakageCurve) -> Markup:
    x, y = place.x(line.ratio), place.y(line.delay_s)
    parts = [empty_tag("path", d=line_path(x, y), class_="line thin")]
    for ratio, delay, left, top in zip(line.ratio, line.delay_s, x.tolist(), y.tolist(), strict=True):
        tip = f"{line.name}, planned\n{_point(float(ratio), float(delay))}"
        parts.append(empty_tag("circle", cx=left, cy=top, r=3.4, class_="mark dot", data_tip=tip))
    if line.measured is not None:
        ratio, delay = line.measured
        tip = f"{line.name}, measured in training\n{_point(ratio, delay)}"
        ring = {"cx": float(place.x(ratio)), "cy": float(place.y(delay)), "r": 5.6}
        parts.append(empty_tag("circle", class_="mark ring", data_tip=tip, **ring))
    return tag("g", *parts, class_=series_class(line.series), data_series=line.series)


def _point(ratio: float, delay_s: float) -> str:
    return f"{quantity(delay_s, 's')} at an average sharing ratio of {percent(ratio)}"
