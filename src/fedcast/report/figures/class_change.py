"""Samples per class and user before and after sharing, as dots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from fedcast.report.figures.axes import dress, shown_of
from fedcast.report.figures.choose import evenly
from fedcast.report.figures.output import INK
from fedcast.report.figures.palette import colour
from fedcast.typing import Ints

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


MAX_USERS = 100
MAX_CLASSES = 30
_OWN, _RECEIVED = 1, 2
_LARGEST_AREA = 60.0


@dataclass(frozen=True, eq=False)
class ClassChange:
    """What is drawn, users in order of the class they hold most of.

    Attributes:
        users: int64[U], which users are shown.
        num_users: how many there are.
        classes: int64[C], which classes are shown.
        num_classes: how many classes somebody holds.
        before: int64[U, C], samples.
        after: int64[U, C], samples; those received are the difference.
    """

    users: Ints
    num_users: int
    classes: Ints
    num_classes: int
    before: Ints
    after: Ints

    @property
    def largest(self) -> int:
        """The largest number of samples of a dot."""
        return int(max(self.before.max(initial=1), self.after.max(initial=1)))


def class_change(
    before: ArrayLike, after: ArrayLike, max_users: int = MAX_USERS, max_classes: int = MAX_CLASSES
) -> ClassChange:
    """Choose what to show: users evenly spread over the ids, and the classes most held, as far as there is room.

    Example:
        >>> shown = class_change([[0, 3], [4, 0]], [[1, 3], [4, 0]])
        >>> shown.users.tolist(), shown.after.tolist()
        ([1, 0], [[4, 0], [1, 3]])
    """
    first, second = np.asarray(before, dtype=np.int64), np.asarray(after, dtype=np.int64)
    totals = (first + second).sum(axis=0)
    held = np.count_nonzero(totals)
    classes = np.sort(np.argsort(-totals, kind="stable")[: min(max_classes, held)])
    users = evenly(len(first), max_users)
    main = first[np.ix_(users, classes)].argmax(axis=1) if len(classes) else np.zeros(len(users))
    users = users[np.argsort(main, kind="stable")]
    chosen = np.ix_(users, classes)
    return ClassChange(users, len(first), classes, int(held), first[chosen], second[chosen])


def draw_class_change(shown: ClassChange, title: str = "Samples per class and user") -> Figure:
    """Two panels of dots whose area is the number of samples; what was received lies around what was held before."""
    from matplotlib.figure import Figure

    users, classes = shown.before.shape
    size = (3.0 + 0.085 * max(users, 40), 1.6 + 2 * 0.2 * max(classes, 4))
    figure = Figure(figsize=size, layout="constrained")
    first, second = figure.subplots(2, 1, sharex=True)
    _draw_dots(first, shown.before, shown, _OWN)
    _draw_dots(second, np.where(shown.after > shown.before, shown.after, 0), shown, _RECEIVED)
    _draw_dots(second, np.minimum(shown.before, shown.after), shown, _OWN)
    heading = title + shown_of(users, shown.num_users)
    first.set_title(f"{heading}: before sharing", loc="left", color=INK, fontsize=11)
    second.set_title("after sharing (orange: received)", loc="left", color=INK, fontsize=11)
    second.set_xlabel("users, by their largest class", color=INK)
    return figure


def _draw_dots(axes: Axes, counts: Ints, shown: ClassChange, series: int) -> None:
    column, row = np.nonzero(counts)
    area = _LARGEST_AREA * counts[column, row] / shown.largest
    axes.scatter(column, row, s=area, color=colour(series), linewidths=0)
    axes.set_yticks(range(len(shown.classes)), [str(label) for label in shown.classes])
    axes.set_ylim(len(shown.classes) - 0.4, -0.6)
    axes.set_ylabel("class", color=INK)
    axes.set_xticks([])
    dress(axes)
