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
LARGEST_EMD = 2.0


@dataclass(frozen=True, eq=False)
class UserValues:
    """Values of users in ascending order: which users are shown, of how many, and float64[V, U]."""

    users: Ints
    num_users: int
    values: Floats


def evenly_spaced(count: int, most: int) -> Ints:
    """Return at most `most` of the indices 0 to `count` - 1, evenly spaced, with the first and the last."""
    places: Ints = np.round(np.linspace(0, count - 1, min(count, most))).astype(np.int64)
    return places


def shown_of(shown: int, count: int) -> str:
    """Return what a title adds where not all users are shown."""
    return f" ({shown:,} of {count:,} users)" if shown < count else ""


def sorted_users(*values: ArrayLike, max_users: int = MAX_USERS) -> UserValues:
    """Sort users by their first value, then by the next; of more than `max_users`, take some evenly over that order.

    Example:
        >>> shown = sorted_users([1.8, 0.4, 1.2], [1.5, 0.4, 0.9])
        >>> shown.users.tolist(), shown.values[1].tolist()
        ([1, 2, 0], [0.4, 0.9, 1.5])
    """
    table = np.array(values, dtype=np.float64)
    order = np.lexsort(table[::-1])
    users = order[evenly_spaced(len(order), max_users)]
    return UserValues(users, len(order), table[:, users])


def emd_figure(
    shown: UserValues,
    mean_before: float,
    mean_after: float,
    title: str = "Distance of each user from the global label distribution",
    tips: Sequence[str] = (),
) -> Figure:
    """Draw a ring before and a dot after sharing for each user, joined; averages are dashed lines."""
    x, (before, after) = np.arange(len(shown.users)) + 0.5, shown.values
    changed = np.abs(before - after) > 1e-9
    stems = np.stack([x, before, x, after], axis=1)[changed].reshape(-1, 2, 2)
    marks: list[Mark] = [
        Segments(stems, 1, width=1.2, opacity=0.45),
        Dots(x, before, PAPER, radius=2.0, edge=MUTED, label=f"before, {number(mean_before)} on average"),
        Dots(x, after, 1, radius=2.0, label=f"after sharing, {number(mean_after)} on average"),
        Level(mean_before),
        *([Level(mean_after, colour=1)] if abs(mean_before - mean_after) > 1e-9 else []),
        *([HoverColumns(tips)] if tips else []),
    ]
    says = f"EMD of users before and after sharing; on average {mean_before:.3f} before and {mean_after:.3f} after"
    return _figure(shown, marks, "users, by EMD before sharing", Axis("EMD", (0.0, LARGEST_EMD)), title, says)


def energy_figure(
    shown: UserValues,
    budget_j: float | None = None,
    title: str = "Energy of each user in a round",
    tips: Sequence[str] = (),
) -> Figure:
    """Draw a bar for each user, and the budget that all users have as a dashed line."""
    joules = shown.values[0]
    largest = max(float(joules.max(initial=0.0)), budget_j or 0.0)
    scale, unit = unit_for(largest, "J")
    marks: list[Mark] = [Bars(np.arange(len(joules)) + 0.5, joules / scale, tips=tips)]
    if budget_j is not None:
        marks.append(Level(budget_j / scale, f"budget {quantity(budget_j, 'J')}", at_end=True))
    y = Axis(f"{unit} in a round", (0.0, upper_end([largest / scale])))
    says = f"Energy of users in a round, up to {quantity(largest, 'J')}"
    return _figure(shown, marks, "users, by energy", y, title, says)


def _figure(shown: UserValues, marks: Sequence[Mark], x_label: str, y: Axis, title: str, says: str) -> Figure:
    users = len(shown.users)
    panel = Panel(marks, Axis(x_label, (0.0, float(users)), ticks=()), y)
    return Figure([[panel]], title + shown_of(users, shown.num_users), description=says)
