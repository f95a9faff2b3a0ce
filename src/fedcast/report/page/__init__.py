"""The report page of finished runs."""

from __future__ import annotations

from fedcast.report.content import Content
from fedcast.report.page.comparison_section import comparison_section
from fedcast.report.page.curves_section import curves_section, delays_section
from fedcast.report.page.headline_section import headline_section, page_headline
from fedcast.report.page.run_section import run_section
from fedcast.report.page.scenario_sections import reproduce_section, scenario_section
from fedcast.report.shell import document

_SECTIONS = {
    "comparison": ("Comparison", comparison_section),
    "training": ("Training", curves_section),
    "time": ("Time", delays_section),
    "inside": ("Inside a run", run_section),
    "scenario": ("Scenario", scenario_section),
    "reproduce": ("Reproduce", reproduce_section),
}


def page(*contents: Content) -> str:
    """Return the report of runs as an HTML document; one content for each facet."""
    sections = [headline_section(contents), *(section(contents) for _, section in _SECTIONS.values())]
    return document(page_headline(contents), {name: title for name, (title, _) in _SECTIONS.items()}, sections)
