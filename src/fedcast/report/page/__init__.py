"""The report page of finished runs."""

from __future__ import annotations

from fedcast.report.content import Content
from fedcast.report.page import result_sections as results
from fedcast.report.page.run_section import run_section
from fedcast.report.page.scenario_sections import reproduce_section, scenario_section
from fedcast.report.shell import document

_SECTIONS = {
    "comparison": ("Comparison", results.comparison_section),
    "training": ("Training", results.curves_section),
    "time": ("Time", results.delays_section),
    "inside": ("Inside a run", run_section),
    "scenario": ("Scenario", scenario_section),
    "reproduce": ("Reproduce", reproduce_section),
}


def page(*contents: Content) -> str:
    """Return the report of runs as an HTML document; one content for each facet."""
    sections = [results.headline_section(contents), *(section(contents) for _, section in _SECTIONS.values())]
    return document(results.page_headline(contents), {name: title for name, (title, _) in _SECTIONS.items()}, sections)
