"""The report page: one HTML file with its style and its script inside, which fetches nothing from any network."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from fedcast.report.colours import DARK, LIGHT
from fedcast.report.content import Content
from fedcast.report.html import Markup, empty_tag, tag
from fedcast.report.page import result_sections as results
from fedcast.report.page.run_section import run_section
from fedcast.report.page.scenario_sections import reproduce_section, scenario_section

_SECTIONS = {
    "comparison": ("Comparison", results.comparison_section),
    "training": ("Training", results.curves_section),
    "time": ("Time", results.delays_section),
    "inside": ("Inside a run", run_section),
    "scenario": ("Scenario", scenario_section),
    "reproduce": ("Reproduce", reproduce_section),
}
# Scripts and styles of this file only; nothing is fetched, not even an icon.
_WITHOUT_SCRIPT = "[hidden] { display: block !important; } #tip { display: none !important; }"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def page(*contents: Content) -> str:
    """Return the report of runs as an HTML document; one content for each facet."""
    main = tag("main", results.headline_section(contents), *(section(contents) for _, section in _SECTIONS.values()))
    links = [tag("a", title, href=f"#{name}") for name, (title, _) in _SECTIONS.items()]
    toggle = tag("button", tag("span", "◐", aria_hidden="true"), type="button", id="theme", aria_label="Light or dark")
    bar = tag("nav", tag("a", "fedcast", href="#top", class_="brand"), tag("div", *links), toggle)
    tip = tag("div", id="tip", role="status", aria_live="polite", hidden=True)
    body = tag("body", bar, main, tip, tag("script", _asset("page.js")))
    return "<!doctype html>\n" + tag("html", _head(contents), body, lang="en") + "\n"


def _head(contents: Sequence[Content]) -> Markup:
    return tag(
        "head",
        empty_tag("meta", charset="utf-8"),
        empty_tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        empty_tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        empty_tag("meta", name="color-scheme", content="light dark"),
        empty_tag("link", rel="icon", href="data:,"),
        tag("title", f"{results.page_headline(contents)} – fedcast"),
        tag("style", _colours(), _asset("page.css")),
        tag("noscript", tag("style", Markup(_WITHOUT_SCRIPT))),
    )


def _colours() -> Markup:
    """Return the palette of figures as CSS variables, and the class of each series."""
    variables = "".join(
        f"--c{place}:light-dark({','.join(pair)});" for place, pair in enumerate(zip(LIGHT, DARK, strict=True))
    )
    series = "".join(f".s{place}{{--series:var(--c{place})}}" for place in range(len(LIGHT)))
    return Markup(f":root{{{variables}}}{series}")


def _asset(name: str) -> Markup:
    return Markup("\n" + files("fedcast.report.page").joinpath(name).read_text(encoding="utf-8"))
