"""Figures of samples per class and user: of a population, and before and after sharing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedcast.formatting import pluralize
from fedcast.report.drawing import Axis, Bars, Dots, Figure, HoverColumns, Key, Mark, Panel, Text
from fedcast.report.figures.users import LARGEST_EMD, evenly_spaced, shown_of
from fedcast.typing import Floats, Ints, Names

MAX_USERS = 100
MAX_CLASSES = 30
_LARGEST_RADIUS = 4.6
_ROW = 14.0
_GAP_ROWS = 2.4
# In points: the width of a column of dots, and of the narrowest and widest figure.
_COLUMN, _NARROWEST, _WIDEST = 6.2, 440.0, 920.0
_MAX_TICKS = 10


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
    max_users: int = MAX_USERS,
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
    held = _most_held(totals, MAX_CLASSES)
    return ClassDots(
        users=users,
        labels=tuple(f"{user:,}" for user in users) if names is None else tuple(str(names[user]) for user in users),
        num_users=len(table),
        classes=tuple(class_names[label] for label in held),
        num_classes=int(np.count_nonzero(totals)),
        counts=table[np.ix_(users, held)],
        emd=np.asarray(emd, dtype=np.float64)[users],
    )


def class_change(
    before: ArrayLike, after: ArrayLike, max_users: int = MAX_USERS, max_classes: int = MAX_CLASSES
) -> ClassChange:
    """Choose users evenly spaced over the ids, and the classes with most samples, as far as there is room.

    Example:
        >>> shown = class_change([[0, 3], [4, 0]], [[1, 3], [4, 0]])
        >>> shown.users.tolist(), shown.after.tolist()
        ([1, 0], [[4, 0], [1, 3]])
    """
    first, second = np.asarray(before, dtype=np.int64), np.asarray(after, dtype=np.int64)
    totals = (first + second).sum(axis=0)
    classes = _most_held(totals, max_classes)
    users = evenly_spaced(len(first), max_users)
    main = first[np.ix_(users, classes)].argmax(axis=1) if len(classes) else np.zeros(len(users))
    users = users[np.argsort(main, kind="stable")]
    chosen = np.ix_(users, classes)
    return ClassChange(users, len(first), classes, int(np.count_nonzero(totals)), first[chosen], second[chosen])


def _most_held(totals: Ints, most: int) -> Ints:
    """Return the classes with most samples, in ascending order."""
    return np.sort(np.argsort(-totals, kind="stable")[: min(most, np.count_nonzero(totals))])


def class_dots_figure(dots: ClassDots, title: str = "Samples per class and user") -> Figure:
    """Draw dots whose area is the number of samples, and below them the EMD of each user."""
    column, row = np.nonzero(dots.counts)
    amounts = dots.counts[column, row]
    largest = int(amounts.max(initial=1))
    count = len(dots.users)
    sizes = sorted({max(1, round(largest * part)) for part in (0.1, 0.5, 1.0)})
    keys = [Key(pluralize(size, "sample"), _dots([0], [0], [size], largest)) for size in sizes]
    rows = len(dots.classes)
    classes = Axis("class", (-0.6, rows - 0.4), ticks=range(rows), tick_labels=dots.classes, flipped=True)
    ticks = range(0, count, max(1, count // _MAX_TICKS))
    labels = [dots.labels[place] for place in ticks]
    users = Axis("user", (0.0, float(count)), ticks=[place + 0.5 for place in ticks], tick_labels=labels)
    above = Panel(
        [_dots(column + 0.5, row, amounts, largest)], Axis(limits=users.limits, ticks=()), classes,
        height=_ROW * max(rows, 3), legend=True, keys=keys,
    )  # fmt: skip
    emd = Bars(np.arange(count) + 0.5, dots.emd, 2)
    below = Panel([emd], users, Axis("EMD", (0.0, LARGEST_EMD), ticks=(0, 1, 2)), height=64.0)
    parts = [f"{count} of {dots.num_users:,} users"] if count < dots.num_users else []
    if rows < dots.num_classes:
        parts.append(f"the {rows} most common of {dots.num_classes} classes")
    title += f" ({', '.join(parts)})" if parts else ""
    return Figure([[above], [below]], title, width=_width_for(count))


def _dots(x: ArrayLike, y: ArrayLike, amounts: ArrayLike, largest: int) -> Dots:
    radius = _LARGEST_RADIUS * np.sqrt(np.asarray(amounts) / largest)
    return Dots(x, y, 1, radius=radius, opacity=0.85)


def _width_for(users: int) -> float:
    return float(np.clip(180 + _COLUMN * users, _NARROWEST, _WIDEST))


def class_change_figure(
    shown: ClassChange, title: str = "Samples per class and user", width: float | None = None, tips: Sequence[str] = ()
) -> Figure:
    """Draw dots whose area is the number of samples, before and after sharing; received samples surround own ones."""
    rows, users = max(len(shown.classes), 1), len(shown.users)
    offset = rows + _GAP_ROWS
    largest = int(max(shown.before.max(initial=1), shown.after.max(initial=1)))
    received = np.where(shown.after > shown.before, shown.after, 0)
    own = np.minimum(shown.before, shown.after)
    marks: list[Mark] = [
        _cell_dots(shown.before, 0.0, largest, 1, "own", "own samples"),
        _cell_dots(received, offset, largest, 2, "received", "received"),
        _cell_dots(own, offset, largest, 1, "own", "own samples"),
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
    return Figure(
        [[panel]],
        title + shown_of(users, shown.num_users),
        width=width or _width_for(users),
        description=f"Samples of {held} held by {pluralize(users, 'user')}, before and after sharing",
    )


def _cell_dots(counts: Ints, offset: float, largest: int, colour: int, css: str, label: str) -> Dots:
    users, rows = np.nonzero(counts)
    radius = np.sqrt(counts[users, rows] / largest)
    return Dots(users + 0.5, offset + rows + 0.5, colour, radius=radius, cell=True, css=css, label=label)
