"""What privacy costs in time: the delay of a task against the share of data that leaves its owner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from fedcast.report.figures.axes import add_legend, plain_axes
from fedcast.report.figures.palette import colour, pattern
from fedcast.typing import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class LeakageCurve:
    """What is drawn of one run.

    Attributes:
        name: of its strategy.
        series: number of its strategy, for the colour.
        ratio: float64[P], average sharing ratio as planned, ascending.
        delay_s: float64[P], delay of the task as planned, descending.
        measured: average sharing ratio, and simulated seconds to the target in training; None: it was not met.
    """

    name: str
    series: int
    ratio: Floats
    delay_s: Floats
    measured: tuple[float, float] | None


def leakage_curve(
    name: str, series: int, ratio: ArrayLike, delay_s: ArrayLike, measured: tuple[float, float] | None = None
) -> LeakageCurve:
    """The points worth choosing: no other leaks as little and takes less time.

    Example:
        >>> found = leakage_curve("daca", 1, [0.1, 0.0, 0.05, 0.05], [7.0, 9.0, 9.5, 8.0])
        >>> found.ratio.tolist(), found.delay_s.tolist()
        ([0.0, 0.05, 0.1], [9.0, 8.0, 7.0])
    """
    ratios, delays = np.asarray(ratio, dtype=np.float64), np.asarray(delay_s, dtype=np.float64)
    order = np.lexsort((delays, ratios))
    ratios, delays = ratios[order], delays[order]
    before = np.concatenate([[np.inf], np.minimum.accumulate(delays)[:-1]])
    kept = delays < before
    return LeakageCurve(name, series, ratios[kept], delays[kept], measured)


def draw_leakage(curves: Sequence[LeakageCurve], title: str = "Delay against leakage") -> Figure:
    """A line of what was planned per run, and a ring for what was measured."""
    figure, axes = plain_axes(title, "average sharing ratio", "simulated seconds to the target")
    named: set[str] = set()
    for line in curves:
        label = None if line.name in named else line.name
        named.add(line.name)
        tint, dashes = colour(line.series), pattern(line.series)
        # A line may be a single dot: it, too, must tell series of one colour apart.
        inside = tint if dashes == "solid" else "white"
        axes.plot(
            line.ratio, line.delay_s, color=tint, linestyle=dashes, linewidth=1.4, label=label,
            marker="o", markersize=4, markerfacecolor=inside,
        )  # fmt: skip
        if line.measured is not None:
            axes.scatter(*line.measured, s=48, facecolors="none", edgecolors=tint, linewidths=1.6)
    if any(line.measured is not None for line in curves):
        axes.scatter([], [], s=48, facecolors="none", edgecolors="black", linewidths=1.2, label="measured in training")
    add_legend(figure)
    return figure
