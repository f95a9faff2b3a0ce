"""HTML and SVG from Python, with everything escaped that was not made here."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape as _escaped


class Markup(str):
    """Text that is HTML already. Plain text is escaped where it becomes part of it."""

    __slots__ = ()


def escape(text: object) -> Markup:
    """Text as HTML; what is HTML already stays as it is."""
    return text if isinstance(text, Markup) else Markup(_escaped(str(text)))


def join(parts: Iterable[object]) -> Markup:
    """Parts one after the other."""
    return Markup("".join(escape(part) for part in parts))


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """An element. Underscores in names of attributes become hyphens; True is a bare attribute, None and False none.

    Example:
        >>> tag("p", "a < b", class_="note", data_run=3, hidden=True, title=None)
        '<p class="note" data-run="3" hidden>a &lt; b</p>'
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    return Markup(f"<{name}{written}>{join(children)}</{name}>")


def empty_tag(name: str, /, **attributes: object) -> Markup:
    """An element without children: a mark of a plot, or an element that HTML knows to be empty.

    Example:
        >>> empty_tag("circle", cx=1.25, cy=3.0, r=2)
        '<circle cx="1.2" cy="3" r="2"/>'
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    return Markup(f"<{name}{written}/>")


def coordinate(value: float) -> str:
    """A length in a plot, to a tenth of a unit.

    Example:
        >>> coordinate(12.04), coordinate(-0.04)
        ('12', '0')
    """
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def _attribute(key: str, value: object) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    return f' {name}="{coordinate(value) if isinstance(value, float) else escape(value)}"'
