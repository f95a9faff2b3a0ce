"""The shell of a report page: one HTML file with its style and script inside, which fetches nothing from a network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path

from fedcast.errors import FedcastError
from fedcast.io import check_writable
from fedcast.report.colours import DARK, LIGHT
from fedcast.report.html import Markup, empty_tag, tag

# Scripts and styles of this file only; nothing is fetched, not even an icon.
_WITHOUT_SCRIPT = "[hidden] { display: block !important; } #tip, .filters { display: none !important; }"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def check_report_path(path: Path) -> None:
    """Check that a report can be written to a file, before any work is done for it."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise FedcastError(f"{path}: a report is an .html file; --export FOLDER writes tables and figures")
    check_writable(path)


def document(title: str, links: Mapping[str, str], content: Iterable[Markup]) -> str:
    """Return an HTML document.

    Args:
        title: of the window.
        links: texts of the bar at the top, by the names of the sections that they lead to.
        content: the header and all sections.
    """
    anchors = [tag("a", text, href=f"#{name}") for name, text in links.items()]
    toggle = tag("button", tag("span", "◐", aria_hidden="true"), type="button", id="theme", aria_label="Light or dark")
    bar = tag("nav", tag("a", "fedcast", href="#top", class_="brand"), tag("div", *anchors), toggle)
    tip = tag("div", id="tip", role="status", aria_live="polite", hidden=True)
    body = tag("body", bar, tag("main", *content), tip, tag("script", _asset("page.js")))
    return "<!doctype html>\n" + tag("html", _head(title), body, lang="en") + "\n"


def _head(title: str) -> Markup:
    return tag(
        "head",
        empty_tag("meta", charset="utf-8"),
        empty_tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        empty_tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        empty_tag("meta", name="color-scheme", content="light dark"),
        empty_tag("link", rel="icon", href="data:,"),
        tag("title", f"{title} – fedcast"),
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
    return Markup("\n" + files("fedcast.report").joinpath("page", name).read_text(encoding="utf-8"))
