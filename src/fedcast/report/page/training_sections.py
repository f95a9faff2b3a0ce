"""Sections about training: learning curves, where time goes, and delay against leakage."""

from __future__ import annotations

import json

import numpy as np

from fedcast.report.colours import series_class
from fedcast.report.content import AXES, MEASURES, Content, leakage_curves, learning_figure, time_split
from fedcast.report.drawing import Dots, Line
from fedcast.report.figures.training import PART_COLOURS, PARTS, delay_figure, leakage_figure
from fedcast.report.html import Markup, colour_key, empty_tag, figure, note, section, tag
from fedcast.report.layout import lay_out
from fedcast.report.svg import picture

_DIGITS = 5


def curves_section(content: Content) -> Markup:
    """Return the section of learning curves, with a legend that hides strategies and a choice of the axis."""
    plots = [figure(title, *(_plot(content, measure, axis) for axis in AXES)) for measure, title in MEASURES.items()]
    several = len(content.seeds) > 1
    band = "Lines are means over seeds, bands reach from the lowest to the highest seed. " if several else ""
    return section(
        "training",
        "Training",
        tag("div", _strategy_legend(content), _axis_choice(), class_="controls"),
        tag("div", *plots, class_="two"),
        note(f"{band}Simulated time includes sharing, which comes before the first round."),
    )


def _axis_choice() -> Markup:
    choices = []
    for axis, title in AXES.items():
        choice = empty_tag("input", type="radio", name="axis", value=axis, checked=axis == "round")
        choices.append(tag("label", choice, tag("span", title + ("s" if axis == "round" else ""))))
    return tag("fieldset", tag("legend", "against"), *choices, class_="switch")


def _plot(content: Content, measure: str, axis: str) -> Markup:
    """Return a plot, and the values that the page's script shows under the pointer."""
    found = learning_figure(content, measure, axis)
    drawing = lay_out(found, html=True)
    lines = [mark for mark in found.rows[0][0].marks if isinstance(mark, Line)]
    x, y = drawing.scales[0]
    values = {
        "x": [x.low, x.high, x.start, x.end],
        "y": [y.low, y.high, y.start, y.end],
        "axis": axis,
        "share": measure == "accuracy",
        "series": [{"name": line.label, "number": line.series} | _rounded(line) for line in lines],
    }
    # A script element ends at the first "</", even inside a string.
    text = json.dumps(values, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    data = tag("script", Markup(text), type="application/json")
    return tag(
        "div", picture(drawing, f"{measure}-{axis}", data_curves=True), data, data_axis=axis, hidden=axis != "round"
    )


def _rounded(line: Line) -> dict[str, list[float]]:
    columns = {"x": line.x, "y": line.y, "low": line.low, "high": line.high}
    return {
        name: [float(f"{value:.{_DIGITS}g}") for value in np.asarray(values).tolist()]
        for name, values in columns.items()
        if values is not None
    }


def _strategy_legend(content: Content) -> Markup:
    """Return one button per strategy, which hides and shows the strategy in the figures of its section."""
    keys = []
    for row in content.rows:
        number = content.series[row.strategy]
        swatch = tag("span", class_=f"swatch {series_class(number)}")
        keys.append(tag("button", swatch, row.strategy.name, type="button", aria_pressed="true", data_toggles=number))
    return tag("div", *keys, class_="legend", role="group", aria_label="Strategies shown")


def delays_section(content: Content) -> Markup:
    """Return the section of where time goes and what less leakage costs."""
    return section("time", "Time", tag("div", _split(content), _leakage(content), class_="two"))


def _split(content: Content) -> Markup:
    missed = any(row.reached < len(row.seeds) for row in content.rows)
    below = "Up to the target; where it is not met, up to the last round." if missed else "Up to the target."
    below += " Means over seeds." if len(content.seeds) > 1 else ""
    key = colour_key((f"s{place}", part) for place, part in zip(PART_COLOURS, PARTS, strict=True))
    return figure("Where the time goes", key, picture(delay_figure(*time_split(content)), "time-split"), below=below)


def _leakage(content: Content) -> Markup:
    marks, title = leakage_curves(content), "Delay against leakage"
    if not marks:
        return figure(title, below="None of these runs was planned with a curve of delay against leakage.")
    rings = " Rings: measured in training." if any(isinstance(mark, Dots) and mark.hollow for mark in marks) else ""
    below = f"Dots: what the plan expects if less may be shared, clusters as they are.{rings}"
    drawn = picture(leakage_figure(marks), "leakage", data_nearest=True)
    return figure(title, _strategy_legend(content), drawn, below=below)
