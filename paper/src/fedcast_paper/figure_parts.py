"""Colours and learning curves that several figures share; figures are described with `fedcast.report`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedcast.report import Axis, Colour, Dash, Figure, Line, Panel, Text
from fedcast_paper.reproduction_result import Columns, where

# Series numbers of `fedcast.report`.
BLUE, ORANGE, GREEN, PURPLE = 1, 2, 3, 4
METHOD_COLOURS = {"jfvo": BLUE, "smm": ORANGE, "saa": GREEN, "jfvo_literal": PURPLE}
METHOD_DASHES: dict[str, Dash] = {"jfvo": "solid", "smm": "dashed", "saa": "dotted", "jfvo_literal": "dashdot"}
# The colours of DACA and blend differ most; the second blue is that of the plan, which is seldom drawn beside DACA.
RULE_COLOURS = {"none": 0, "daca": 1, "blend": 2, "central": 3, "gain": 4, "scc": 5, "cec": 7, "best": 6}
# Width of a figure with two panels side by side, in points.
WIDE_PT = 690.0
# Fraction of the rounds in which curves rise too steeply to be compared.
_STEEP = 0.15


def learning_curves(
    table: Columns,
    quantity: str,
    label: str,
    names: Mapping[Any, str],
    colours: Mapping[Any, Colour],
    *,
    bands: bool = True,
    dashes: Mapping[Any, Dash] | None = None,
) -> list[Line]:
    """Return a line over rounds for each value of a column, with its confidence interval as a band.

    Args:
        table: rows of `curve_rows` or `gain_rows`.
        quantity: ``loss``, ``accuracy`` or ``gain``.
        label: column that distinguishes the curves.
        names: legend text of each value of that column, in the order of the legend.
        colours: colour of each value.
        bands: whether to draw the intervals.
        dashes: dash pattern of each value; None: solid lines.
    """
    lines = []
    for value, name in names.items():
        rows = where(table, **{label: value})
        if not rows["round"] or None in rows[quantity]:
            continue
        means, widths = rows[quantity], rows[f"{quantity}_half_width"]
        has_band = bands and None not in widths
        low, high = (np.subtract(means, widths), np.add(means, widths)) if has_band else (None, None)
        dash = "solid" if dashes is None else dashes[value]
        lines.append(Line(rows["round"], means, colours[value], low, high, dash, label=name))
    return lines


def loss_and_accuracy(table: Columns, label: str, names: Mapping[Any, str], colours: Mapping[Any, Colour]) -> Figure:
    """Return a figure of test loss (logarithmic) and accuracy over rounds, side by side."""
    loss, accuracy = (learning_curves(table, quantity, label, names, colours) for quantity in ("loss", "accuracy"))
    left = Panel(loss, Axis("round"), Axis(kind="log"), title="loss of the global model on the test set")
    right = Panel(accuracy, Axis("round"), Axis(percent=True), title="accuracy")
    return Figure([[left, right]], width=WIDE_PT)


def limits_after_start(table: Columns, quantity: str) -> tuple[float, float]:
    """Return the limits of an axis that shows the values after the steep start, where differences are visible."""
    values = after_start(table)[quantity]
    margin = 0.05 * (max(values) - min(values))
    return min(values) - margin, max(values) + margin


def after_start(table: Columns) -> Columns:
    """Return the rows of the rounds after the steep start.

    Example:
        >>> after_start({"round": [0, 10, 20, 100], "gain": [0.0, 0.3, 0.1, 0.05]})
        {'round': [20, 100], 'gain': [0.1, 0.05]}
    """
    start = _STEEP * max(table["round"])
    kept = [place for place, number in enumerate(table["round"]) if number >= start]
    return {name: [column[place] for place in kept] for name, column in table.items()}


def not_run_panel(title: str = "") -> Panel:
    """Return a panel that keeps the place of results that are missing."""
    hidden = Axis(limits=(0.0, 1.0), show=False, grid=False)
    return Panel([Text(0.5, 0.5, "not run", anchor="middle")], hidden, hidden, title=title)
