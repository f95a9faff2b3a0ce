"""Samples per class and user as dots, over each user's distance from the whole (the paper's Fig. 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcast.formatting import pluralize
from fedcast.report.figures.output import BLUE, GRID, INK, MUTED, ORANGE
from fedcast.typing import Names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAX_USERS = 100
_MAX_CLASSES = 30
_LARGEST_EMD = 2.0
# Characters of a user's label: up to which it stands upright, and beyond which it is cut.
_UPRIGHT_LENGTH, _LONGEST_LABEL = 9, 16


@dataclass(frozen=True)
class ClassDots:
    """What is drawn.

    Attributes:
        users: int64[U], which users are shown.
        labels: what each of them is called.
        num_users: how many there are.
        classes: names of the classes shown.
        num_classes: how many classes somebody holds.
        counts: int64[U, C], samples.
        emd: float64[U].
    """

    users: NDArray[np.int64]
    labels: tuple[str, ...]
    num_users: int
    classes: tuple[str, ...]
    num_classes: int
    counts: NDArray[np.int64]
    emd: NDArray[np.float64]


def class_dots(
    counts: ArrayLike,
    emd: ArrayLike,
    class_names: tuple[str, ...],
    max_users: int = _MAX_USERS,
    names: Names | None = None,
) -> ClassDots:
    """Choose what to show: users evenly spread over the ids, and the classes most held, as far as there is room.

    Example:
        >>> dots = class_dots([[3, 0, 0], [0, 2, 0]], [0.8, 1.2], ("a", "b", "c"))
        >>> dots.classes, dots.counts.tolist()
        (('a', 'b'), [[3, 0], [0, 2]])
    """
    table = np.asarray(counts, dtype=np.int64)
    shown = min(len(table), max_users)
    users = np.floor(np.arange(shown) * len(table) / shown).astype(np.int64)
    totals = table.sum(axis=0)
    held = np.sort(np.argsort(-totals, kind="stable")[: min(_MAX_CLASSES, np.count_nonzero(totals))])
    return ClassDots(
        users=users,
        labels=tuple(f"{user:,}" for user in users) if names is None else tuple(str(names[user]) for user in users),
        num_users=len(table),
        classes=tuple(class_names[label] for label in held),
        num_classes=int(np.count_nonzero(totals)),
        counts=table[np.ix_(users, held)],
        emd=np.asarray(emd, dtype=np.float64)[users],
    )


def draw_class_dots(dots: ClassDots, title: str = "Samples per class and user") -> Figure:
    """Dots whose area is the number of samples; below them the D_EMD of each user."""
    from matplotlib.figure import Figure

    columns, rows = dots.counts.shape
    figure = Figure(figsize=(3.0 + 0.085 * max(columns, 40), 2.2 + 0.24 * rows), layout="constrained")
    dot_axes, emd_axes = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": [max(rows * 0.24, 1.2), 0.8]})
    _draw_dots(dot_axes, dots)
    _draw_emd(emd_axes, dots)
    dot_axes.set_title(title + _what_is_shown(dots), loc="left", color=INK, fontsize=11, pad=26)
    return figure


def _what_is_shown(dots: ClassDots) -> str:
    parts = []
    if len(dots.users) < dots.num_users:
        parts.append(f"{len(dots.users)} of {dots.num_users:,} users")
    if len(dots.classes) < dots.num_classes:
        parts.append(f"the {len(dots.classes)} most common of {dots.num_classes} classes")
    return f" ({', '.join(parts)})" if parts else ""


def _draw_dots(axes: Axes, dots: ClassDots) -> None:
    column, row = np.nonzero(dots.counts)
    amounts = dots.counts[column, row]
    largest = amounts.max(initial=1)
    area = 75.0
    axes.scatter(column, row, s=area * amounts / largest, color=BLUE, alpha=0.85, linewidths=0)
    axes.set_yticks(range(len(dots.classes)), [_visible(name) for name in dots.classes])
    axes.set_ylim(len(dots.classes) - 0.4, -0.6)
    axes.set_ylabel("class", color=INK)
    axes.set_axisbelow(True)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    marks = sorted({max(1, round(largest * part)) for part in (0.1, 0.5, 1.0)})
    keys = [axes.scatter([], [], s=area * mark / largest, color=BLUE, linewidths=0) for mark in marks]
    labels = [pluralize(mark, "sample") for mark in marks]
    axes.legend(
        keys,
        labels,
        ncols=3,
        loc="lower left",
        bbox_to_anchor=(0, 1.0),
        frameon=False,
        fontsize=8,
        borderpad=0.1,
        labelcolor=INK,
    )
    _clean(axes)


def _draw_emd(axes: Axes, dots: ClassDots) -> None:
    columns = len(dots.users)
    axes.bar(range(columns), dots.emd, color=ORANGE, width=0.8)
    axes.set_ylim(0, _LARGEST_EMD)
    axes.set_ylabel("D_EMD", color=INK)
    step = max(1, columns // 10)
    labels = [_visible(_shortened(label)) for label in dots.labels[::step]]
    long = max(map(len, labels)) > _UPRIGHT_LENGTH
    axes.set_xticks(range(0, columns, step), labels, rotation=30 if long else 0, ha="right" if long else "center")
    axes.set_xlim(-1, columns)
    axes.set_xlabel("user", color=INK)
    axes.set_axisbelow(True)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    _clean(axes)


def _clean(axes: Axes) -> None:
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(GRID)
    axes.tick_params(colors=MUTED, labelsize=8, length=0)


def _shortened(label: str) -> str:
    return label if len(label) <= _LONGEST_LABEL else label[: _LONGEST_LABEL - 1] + "…"


def _visible(name: str) -> str:
    # Between two dollars matplotlib would see a formula.
    return {" ": "␣", "\n": "↵"}.get(name, name.replace("$", r"\$"))
