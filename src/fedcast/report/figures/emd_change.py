"""What sharing did to each user's distance from the whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcast.report.figures.axes import add_legend, plain_axes, shown_of
from fedcast.report.figures.choose import evenly
from fedcast.report.figures.output import GRID, MUTED
from fedcast.report.figures.palette import colour
from fedcast.typing import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure


MAX_USERS = 120
LARGEST_EMD = 2.0


@dataclass(frozen=True, eq=False)
class EmdChange:
    """What is drawn, users in order of their EMD before sharing.

    Attributes:
        users: int64[U], which users are shown.
        num_users: how many there are.
        before: float64[U].
        after: float64[U].
    """

    users: NDArray[np.int64]
    num_users: int
    before: Floats
    after: Floats


def emd_change(before: ArrayLike, after: ArrayLike, max_users: int = MAX_USERS) -> EmdChange:
    """Sort users by their EMD before sharing, and show as many as there is room for, evenly over that order.

    Example:
        >>> shown = emd_change([1.8, 0.4, 1.2], [1.5, 0.4, 0.9])
        >>> shown.users.tolist(), shown.after.tolist()
        ([1, 2, 0], [0.4, 0.9, 1.5])
    """
    first, second = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
    order = np.lexsort((second, first))
    users = order[evenly(len(order), max_users)]
    return EmdChange(users, len(order), first[users], second[users])


def draw_emd_change(shown: EmdChange, title: str = "Distance of each user from the whole") -> Figure:
    """A ring before and a dot after sharing, joined, one pair per user."""
    figure, axes = plain_axes(
        title + shown_of(len(shown.users), shown.num_users), "users, by EMD before sharing", "EMD"
    )
    places = np.arange(len(shown.users))
    axes.vlines(places, shown.after, shown.before, color=GRID, linewidth=1.2)
    axes.scatter(places, shown.before, s=12, facecolors="none", edgecolors=MUTED, linewidths=0.9, label="before")
    axes.scatter(places, shown.after, s=10, color=colour(1), linewidths=0, label="after sharing")
    axes.set_ylim(0, LARGEST_EMD)
    axes.set_xticks([])
    add_legend(figure)
    return figure
