"""Where the time of a task goes: sharing once, then download, compute and upload of all rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from fedcast.report.figures.axes import add_legend, dress, plain_axes
from fedcast.report.figures.palette import colour
from fedcast.typing import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure


PARTS = ("sharing", "download", "compute", "upload")
# Places in the palette, the last ones: strategies are coloured from the front.
PART_COLOURS = (4, 7, 5, 6)


@dataclass(frozen=True, eq=False)
class DelaySplit:
    """What is drawn.

    Attributes:
        names: of the S bars.
        seconds: float64[S, 4], the length of each part.
    """

    names: tuple[str, ...]
    seconds: Floats

    @property
    def begins(self) -> Floats:
        """Where each part begins, float64[S, 4]."""
        begins: Floats = np.cumsum(self.seconds, axis=1) - self.seconds
        return begins

    @property
    def totals(self) -> Floats:
        """Length of each bar, float64[S]."""
        totals: Floats = self.seconds.sum(axis=1)
        return totals


def delay_split(names: Sequence[str], seconds: ArrayLike) -> DelaySplit:
    """One bar per name.

    Example:
        >>> split = delay_split(["FedAvg"], [[0.0, 1.0, 4.0, 5.0]])
        >>> split.begins.tolist(), split.totals.tolist()
        ([[0.0, 0.0, 1.0, 5.0]], [10.0])
    """
    return DelaySplit(tuple(names), np.asarray(seconds, dtype=np.float64).reshape(len(names), len(PARTS)))


def draw_delay_split(split: DelaySplit, title: str = "Where the time goes") -> Figure:
    """Lying stacked bars, the first name on top."""
    figure, axes = plain_axes(title, "simulated seconds", "", (5.6, 1.6 + 0.4 * len(split.names)))
    dress(axes, grid="x")
    axes.grid(visible=False, axis="y")
    rows = range(len(split.names))
    for part, name in enumerate(PARTS):
        axes.barh(
            rows, split.seconds[:, part], left=split.begins[:, part], height=0.62,
            color=colour(PART_COLOURS[part]), label=name,
        )  # fmt: skip
    axes.set_yticks(rows, split.names)
    axes.invert_yaxis()
    add_legend(figure)
    return figure
