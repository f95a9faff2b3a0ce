"""The sections of learning curves and of time on the report page."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from fedcast.formatting import SPACE, number, quantity
from fedcast.report.content import Content
from fedcast.report.drawing import Dots, Line
from fedcast.report.figures.training import PART_COLOURS, PARTS, leakage_figure
from fedcast.report.html import Markup, cell_table, colour_key, empty_tag, figure, note, scrolled, section, swatch, tag
from fedcast.report.layout import lay_out
from fedcast.report.page.comparison_section import by_facet, small, strategy_cell, to_target
from fedcast.report.run_figures import MEASURES, leakage_curves, learning_figure, split_figure, user_figures
from fedcast.report.svg import picture

# What the accuracy of a user on its own labels is, by training.user_test.
_OWN_ACCURACY = {
    "labels": "Own labels: the accuracy on each class of the test set, weighted by the class's share in the user's "
    "samples before sharing.",
    "own": "Own labels: the accuracy on the user's own test samples.",
}

# Significant digits of the values of learning curves.
_DIGITS = 5


def _expected(content: Content) -> Iterator[Markup]:
    """Yield the table of what plans expected and what was measured, of strategies with a prediction."""
    rows = []
    for row in content.rows:
        plans = [run.plan for run in content.runs_of(row) if run.plan is not None]
        known = [(plan.rounds, plan.delay_s) for plan in plans if plan.rounds is not None and plan.delay_s is not None]
        if not known:
            continue
        rounds, seconds = (float(np.mean(values)) for values in zip(*known, strict=True))
        ends = [plan.rounds_interval for plan in plans if plan.rounds_interval is not None]
        between = " to ".join(number(end) for end in np.mean(ends, axis=0).tolist()) if ends else None
        measured = [to_target(row, *column) for column in (("rounds", ""), ("total_s", "s"))]
        if content.on_devices and row.reached:
            measured[1] = tag("td", quantity(content.measured_s(row), "s"))
        expected = tag("td", number(rounds), *small(between)), tag("td", quantity(seconds, "s"))
        name = strategy_cell(content, row.strategy)
        rows.append([name, expected[0], measured[0], expected[1], measured[1]])
    if not rows:
        return
    titles = ("strategy", "rounds expected", "rounds measured", "time expected", "time measured")
    title = "Expected and measured"
    below = "Expected by the plans before training, means over seeds; below: 90 % prediction interval of one run."
    yield figure(title, scrolled(cell_table(titles, rows), title), below=below)


def curves_section(contents: Sequence[Content]) -> Markup:
    """Return the section of learning curves, with a legend that hides strategies and a choice of the axis."""
    choices = []
    for axis, title in contents[0].axes.items():
        choice = empty_tag("input", type="radio", name="axis", value=axis, checked=axis == "round")
        choices.append(tag("label", choice, tag("span", title + ("s" if axis == "round" else ""))))
    switch = tag("fieldset", tag("legend", "against"), *choices, class_="switch")

    def plots(content: Content) -> list[Markup]:
        found = [
            figure(title, *(_plot(content, measure, axis) for axis in content.axes))
            for measure, title in MEASURES.items()
        ]
        drawn = user_figures(content).items()
        found += [figure(one.title, picture(one, f"users-{column}")) for column, one in drawn]
        return [tag("div", *found, class_="two")]

    several = any(len(content.seeds) > 1 for content in contents)
    meant = {
        "interval": "bands their 95 % confidence interval",
        "range": "bands reach from the lowest to the highest seed",
    }
    band = f"Lines are means over seeds, {meant[contents[0].bands]}. " if several else ""
    return section(
        "training",
        "Training",
        tag("div", _strategy_legend(contents[0], contents[0].series.values()), switch, class_="controls"),
        *by_facet(contents, plots),
        note(
            f"{band}{contents[0].clock.capitalize()} time includes sharing, which comes before the first round. "
            f"{_OWN_ACCURACY[contents[0].scenario.training.user_test]}"
        ),
    )


def _plot(content: Content, measure: str, axis: str) -> Markup:
    """Return a plot, and the values that the page's script shows under the pointer."""
    found = learning_figure(content, measure, axis)
    drawing, series = lay_out(found, html=True), []
    for line in (mark for mark in found.rows[0][0].marks if isinstance(mark, Line)):
        columns = {name: getattr(line, name) for name in ("x", "y", "low", "high")}
        known = {name: values.tolist() for name, values in columns.items() if values is not None}
        rounded = {name: [float(f"{value:.{_DIGITS}g}") for value in values] for name, values in known.items()}
        series.append({"name": line.label, "number": line.series, **rounded})
    scales = {name: [x.low, x.high, x.start, x.end] for name, x in zip("xy", drawing.scales[0], strict=True)}
    values = {**scales, "axis": axis, "share": measure == "accuracy", "series": series}
    # A script element ends at the first "</", even inside a string.
    text = json.dumps(values, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    parts = (
        picture(drawing, f"{measure}-{axis}", data_curves=True),
        tag("script", Markup(text), type="application/json"),
    )
    return tag("div", *parts, data_axis=axis, hidden=axis != "round")


def _strategy_legend(content: Content, drawn: Collection[int]) -> Markup:
    """Return one button per strategy that is drawn, which hides and shows it in the figures of its section."""
    keys = [
        tag("button", swatch(series), strategy.name, type="button", aria_pressed="true", data_toggles=series)
        for strategy, series in content.series.items()
        if series in drawn
    ]
    return tag("div", *keys, class_="legend", role="group", aria_label="Strategies shown")


def delays_section(contents: Sequence[Content]) -> Markup:
    """Return the section of where time goes and what less leakage costs."""
    return section("time", "Time", *by_facet(contents, lambda content: [*_expected(content), *_delays(content)]))


def _delays(content: Content) -> list[Markup]:
    missed = any(row.is_censored for row in content.rows)
    below = f"Up to the target{f'; >{SPACE}where some seeds end without reaching it' if missed else ''}."
    means = " Means over seeds." if len(content.seeds) > 1 else ""
    key = colour_key((f"s{place}", part) for place, part in zip(PART_COLOURS, PARTS, strict=True))
    split = figure("Where the time goes", key, picture(split_figure(content), "time-split"), below=below + means)
    marks = leakage_curves(content)
    rings = " Rings: measured in training." if any(isinstance(mark, Dots) and mark.hollow for mark in marks) else ""
    parts, below = [], "None of these runs was planned with a curve of delay against leakage."
    if marks:
        shown = {mark.series for mark in marks if mark.series is not None}
        parts = [_strategy_legend(content, shown), picture(leakage_figure(marks), "leakage", data_nearest=True)]
        below = f"Dots: what the plan expects if less may be shared, clusters as they are.{rings}{means}"
    leakage = figure("Delay against leakage", *parts, below=below)
    return [tag("div", split, leakage, class_="two")]
