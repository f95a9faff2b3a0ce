"""Courses of training drawn alike: one line per label, its interval over seeds as a band."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedcast.report.figures.palette import colour
from fedcast_paper.drawing import percent_axis
from fedcast_paper.result import Columns, where

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The paper's rule and ours farthest apart.
_PLACES = {"none": 0, "daca": 1, "blend": 2, "central": 3, "gain": 4, "scc": 5, "cec": 6}
# Share of the rounds in which courses rise too steeply to be compared.
_STEEP = 0.15
COLOURS = {rule: colour(place) for rule, place in _PLACES.items()}


def draw_courses(
    axes: Axes,
    table: Columns,
    quantity: str,
    label: str,
    names: Mapping[Any, str],
    colours: Mapping[Any, str],
    *,
    bands: bool = True,
) -> None:
    """One line for each value of a column that has the quantity; accuracy is marked in percent.

    Args:
        axes: to draw on.
        table: of `course_rows` or `gain_rows`.
        quantity: ``loss``, ``accuracy`` or ``gain``.
        label: the column that tells lines apart.
        names: of its values, in the order of the legend.
        colours: of its values.
        bands: whether to draw intervals.
    """
    for value, name in names.items():
        rows = where(table, **{label: value})
        if not rows["round"] or None in rows[quantity]:
            continue
        axes.plot(rows["round"], rows[quantity], color=colours[value], linewidth=1.4, label=name)
        widths = rows[f"{quantity}_half_width"]
        if bands and None not in widths:
            low = [mean - width for mean, width in zip(rows[quantity], widths, strict=True)]
            high = [mean + width for mean, width in zip(rows[quantity], widths, strict=True)]
            axes.fill_between(rows["round"], low, high, color=colours[value], alpha=0.15, linewidth=0)
    if quantity == "accuracy":
        percent_axis(axes.yaxis)


def log_loss(axes: Axes) -> None:
    """A logarithmic axis whose numbers are plain."""
    from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(ScalarFormatter())
    axes.yaxis.set_minor_formatter(NullFormatter())


def zoom_to_end(axes: Axes, table: Columns, quantity: str) -> None:
    """Leave out the steep start, beside which differences cannot be seen."""
    values = after_start(table)[quantity]
    margin = 0.05 * (max(values) - min(values))
    axes.set_ylim(min(values) - margin, max(values) + margin)


def after_start(table: Columns) -> Columns:
    """The rounds after the steep start.

    Example:
        >>> after_start({"round": [0, 10, 20, 100], "gain": [0.0, 0.3, 0.1, 0.05]})
        {'round': [20, 100], 'gain': [0.1, 0.05]}
    """
    start = _STEEP * max(table["round"])
    kept = [place for place, number in enumerate(table["round"]) if number >= start]
    return {name: [column[place] for place in kept] for name, column in table.items()}
