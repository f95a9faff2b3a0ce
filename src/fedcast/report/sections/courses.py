"""Accuracy and loss over the course of training, against rounds and against simulated time."""

from __future__ import annotations

from fedcast.report.content import Content
from fedcast.report.markup import Markup, empty_tag, tag
from fedcast.report.plots.curves import curves_plot
from fedcast.report.sections.parts import figure, strategy_legend
from fedcast.report.shown import AXES, MEASURES, Axis, Measure, curves


def courses_section(content: Content) -> Markup:
    """Two plots, a legend that takes strategies away and back, and the choice of the axis."""
    several = len(content.seeds) > 1
    band = "Lines are means over seeds, bands reach from the lowest to the highest seed. " if several else ""
    return tag(
        "section",
        tag("h2", "Training"),
        tag("div", strategy_legend(content), _axis_choice(), class_="controls"),
        tag("div", *(_figure(content, measure) for measure in MEASURES), class_="two"),
        tag("p", f"{band}Simulated time includes sharing, which comes before the first round.", class_="note"),
        id="training",
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
    target = content.target if measure.column == "accuracy" else None
    return curves_plot(curves(content, measure, axis), measure, axis, target)
