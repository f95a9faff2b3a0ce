"""Figures of trained runs: learning curves, where time goes, and delay against leakage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedcast.formatting import percent, quantity
from fedcast.report.colours import INK, PAPER, dash_of
from fedcast.report.drawing import Axis, Bars, Dots, Figure, Key, Level, Line, Mark, Panel, Text
from fedcast.report.figures.users import evenly_spaced
from fedcast.report.scales import ends_around, upper_end
from fedcast.typing import Floats

PARTS = ("sharing", "download", "compute", "upload")
# Series numbers from the end of the palette: strategies are coloured from its front.
PART_COLOURS = (4, 7, 5, 6)
# As many points as a line of usual width can show.
_MAX_POINTS = 300
# Heights of a row of bars, and of all rows if they fit; and what the names above bars and the gaps below them take.
_LEAST_ROW, _MOST_ROW, _ALL_ROWS = 42.0, 72.0, 226.0
_ABOVE_BAR, _AROUND_BAR = 19.0, 27.0


@dataclass(frozen=True, eq=False)
class Curve:
    """A quantity during training over seeds, at float64[P] rounds or seconds; `series` decides the colour."""

    name: str
    series: int
    x: Floats
    mean: Floats
    low: Floats
    high: Floats
    seeds: int


@dataclass(frozen=True, eq=False)
class DelaySplit:
    """Parts of the delay of S strategies, float64[S, 4]."""

    names: Sequence[str]
    seconds: Floats

    @property
    def totals(self) -> Floats:
        """Sum of each strategy's parts, float64[S]."""
        totals: Floats = self.seconds.sum(axis=1)
        return totals


@dataclass(frozen=True, eq=False)
class LeakageCurve:
    """Delay against leakage of one run.

    Attributes:
        ratio: float64[P], average sharing ratio as planned, ascending.
        delay_s: float64[P], delay of the task as planned, descending.
        measured: average sharing ratio, and simulated seconds to the target in training; None: it was not met.
    """

    name: str
    series: int
    ratio: Floats
    delay_s: Floats
    measured: tuple[float, float] | None


def curve(
    name: str, series: int, courses: Sequence[tuple[ArrayLike, ArrayLike]], max_points: int = _MAX_POINTS
) -> Curve:
    """Return the mean over seeds, one (x, y) per seed, interpolated linearly over the range that all seeds cover.

    Example:
        >>> found = curve("daca", 1, [([0, 1, 2], [0.0, 0.4, 0.6]), ([0, 1, 2], [0.2, 0.4, 1.0])])
        >>> found.mean.tolist(), found.low.tolist(), found.high.tolist()
        ([0.1, 0.4, 0.8], [0.0, 0.4, 0.6], [0.2, 0.4, 1.0])
    """
    pairs = [(np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)) for x, y in courses]
    grid = _common_points([x for x, _ in pairs])
    grid = grid[evenly_spaced(len(grid), max_points)]
    values = np.array([np.interp(grid, x, y) for x, y in pairs])
    return Curve(name, series, grid, values.mean(axis=0), values.min(axis=0), values.max(axis=0), len(pairs))


def _common_points(grids: Sequence[Floats]) -> Floats:
    """Return the first one's points within the range of all, and both ends of that range."""
    start = max(x[0] for x in grids)
    end = max(start, min(x[-1] for x in grids))
    points: Floats = np.unique([start, *(x for x in grids[0] if start < x < end), end])
    return points


def leakage_curve(
    name: str, series: int, ratio: ArrayLike, delay_s: ArrayLike, measured: tuple[float, float] | None = None
) -> LeakageCurve:
    """Keep the Pareto-optimal points: no other leaks as little and takes less time.

    Example:
        >>> found = leakage_curve("daca", 1, [0.1, 0.0, 0.05, 0.05], [7.0, 9.0, 9.5, 8.0])
        >>> found.ratio.tolist(), found.delay_s.tolist()
        ([0.0, 0.05, 0.1], [9.0, 8.0, 7.0])
    """
    ratios, delays = np.asarray(ratio, dtype=np.float64), np.asarray(delay_s, dtype=np.float64)
    order = np.lexsort((delays, ratios))
    ratios, delays = ratios[order], delays[order]
    kept = delays < np.minimum.accumulate([np.inf, *delays[:-1]])
    return LeakageCurve(name, series, ratios[kept], delays[kept], measured)


def curves_figure(
    curves: Sequence[Curve], title: str, x_label: str, *, target: float | None = None, is_share: bool = False
) -> Figure:
    """Draw lines with bands from the lowest to the highest seed, and the target as a dashed line."""
    # Time begins at 0, before sharing; nothing is known of the model until sharing is over.
    end = max(float(line.x[-1]) for line in curves) or 1.0
    highest = 1.0 if is_share else upper_end([float(line.high.max()) for line in curves])
    marks: list[Mark] = [] if target is None else [Level(target, f"target {percent(target)}")]
    for line in curves:
        low, high = (line.low, line.high) if line.seeds > 1 else (None, None)
        marks.append(Line(line.x, line.mean, line.series, low, high, label=line.name, series=line.series))
    axes = Axis(x_label, (0.0, end), whole=x_label == "round"), Axis(limits=(0.0, highest), percent=is_share)
    names = ", ".join(line.name for line in curves)
    return Figure([[Panel(marks, *axes)]], title, description=f"{title} against {x_label} of {names}")


def delay_figure(split: DelaySplit, title: str = "Where the time goes") -> Figure:
    """Draw stacked bars, the name and the total above each."""
    rows = len(split.names)
    tall = min(max(_ALL_ROWS / rows, _LEAST_ROW), _MOST_ROW)
    width = (tall - _AROUND_BAR) / tall
    begins = np.cumsum(split.seconds, axis=1) - split.seconds
    row, part = np.nonzero(split.seconds > 0)
    tips = [_part_tip(split, *at) for at in zip(row.tolist(), part.tolist(), strict=True)]
    bars = Bars(
        row + _ABOVE_BAR / tall + width / 2, split.seconds[row, part], [PART_COLOURS[each] for each in part.tolist()],
        begins[row, part], width, horizontal=True, tips=tips,
        data={"part": [PARTS[each] for each in part.tolist()]},
    )  # fmt: skip
    end = upper_end(split.totals.tolist())
    texts = [Text(0.0, place, name, dy=12.0, role="name") for place, name in enumerate(split.names)]
    texts += [
        Text(end, place, quantity(total, "s"), "end", dy=12.0, role="name")
        for place, total in enumerate(split.totals.tolist())
    ]
    x = Axis("simulated seconds", (0.0, end), grid=True)
    panel = Panel([bars, *texts], x, Axis(limits=(0.0, float(rows)), show=False, flipped=True), height=tall * rows)
    keys = [Key(name, Bars([0], [0], colour)) for name, colour in zip(PARTS, PART_COLOURS, strict=True)]
    says = "Seconds of sharing, download, compute and upload of " + ", ".join(split.names)
    return Figure([[panel]], title, keys=keys, description=says)


def _part_tip(split: DelaySplit, row: int, part: int) -> str:
    seconds, total = float(split.seconds[row, part]), float(split.totals[row])
    share = f"{percent(seconds / total)} of {quantity(total, 's')}"
    return f"{split.names[row]}: {PARTS[part]}\n{quantity(seconds, 's')}, {share}"


def leakage_figure(curves: Sequence[LeakageCurve], title: str = "Delay against leakage") -> Figure:
    """Draw a line of what was planned for each run, and a ring for what was measured in training."""
    measured = [line.measured for line in curves if line.measured is not None]
    ratios = [float(line.ratio[-1]) for line in curves] + [ratio for ratio, _ in measured]
    delays = [float(value) for line in curves for value in line.delay_s[[0, -1]]] + [delay for _, delay in measured]
    marks = [mark for line in curves for mark in _leakage_marks(line)]
    if measured:
        marks.append(Dots([], [], INK, hollow=True, radius=5.0, label="measured in training"))
    x = Axis("average sharing ratio", (0.0, upper_end(ratios)), percent=True)
    y = Axis("seconds to the target", ends_around(delays))
    says = "Planned seconds to the target against the average sharing ratio"
    return Figure([[Panel(marks, x, y)]], title, description=says)


def _leakage_marks(line: LeakageCurve) -> list[Mark]:
    series = line.series
    tips = [f"{line.name}, planned\n{_point_text(*at)}" for at in zip(line.ratio, line.delay_s, strict=True)]
    # A line may be a single dot, which must differ too between series of the same colour.
    solid = dash_of(series) == "solid"
    marks: list[Mark] = [
        Line(line.ratio, line.delay_s, series, width=1.3, opacity=0.7, label=line.name, series=series),
        Dots(
            line.ratio, line.delay_s, series if solid else PAPER, radius=3.4, edge=None if solid else series, css="dot",
            series=series, tips=tips,
        ),
    ]  # fmt: skip
    if line.measured is not None:
        ratio, delay = line.measured
        tip = f"{line.name}, measured in training\n{_point_text(ratio, delay)}"
        marks.append(Dots([ratio], [delay], series, hollow=True, radius=5.6, css="ring", series=series, tips=[tip]))
    return marks


def _point_text(ratio: float, delay_s: float) -> str:
    return f"{quantity(float(delay_s), 's')} at an average sharing ratio of {percent(float(ratio))}"
