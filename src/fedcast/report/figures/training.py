"""Figures of trained runs: learning curves, where time goes, and delay against leakage."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fedcast.formatting import SPACE, percent, quantity
from fedcast.report.colours import INK, PAPER, dash_of
from fedcast.report.drawing import Axis, Bars, Dots, Figure, Key, Level, Line, Mark, Panel, Text
from fedcast.report.figures.users import evenly_spaced
from fedcast.report.scales import upper_end
from fedcast.typing import Floats

# What the band of a learning curve shows.
Bands = Literal["interval", "range"]
PARTS = ("sharing", "download", "compute", "upload")
# Series numbers from the end of the palette: strategies are coloured from its front.
PART_COLOURS = (4, 7, 5, 6)
# As many points as a line of usual width can show.
MAX_POINTS = 300
# Heights of a row of bars, and of all rows if they fit; and what the names above bars and the gaps below them take.
_LEAST_ROW, _MOST_ROW, _ALL_ROWS = 42.0, 72.0, 226.0
_ABOVE_BAR, _AROUND_BAR = 19.0, 27.0


def learning_curve(
    name: str,
    series: int,
    courses: Sequence[tuple[Sequence[float], Sequence[float]]],
    max_points: int = MAX_POINTS,
    bands: Bands = "interval",
) -> Line:
    """Return the mean over seeds, one (x, y) per seed, interpolated linearly over the range that all seeds cover.

    The band of several seeds is the 95 % confidence interval of the mean (``interval``), as in tables, or reaches from
    the lowest to the highest seed (``range``).

    Example:
        >>> courses = [([0, 1, 2], [0.0, 0.4, 0.6]), ([0, 1, 2], [0.2, 0.4, 1.0])]
        >>> line = learning_curve("daca", 1, courses, bands="range")
        >>> line.y.tolist(), line.low.tolist(), line.high.tolist()
        ([0.1, 0.4, 0.8], [0.0, 0.4, 0.6], [0.2, 0.4, 1.0])
    """
    start = max(x[0] for x, _ in courses)
    end = max(start, min(x[-1] for x, _ in courses))
    points = np.unique(np.array([start, *(x for x in courses[0][0] if start < x < end), end], dtype=np.float64))
    points = points[evenly_spaced(len(points), max_points)]
    values = np.array([np.interp(points, x, y) for x, y in courses])
    low = high = None
    if len(courses) > 1 and bands == "range":
        low, high = values.min(axis=0), values.max(axis=0)
    elif len(courses) > 1:
        from fedcast.runs import half_widths  # needs PyTorch, which figures of plans do not

        half = half_widths(values)
        low, high = values.mean(axis=0) - half, values.mean(axis=0) + half
    return Line(points, values.mean(axis=0), series, low, high, label=name, series=series)


def leakage_curve(
    name: str, series: int, ratio: ArrayLike, delay_s: ArrayLike, measured: tuple[float, float] | None = None
) -> list[Line | Dots]:
    """Return delay against leakage of one run: a line and dots of the plan, float[P], and a ring for what was measured.

    Only Pareto-optimal points are kept: no other leaks as little and takes less time. `measured` is the average sharing
    ratio, with the simulated seconds to the target in training; None: it was not met.

    Example:
        >>> line, dots = leakage_curve("daca", 1, [0.1, 0.0, 0.05, 0.05], [7.0, 9.0, 9.5, 8.0])
        >>> line.x.tolist(), line.y.tolist()
        ([0.0, 0.05, 0.1], [9.0, 8.0, 7.0])
    """
    ratios, delays = np.asarray(ratio, dtype=np.float64), np.asarray(delay_s, dtype=np.float64)
    order = np.lexsort((delays, ratios))
    ratios, delays = ratios[order], delays[order]
    kept = delays < np.minimum.accumulate([np.inf, *delays[:-1]])
    ratios, delays = ratios[kept], delays[kept]

    def tip(kind: str, ratio: float, delay_s: float) -> str:
        return f"{name}, {kind}\n{quantity(delay_s, 's')} at an average sharing ratio of {percent(ratio)}"

    tips = [tip("planned", *point) for point in zip(ratios.tolist(), delays.tolist(), strict=True)]
    # A line may be a single dot, which must differ too between series of the same colour.
    colour, edge = (series, None) if dash_of(series) == "solid" else (PAPER, series)
    marks: list[Line | Dots] = [
        Line(ratios, delays, series, width=1.3, opacity=0.7, label=name, series=series),
        Dots(ratios, delays, colour, radius=3.4, edge=edge, css="dot", series=series, tips=tips),
    ]
    if measured is not None:
        at, seconds = measured
        tips = [tip("measured in training", at, seconds)]
        marks.append(Dots([at], [seconds], series, hollow=True, radius=5.6, css="ring", series=series, tips=tips))
    return marks


def curves_figure(
    lines: Sequence[Line], title: str, x_label: str, *, target: float | None = None, is_share: bool = False
) -> Figure:
    """Draw learning curves, and the target as a dashed line."""
    # Time begins at 0, before sharing; nothing is known of the model until sharing is over.
    end = max(float(np.max(line.x)) for line in lines) or 1.0
    highest = (
        1.0 if is_share else upper_end(float(np.max(line.y if line.high is None else line.high)) for line in lines)
    )
    if is_share:  # an interval of the mean of shares may reach beyond 0 and 1
        lines = [_within(line) for line in lines]
    marks: list[Mark] = [] if target is None else [Level(target, f"target {percent(target)}")]
    axes = Axis(x_label, (0.0, end), whole=x_label == "round"), Axis(limits=(0.0, highest), percent=is_share)
    says = f"{title} against {x_label} of {', '.join(line.label for line in lines)}"
    return Figure([[Panel([*marks, *lines], *axes)]], title, description=says)


def users_curve(
    name: str, series: int, accuracies: Sequence[Sequence[float]], max_points: int = 101, bands: Bands = "interval"
) -> Line:
    """Return the accuracies of users from the worst to the best, mean over seeds; one list of users per seed.

    Example:
        >>> line = users_curve("daca", 1, [[0.9, 0.1, 0.5]], max_points=3)
        >>> line.x.tolist(), line.y.tolist()
        ([0.0, 0.5, 1.0], [0.1, 0.5, 0.9])
    """
    shares = np.linspace(0.0, 1.0, max_points)
    courses = [(shares.tolist(), np.quantile(np.asarray(each), shares).tolist()) for each in accuracies]
    return learning_curve(name, series, courses, max_points, bands)


def users_figure(lines: Sequence[Line], title: str) -> Figure:
    """Draw curves of `users_curve`; the left tenth are the worst users."""
    axes = Axis("users, from the worst to the best", (0.0, 1.0), percent=True), Axis(limits=(0.0, 1.0), percent=True)
    tenth = Text(0.1, 0.0, "worst tenth", dx=4.0, dy=-5.0)
    marks: list[Mark] = [Level(0.1, vertical=True), *map(_within, lines), tenth]
    says = f"{title}, of {', '.join(line.label for line in lines)}"
    return Figure([[Panel(marks, *axes)]], title, description=says)


def _within(line: Line) -> Line:
    """Return the line with its band within 0 and 1."""
    if line.low is None or line.high is None:
        return line
    return replace(line, low=np.clip(line.low, 0.0, 1.0), high=np.clip(line.high, 0.0, 1.0))


def delay_figure(
    names: Sequence[str],
    seconds: Floats,
    title: str = "Where the time goes",
    x_label: str = "simulated seconds",
    bounds: Collection[str] = (),
) -> Figure:
    """Draw the parts of S strategies' delays, float64[S, 4], as stacked bars, the name and the total above each.

    Totals of the strategies in `bounds` are marked as lower bounds.
    """
    rows, totals = len(names), seconds.sum(axis=1).tolist()
    tall = min(max(_ALL_ROWS / rows, _LEAST_ROW), _MOST_ROW)
    width = (tall - _AROUND_BAR) / tall
    row, part = np.nonzero(seconds > 0)
    lengths, begins = seconds[row, part], (np.cumsum(seconds, axis=1) - seconds)[row, part]
    parts = part.tolist()
    tips = [
        f"{names[place]}: {PARTS[kind]}\n{quantity(length, 's')}, "
        f"{percent(length / totals[place])} of {quantity(totals[place], 's')}"
        for place, kind, length in zip(row.tolist(), parts, lengths.tolist(), strict=True)
    ]
    bars = Bars(
        row + _ABOVE_BAR / tall + width / 2, lengths, [PART_COLOURS[kind] for kind in parts], begins, width,
        horizontal=True, tips=tips, data={"part": [PARTS[kind] for kind in parts]},
    )  # fmt: skip
    end = upper_end(totals)
    texts = [Text(0.0, place, name, dy=12.0, role="name") for place, name in enumerate(names)]
    for place, (name, total) in enumerate(zip(names, totals, strict=True)):
        sign = f">{SPACE}" if name in bounds else ""
        texts.append(Text(end, place, sign + quantity(total, "s"), "end", dy=12.0, role="name"))
    x = Axis(x_label, (0.0, end), grid=True)
    panel = Panel([bars, *texts], x, Axis(limits=(0.0, float(rows)), show=False, flipped=True), height=tall * rows)
    keys = [Key(name, Bars([0], [0], colour)) for name, colour in zip(PARTS, PART_COLOURS, strict=True)]
    says = "Seconds of sharing, download, compute and upload of " + ", ".join(names)
    return Figure([[panel]], title, keys=keys, description=says)


def privacy_figure(epsilon: ArrayLike, delay_s: ArrayLike, kinds: Sequence[str]) -> Figure:
    """Draw the planned delay if heads send samples with differential privacy, against ε, float[P] each.

    Example:
        >>> privacy_figure([0, 1, 4], [9.0, 8.0, 7.0], ["none", "synthetic", "synthetic"]).title
        'Delay against ε'
    """
    losses, delays = np.asarray(epsilon, dtype=np.float64), np.asarray(delay_s, dtype=np.float64)
    tips = [
        f"{kind if loss else 'nothing sent'}\n{quantity(delay, 's')} at ε = {loss:g}"
        for loss, delay, kind in zip(losses.tolist(), delays.tolist(), kinds, strict=True)
    ]
    marks: list[Mark] = [
        Line(losses, delays, 1, width=1.3, opacity=0.7, label="plan", series=1),
        Dots(losses, delays, 1, radius=3.4, css="dot", series=1, tips=tips),
    ]
    x = Axis("privacy loss ε of a head", (0.0, upper_end(losses.tolist())))
    says = "Planned seconds to the target against the privacy loss of a head"
    return Figure([[Panel(marks, x, Axis("seconds to the target"))]], "Delay against ε", description=says)


def leakage_figure(curves: Sequence[Line | Dots], title: str = "Delay against leakage") -> Figure:
    """Draw the curves of runs, see `leakage_curve`."""
    marks = list(curves)
    if any(isinstance(mark, Dots) and mark.hollow for mark in curves):
        marks.append(Dots([], [], INK, hollow=True, radius=5.0, label="measured in training"))
    x = Axis("average sharing ratio", (0.0, upper_end(float(np.max(mark.x)) for mark in curves)), percent=True)
    says = "Planned seconds to the target against the average sharing ratio"
    return Figure([[Panel(marks, x, Axis("seconds to the target"))]], title, description=says)
