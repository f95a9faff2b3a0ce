"""A quantity over the course of training: the mean over seeds, and how far seeds lie apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from fedcast.report.figures.axes import add_legend, plain_axes
from fedcast.report.figures.choose import evenly
from fedcast.report.figures.output import MUTED
from fedcast.report.figures.palette import colour, pattern
from fedcast.typing import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# As many points as a line of this width can show.
_MAX_POINTS = 300


@dataclass(frozen=True, eq=False)
class Curve:
    """One line with its band.

    Attributes:
        name: of the line.
        series: its number, which decides its colour.
        x: float64[P], rounds or seconds, ascending.
        mean: float64[P], over seeds.
        low: float64[P], the lowest seed.
        high: float64[P], the highest seed.
        seeds: how many there are.
    """

    name: str
    series: int
    x: Floats
    mean: Floats
    low: Floats
    high: Floats
    seeds: int


def curve(
    name: str, series: int, courses: Sequence[tuple[ArrayLike, ArrayLike]], max_points: int = _MAX_POINTS
) -> Curve:
    """The mean of one course (x, y) per seed, over the stretch that all of them cover, straight between their points.

    Example:
        >>> found = curve("daca", 1, [([0, 1, 2], [0.0, 0.4, 0.6]), ([0, 1, 2], [0.2, 0.4, 1.0])])
        >>> found.mean.tolist(), found.low.tolist(), found.high.tolist()
        ([0.1, 0.4, 0.8], [0.0, 0.4, 0.6], [0.2, 0.4, 1.0])
    """
    pairs = [(np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)) for x, y in courses]
    grid = _common_points([x for x, _ in pairs])
    grid = grid[evenly(len(grid), max_points)]
    values = np.array([np.interp(grid, x, y) for x, y in pairs])
    return Curve(name, series, grid, values.mean(axis=0), values.min(axis=0), values.max(axis=0), len(pairs))


def _common_points(grids: Sequence[Floats]) -> Floats:
    """The first one's points, as far as all reach, and both ends of that stretch."""
    start = max(x[0] for x in grids)
    end = max(start, min(x[-1] for x in grids))
    first = grids[0]
    points: Floats = np.unique(np.concatenate([[start], first[(first > start) & (first < end)], [end]]))
    return points


def draw_curves(curves: Sequence[Curve], title: str, x_label: str, y_label: str, target: float | None = None) -> Figure:
    """Lines with bands from the lowest to the highest seed, and the target as a dashed line."""
    figure, axes = plain_axes(title, x_label, y_label)
    for line in curves:
        tint, dashes = colour(line.series), pattern(line.series)
        axes.plot(line.x, line.mean, color=tint, linestyle=dashes, linewidth=1.6, label=line.name)
        if line.seeds > 1:
            axes.fill_between(line.x, line.low, line.high, color=tint, alpha=0.16, linewidth=0)
    if target is not None:
        axes.axhline(target, color=MUTED, linewidth=1.0, linestyle=(0, (4, 3)), label="target")
    add_legend(figure)
    return figure
