"""Sections about training: learning curves, where time goes, and delay against leakage."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from fedcast.report.colours import series_class
from fedcast.report.content import AXES, MEASURES, Axis, Content, Measure, leakage_curves, learning_figure, time_split
from fedcast.report.figures.training import PART_COLOURS, PARTS, Curve, delay_figure, leakage_figure
from fedcast.report.html import Markup, colour_key, empty_tag, figure, join, note, section, tag
from fedcast.report.layout import Drawing, lay_out
from fedcast.report.svg import picture, svg_for_page

_DIGITS = 5


def curves_section(content: Content) -> Markup:
    """Return the section of learning curves, with a legend that hides strategies and a choice of the axis."""
    several = len(content.seeds) > 1
    band = "Lines are means over seeds, bands reach from the lowest to the highest seed. " if several else ""
    return section(
        "training",
        "Training",
        tag("div", _strategy_legend(content), _axis_choice(), class_="controls"),
        tag("div", *(_figure(content, measure) for measure in MEASURES), class_="two"),
        note(f"{band}Simulated time includes sharing, which comes before the first round."),
    )


def _axis_choice() -> Markup:
    choices = []
    for place, axis in enumerate(AXES):
        choice = empty_tag("input", type="radio", name="axis", value=axis.column, checked=place == 0)
        choices.append(tag("label", choice, tag("span", axis.title + ("s" if axis.column == "round" else ""))))
    return tag("fieldset", tag("legend", "against"), *choices, class_="switch")


def _figure(content: Content, measure: Measure) -> Markup:
    plots = [
        tag("div", _plot(content, measure, axis), data_axis=axis.column, hidden=place > 0)
        for place, axis in enumerate(AXES)
    ]
    return figure(measure.title, *plots)


def _plot(content: Content, measure: Measure, axis: Axis) -> Markup:
    lines, found = learning_figure(content, measure, axis)
    drawing, name = lay_out(found, html=True), f"{measure.column}-{axis.column}"
    return join([svg_for_page(drawing, name, data_curves=True), _hover_data(drawing, lines, measure, axis)])


def _hover_data(drawing: Drawing, lines: Sequence[Curve], measure: Measure, axis: Axis) -> Markup:
    """Return the values that the page's script shows under the pointer."""
    x, y = drawing.scales[0]
    content = {
        "x": [x.low, x.high, x.start, x.end],
        "y": [y.low, y.high, y.start, y.end],
        "axis": axis.column,
        "share": measure.is_share,
        "series": [_values(line) for line in lines],
    }
    # A script element ends at the first "</", even inside a string.
    text = json.dumps(content, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return tag("script", Markup(text), type="application/json")


def _values(line: Curve) -> dict[str, Any]:
    columns = {"x": line.x, "y": line.mean} | ({"low": line.low, "high": line.high} if line.seeds > 1 else {})
    rounded = {name: [float(f"{value:.{_DIGITS}g}") for value in values] for name, values in columns.items()}
    return {"name": line.name, "number": line.series, **rounded}


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
    return figure("Where the time goes", key, picture(delay_figure(time_split(content)), "time-split"), below=below)


def _leakage(content: Content) -> Markup:
    lines = leakage_curves(content)
    title = "Delay against leakage"
    if not lines:
        return figure(title, below="None of these runs was planned with a curve of delay against leakage.")
    rings = " Rings: measured in training." if any(line.measured is not None for line in lines) else ""
    below = f"Dots: what the plan expects if less may be shared, clusters as they are.{rings}"
    drawn = picture(leakage_figure(lines), "leakage", data_nearest=True)
    return figure(title, _strategy_legend(content), drawn, below=below)
