"""Energy of each user in a round, against what it may spend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcast.report.figures.axes import add_legend, plain_axes, shown_of
from fedcast.report.figures.choose import evenly
from fedcast.report.figures.output import MUTED
from fedcast.report.figures.palette import colour

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_USERS = 120


@dataclass(frozen=True, eq=False)
class UserEnergy:
    """What is drawn, users in order of their energy.

    Attributes:
        users: int64[U], which users are shown.
        num_users: how many there are.
        joules: float64[U], in a round; 0: the user does not train.
        budget_j: what every user may spend in a round; None: users have budgets of their own.
    """

    users: NDArray[np.int64]
    num_users: int
    joules: NDArray[np.float64]
    budget_j: float | None


def user_energy(joules: ArrayLike, budget_j: float | None = None, max_users: int = MAX_USERS) -> UserEnergy:
    """Sort users by energy, and show as many as there is room for, evenly over that order.

    Example:
        >>> user_energy([0.03, 0.01, 0.02]).users.tolist()
        [1, 2, 0]
    """
    spent = np.asarray(joules, dtype=np.float64)
    order = np.argsort(spent, kind="stable")
    users = order[evenly(len(order), max_users)]
    return UserEnergy(users, len(order), spent[users], budget_j)


def draw_user_energy(shown: UserEnergy, title: str = "Energy of each user in a round") -> Figure:
    """Bars in order of energy, and the budget as a dashed line."""
    figure, axes = plain_axes(title + shown_of(len(shown.users), shown.num_users), "users, by energy", "mJ")
    axes.bar(np.arange(len(shown.users)), 1e3 * shown.joules, color=colour(1), width=0.8)
    if shown.budget_j is not None:
        axes.axhline(1e3 * shown.budget_j, color=MUTED, linewidth=1.0, linestyle=(0, (4, 3)), label="budget")
        add_legend(figure)
    axes.set_xticks([])
    return figure
