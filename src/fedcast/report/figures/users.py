"""Figures with one mark per user: EMD before and after sharing, and energy in a round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedcast.formatting import number, quantity, unit_for
from fedcast.report.colours import MUTED, PAPER
from fedcast.report.drawing import Axis, Bars, Dots, Figure, HoverColumns, Level, Mark, Panel, Segments
from fedcast.report.scales import upper_end
from fedcast.typing import Floats, Ints

MAX_USERS = 120
_LARGEST_EMD = 2.0


@dataclass(frozen=True, eq=False)
class EmdChange:
    """EMD of users, in ascending order of the EMD before sharing.

    Attributes:
        users: int64[U], which users are shown.
        num_users: how many there are.
        before: float64[U].
        after: float64[U].
    """

    users: Ints
    num_users: int
    before: Floats
    after: Floats


@dataclass(frozen=True, eq=False)
class UserEnergy:
    """Energy of users in a round, in ascending order.

    Attributes:
        users: int64[U], which users are shown.
        num_users: how many there are.
        joules: float64[U], in a round; 0: the user does not train.
        budget_j: of every user in a round; None: users have budgets of their own.
    """

    users: Ints
    num_users: int
    joules: Floats
    budget_j: float | None


def evenly_spaced(count: int, most: int) -> Ints:
    """Return at most `most` of the indices 0 to `count` - 1, evenly spaced, with the first and the last.

    Example:
        >>> evenly_spaced(9, 5).tolist(), evenly_spaced(3, 5).tolist()
        ([0, 2, 4, 6, 8], [0, 1, 2])
    """
    places: Ints = np.round(np.linspace(0, count - 1, min(count, most))).astype(np.int64)
    return places


def shown_of(shown: int, count: int) -> str:
    """Return what a title adds where not all users are shown.

    Example:
        >>> shown_of(100, 2000), shown_of(3, 3)
        (' (100 of 2,000 users)', '')
    """
    return f" ({shown:,} of {count:,} users)" if shown < count else ""


def emd_change(before: ArrayLike, after: ArrayLike, max_users: int = MAX_USERS) -> EmdChange:
    """Sort users by their EMD before sharing; of more than `max_users`, take some evenly over that order.

    Example:
        >>> shown = emd_change([1.8, 0.4, 1.2], [1.5, 0.4, 0.9])
        >>> shown.users.tolist(), shown.after.tolist()
        ([1, 2, 0], [0.4, 0.9, 1.5])
    """
    first, second = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
    order = np.lexsort((second, first))
    users = order[evenly_spaced(len(order), max_users)]
    return EmdChange(users, len(order), first[users], second[users])


def user_energy(joules: ArrayLike, budget_j: float | None = None, max_users: int = MAX_USERS) -> UserEnergy:
    """Sort users by energy; of more than `max_users`, take some evenly over that order.

    Example:
        >>> user_energy([0.03, 0.01, 0.02]).users.tolist()
        [1, 2, 0]
    """
    spent = np.asarray(joules, dtype=np.float64)
    order = np.argsort(spent, kind="stable")
    users = order[evenly_spaced(len(order), max_users)]
    return UserEnergy(users, len(order), spent[users], budget_j)


def emd_figure(
    shown: EmdChange,
    mean_before: float,
    mean_after: float,
    title: str = "Distance of each user from the global label distribution",
    tips: Sequence[str] = (),
) -> Figure:
    """Draw a ring before and a dot after sharing for each user, joined; averages are dashed lines."""
    x = np.arange(len(shown.users)) + 0.5
    changed = np.abs(shown.before - shown.after) > 1e-9
    stems = np.stack([np.stack([x, shown.before], axis=1), np.stack([x, shown.after], axis=1)], axis=1)[changed]
    levels = [Level(mean_before)]
    if abs(mean_before - mean_after) > 1e-9:
        levels.append(Level(mean_after, colour=1))
    marks: list[Mark] = [
        Segments(stems, 1, width=1.2, opacity=0.45),
        Dots(x, shown.before, PAPER, radius=2.0, edge=MUTED, label=f"before, {number(mean_before)} on average"),
        Dots(x, shown.after, 1, radius=2.0, label=f"after sharing, {number(mean_after)} on average"),
        *levels,
        *([HoverColumns(tips)] if tips else []),
    ]
    axes = _user_axis("users, by EMD before sharing", len(x)), Axis("EMD", (0.0, _LARGEST_EMD))
    return Figure(
        [[Panel(marks, *axes)]],
        title + shown_of(len(shown.users), shown.num_users),
        description=f"EMD of users before and after sharing; on average {mean_before:.3f} before and {mean_after:.3f} "
        "after",
    )


def energy_figure(shown: UserEnergy, title: str = "Energy of each user in a round", tips: Sequence[str] = ()) -> Figure:
    """Draw a bar for each user, and the budget as a dashed line."""
    largest = max(float(shown.joules.max(initial=0.0)), shown.budget_j or 0.0)
    scale, unit = unit_for(largest, "J")
    bars = Bars(np.arange(len(shown.users)) + 0.5, shown.joules / scale, tips=tips)
    budget = []
    if shown.budget_j is not None:
        budget = [Level(shown.budget_j / scale, f"budget {quantity(shown.budget_j, 'J')}", at_end=True)]
    y = Axis(f"{unit} in a round", (0.0, upper_end([largest / scale])))
    return Figure(
        [[Panel([bars, *budget], _user_axis("users, by energy", len(shown.users)), y)]],
        title + shown_of(len(shown.users), shown.num_users),
        description=f"Energy of users in a round, up to {quantity(largest, 'J')}",
    )


def _user_axis(label: str, count: int) -> Axis:
    return Axis(label, (0.0, float(count)), ticks=())
