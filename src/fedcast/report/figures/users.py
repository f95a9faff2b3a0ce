"""Figures of single users: samples per class, EMD before and after sharing, and energy in a round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedcast.formatting import number, pluralize, quantity, unit_for
from fedcast.report.colours import MUTED, PAPER
from fedcast.report.drawing import Axis, Bars, Dots, Figure, HoverColumns, Key, Level, Mark, Panel, Segments, Text
from fedcast.report.scales import upper_end
from fedcast.typing import Floats, Ints, Names

MAX_USERS = 120
_LARGEST_EMD = 2.0
# Figures of classes; in points: the largest radius, row and column of a dot, the narrowest and the widest figure.
MAX_COLUMNS, _MAX_CLASSES, _MAX_TICKS = 100, 30, 10
_LARGEST_RADIUS, _ROW, _COLUMN, _NARROWEST, _WIDEST = 4.6, 14.0, 6.2, 440.0, 920.0
_GAP_ROWS = 2.4


@dataclass(frozen=True, eq=False)
class UserValues:
    """Values of users in ascending order: which users are shown, of how many, and float64[V, U]."""

    users: Ints
    num_users: int
    values: Floats


def evenly_spaced(count: int, most: int) -> Ints:
    """Return at most `most` of the indices 0 to `count` - 1, evenly spaced, with the first and the last."""
    return np.round(np.linspace(0, count - 1, min(count, most))).astype(np.int64)


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
    shown: UserValues, mean_before: float, mean_after: float, title: str = "", tips: Sequence[str] = ()
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
    return _figure(shown, marks, "users, by EMD before sharing", Axis("EMD", (0.0, _LARGEST_EMD)), title, says)


def energy_figure(
    shown: UserValues, budget_j: float | None = None, title: str = "", tips: Sequence[str] = ()
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


@dataclass(frozen=True, eq=False)
class ClassDots:
    """Samples per class and user of a population: which of them are shown, of how many, and int64[U, C] counts."""

    users: Ints
    labels: tuple[str, ...]
    num_users: int
    classes: tuple[str, ...]
    num_classes: int
    counts: Ints
    emd: Floats


@dataclass(frozen=True, eq=False)
class ClassChange:
    """Samples int64[U, C] before and after sharing of the users and classes shown, of how many there are."""

    users: Ints
    num_users: int
    classes: Ints
    num_classes: int
    before: Ints
    after: Ints


def class_dots(
    counts: ArrayLike,
    emd: ArrayLike,
    class_names: tuple[str, ...],
    max_users: int = MAX_COLUMNS,
    names: Names | None = None,
) -> ClassDots:
    """Choose users evenly spaced over the ids, and the classes with most samples, as far as there is room.

    Example:
        >>> dots = class_dots([[3, 0, 0], [0, 2, 0]], [0.8, 1.2], ("a", "b", "c"))
        >>> dots.classes, dots.counts.tolist()
        (('a', 'b'), [[3, 0], [0, 2]])
    """
    table = np.asarray(counts, dtype=np.int64)
    shown = min(len(table), max_users)
    users = np.floor(np.arange(shown) * len(table) / shown).astype(np.int64)
    totals = table.sum(axis=0)
    held = _most_held(totals)
    return ClassDots(
        users=users,
        labels=tuple(f"{user:,}" if names is None else str(names[user]) for user in users),
        num_users=len(table),
        classes=tuple(class_names[label] for label in held),
        num_classes=int(np.count_nonzero(totals)),
        counts=table[np.ix_(users, held)],
        emd=np.asarray(emd, dtype=np.float64)[users],
    )


def class_change(before: ArrayLike, after: ArrayLike, max_users: int = MAX_COLUMNS) -> ClassChange:
    """Choose users evenly spaced over the ids, and the classes with most samples, as far as there is room.

    Example:
        >>> shown = class_change([[0, 3], [4, 0]], [[1, 3], [4, 0]])
        >>> shown.users.tolist(), shown.after.tolist()
        ([1, 0], [[4, 0], [1, 3]])
    """
    first, second = np.asarray(before, dtype=np.int64), np.asarray(after, dtype=np.int64)
    totals = (first + second).sum(axis=0)
    classes = _most_held(totals)
    users = evenly_spaced(len(first), max_users)
    main = first[np.ix_(users, classes)].argmax(axis=1) if len(classes) else np.zeros(len(users))
    users = users[np.argsort(main, kind="stable")]
    chosen = np.ix_(users, classes)
    return ClassChange(users, len(first), classes, int(np.count_nonzero(totals)), first[chosen], second[chosen])


def _most_held(totals: Ints) -> Ints:
    """Return the classes with most samples, in ascending order."""
    return np.sort(np.argsort(-totals, kind="stable")[: min(_MAX_CLASSES, np.count_nonzero(totals))])


def class_dots_figure(dots: ClassDots, title: str = "Samples per class and user") -> Figure:
    """Draw dots whose area is the number of samples, and below them the EMD of each user."""
    column, row = np.nonzero(dots.counts)
    amounts = dots.counts[column, row]
    largest = int(amounts.max(initial=1))
    count, rows = len(dots.users), len(dots.classes)
    sizes = sorted({max(1, round(largest * part)) for part in (0.1, 0.5, 1.0)})
    keys = [Key(pluralize(size, "sample"), _dots([0], [0], [size], largest)) for size in sizes]
    classes = Axis("class", (-0.6, rows - 0.4), ticks=range(rows), tick_labels=dots.classes, flipped=True)
    step = max(1, count // _MAX_TICKS)
    ticks = np.arange(0.5, count, step).tolist()
    users = Axis("user", (0.0, float(count)), ticks=ticks, tick_labels=dots.labels[::step])
    above = Panel(
        [_dots(column + 0.5, row, amounts, largest)], Axis(limits=users.limits, ticks=()), classes,
        height=_ROW * max(rows, 3), legend=True, keys=keys,
    )  # fmt: skip
    emd = Bars(np.arange(count) + 0.5, dots.emd, 2)
    below = Panel([emd], users, Axis("EMD", (0.0, _LARGEST_EMD), ticks=(0, 1, 2)), height=64.0)
    parts = [f"{count} of {dots.num_users:,} users"] if count < dots.num_users else []
    if rows < dots.num_classes:
        parts.append(f"the {rows} most common of {dots.num_classes} classes")
    title += f" ({', '.join(parts)})" if parts else ""
    return Figure([[above], [below]], title, width=_width_for(count))


def _dots(x: ArrayLike, y: ArrayLike, amounts: ArrayLike, largest: int) -> Dots:
    return Dots(x, y, 1, radius=_LARGEST_RADIUS * np.sqrt(np.asarray(amounts) / largest), opacity=0.85)


def _width_for(users: int) -> float:
    return float(np.clip(180 + _COLUMN * users, _NARROWEST, _WIDEST))


def class_change_figure(
    shown: ClassChange, title: str = "Samples per class and user", width: float | None = None, tips: Sequence[str] = ()
) -> Figure:
    """Draw dots whose area is the number of samples, before and after sharing; received samples surround own ones."""
    rows, users = max(len(shown.classes), 1), len(shown.users)
    offset = rows + _GAP_ROWS
    largest = int(max(shown.before.max(initial=1), shown.after.max(initial=1)))

    def dots(counts: Ints, start: float, colour: int, css: str, label: str) -> Dots:
        columns, classes = np.nonzero(counts)
        radius = np.sqrt(counts[columns, classes] / largest)
        return Dots(columns + 0.5, start + classes + 0.5, colour, radius=radius, cell=True, css=css, label=label)

    marks: list[Mark] = [
        dots(shown.before, 0.0, 1, "own", "own samples"),
        dots(np.where(shown.after > shown.before, shown.after, 0), offset, 2, "received", "received"),
        dots(np.minimum(shown.before, shown.after), offset, 1, "own", "own samples"),
        Text(0.0, offset, "after sharing", dy=-9.0, role="name"),
        *([HoverColumns(tips)] if tips else []),
    ]
    ticks = [start + row + 0.5 for start in (0.0, offset) for row in range(len(shown.classes))]
    names = [str(label) for label in shown.classes.tolist()]
    panel = Panel(
        marks, Axis("users, by their largest class", (0.0, float(users)), ticks=()),
        Axis(limits=(0.0, offset + rows), ticks=ticks, tick_labels=names * 2, flipped=True), title="before sharing",
        height=_ROW * (offset + rows),
    )  # fmt: skip
    held = pluralize(len(shown.classes), "class", "classes")
    says = f"Samples of {held} held by {pluralize(users, 'user')}, before and after sharing"
    title += shown_of(users, shown.num_users)
    return Figure([[panel]], title, width=width or _width_for(users), description=says)
