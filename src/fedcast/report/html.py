"""HTML and SVG from Python, with every plain text escaped; and elements that several sections of the page use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape as _escaped

from fedcast.report.colours import series_class


class Markup(str):
    """Text that is HTML already; plain text is escaped where it becomes part of it."""

    __slots__ = ()


def escape(text: object) -> Markup:
    """Return text as HTML; HTML stays as it is."""
    return text if isinstance(text, Markup) else Markup(_escaped(str(text)))


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """Return an element. Underscores in attribute names become hyphens; True: a bare attribute, None and False: none.

    Example:
        >>> tag("p", "a < b", class_="note", data_run=3, hidden=True, title=None)
        '<p class="note" data-run="3" hidden>a &lt; b</p>'
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    return Markup(f"<{name}{written}>{''.join(map(escape, children))}</{name}>")


def empty_tag(name: str, /, **attributes: object) -> Markup:
    """Return an element without children: a shape, or an element that is empty in HTML."""
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    return Markup(f"<{name}{written}/>")


def coordinate(value: float) -> str:
    """Format a length in a figure, to a tenth of a unit."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def _attribute(key: str, value: object) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    return f' {name}="{coordinate(value) if isinstance(value, float) else escape(value)}"'


def with_code(text: str) -> Markup:
    """Return text in which words between backticks are code.

    Example:
        >>> with_code("use `a < b` here")
        'use <code>a &lt; b</code> here'
    """
    parts = text.split("`")
    return Markup("".join(tag("code", part) if place % 2 else escape(part) for place, part in enumerate(parts)))


def note(text: str) -> Markup:
    """Return a paragraph in small letters."""
    return tag("p", text, class_="note")


def section(name: str, title: str, *content: object) -> Markup:
    """Return a section of the page."""
    return tag("section", tag("h2", title), *content, id=name)


def figure(title: str, *content: object, below: str = "", class_: str | None = None) -> Markup:
    """Return a card with a title, content, and a note below it."""
    return tag("figure", tag("figcaption", title), *content, *([note(below)] if below else []), class_=class_)


def colour_key(entries: Iterable[tuple[str, str]]) -> Markup:
    """Return a legend of colours from pairs of CSS class and text."""
    keys = [tag("li", tag("span", class_=f"swatch {look}"), text) for look, text in entries]
    return tag("ul", *keys, class_="legend")


def swatch(series: int) -> Markup:
    """Return a sample of the colour and dashes of a series."""
    return tag("span", class_=f"swatch {series_class(series)}")


def cards(entries: Iterable[tuple[str, str, str]]) -> Markup:
    """Return cards from name, value and a remark each; an empty remark is left out."""
    shown = []
    for name, value, remark in entries:
        aside = [tag("span", remark, class_="aside")] if remark else []
        shown.append(tag("div", tag("dt", name), tag("dd", tag("strong", value), *aside)))
    return tag("dl", *shown, class_="cards")


def table(titles: Sequence[str], rows: Iterable[Sequence[object]], class_: str = "numbers") -> Markup:
    """Return a table whose first column names the rows."""
    cells = ((tag("th", first, scope="row"), *(tag("td", cell) for cell in rest)) for first, *rest in rows)
    return cell_table(titles, cells, class_)


def cell_table(titles: Iterable[str], rows: Iterable[Iterable[Markup]], class_: str = "numbers") -> Markup:
    """Return a table of elements ``th`` and ``td``."""
    head = tag("tr", *(tag("th", title, scope="col") for title in titles))
    return tag("table", tag("thead", head), tag("tbody", *(tag("tr", *row) for row in rows)), class_=class_)


def scrolled(content: Markup, label: str, tall: bool = False) -> Markup:
    """Return a box that scrolls by itself, also with the keyboard, so that a wide table does not widen the page."""
    look = "scroll tall" if tall else "scroll"
    return tag("div", content, class_=look, tabindex=0, role="region", aria_label=label)
