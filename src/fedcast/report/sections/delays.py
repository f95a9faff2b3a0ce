"""Where the time goes, and what privacy costs of it."""

from __future__ import annotations

from fedcast.report.content import Content
from fedcast.report.figures.delay_split import PART_COLOURS, PARTS
from fedcast.report.markup import Markup, tag
from fedcast.report.plots.delay import leakage_plot, split_plot
from fedcast.report.sections.parts import colour_key, figure, strategy_legend
from fedcast.report.shown import leakage_curves, time_split


def delays_section(content: Content) -> Markup:
    """Stacked bars, and planned delay against leakage."""
    return tag("section", tag("h2", "Time"), tag("div", _split(content), _leakage(content), class_="two"), id="time")


def _split(content: Content) -> Markup:
    missed = any(row.reached < len(row.seeds) for row in content.rows)
    note = "Up to the target; where it is not met, up to the last round." if missed else "Up to the target."
    key = colour_key((f"s{place}", part) for place, part in zip(PART_COLOURS, PARTS, strict=True))
    several = " Means over seeds." if len(content.seeds) > 1 else ""
    return figure("Where the time goes", key, split_plot(time_split(content)), note=note + several)


def _leakage(content: Content) -> Markup:
    curves = leakage_curves(content)
    title = "Delay against leakage"
    if not curves:
        return figure(title, note="None of these runs was planned with a curve of delay against leakage.")
    rings = " Rings: measured in training." if any(line.measured is not None for line in curves) else ""
    note = f"Dots: what the plan expects if less may be shared, clusters as they are.{rings}"
    return figure(title, strategy_legend(content), leakage_plot(curves), note=note)
