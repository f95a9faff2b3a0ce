"""SVG of a figure that was laid out: as part of the report page, or as a file of its own. Texts stay texts."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from fedcast.report.colours import INK, MUTED, Colour, Dash, css_of, hex_of, series_class
from fedcast.report.drawing import Figure
from fedcast.report.html import Markup, coordinate, empty_tag, tag
from fedcast.report.layout import Drawing, lay_out
from fedcast.report.shapes import Shapes, Words
from fedcast.typing import Floats

_DASHES: dict[Dash, str | None] = {"solid": None, "dashed": "5 3", "dotted": "0.1 4", "dashdot": "6 3 1 3"}
_FONTS = "Helvetica, Arial, 'DejaVu Sans', sans-serif"
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def svg_for_page(drawing: Drawing, name: str, **attributes: object) -> Markup:
    """Return an SVG element for the report page, whose style sheet and script it needs.

    Args:
        drawing: what to show.
        name: by which scripts and tests find it.
        attributes: further attributes, see `fedcast.report.markup.tag`.
    """
    # It takes the keyboard's focus: arrow keys then go from mark to mark.
    fixed = {"class_": "plot", "role": "img", "aria_label": drawing.description, "tabindex": 0, "data_plot": name}
    items = [_words(item) if isinstance(item, Words) else _shapes(item, css_of) for item in drawing.items]
    return tag("svg", *items, viewBox=_box(drawing), **fixed, **attributes)


def picture(figure: Figure, name: str, **attributes: object) -> Markup:
    """Lay out a figure for the report page; see `svg_for_page`."""
    return svg_for_page(lay_out(figure, html=True), name, **attributes)


def svg_file(drawing: Drawing) -> str:
    """Return the text of an SVG file on white paper that needs nothing else."""
    paper = empty_tag("rect", width="100%", height="100%", fill="#ffffff")
    items = [_sized_words(item) if isinstance(item, Words) else _plain_shapes(item) for item in drawing.items]
    picture = tag(
        "svg", tag("title", drawing.description), paper, *items, xmlns="http://www.w3.org/2000/svg",
        viewBox=_box(drawing), width=f"{coordinate(drawing.width)}pt", height=f"{coordinate(drawing.height)}pt",
        font_family=Markup(_FONTS),
    )  # fmt: skip
    return '<?xml version="1.0" encoding="utf-8"?>\n' + _NOT_IN_XML.sub("�", picture) + "\n"


def line_path(points: Floats, closed: bool = False) -> str:
    """Return the SVG path through points.

    Example:
        >>> line_path(np.array([(0.0, 5.0), (10.0, 2.5)])), line_path(np.array([(0.0, 0.0), (1.0, 1.0)]), closed=True)
        ('M0 5L10 2.5', 'M0 0L1 1Z')
    """
    places = [f"{coordinate(x)} {coordinate(y)}" for x, y in points.tolist()]
    return "M" + "L".join(places) + ("Z" if closed else "")


def _box(drawing: Drawing) -> str:
    return f"0 0 {coordinate(drawing.width)} {coordinate(drawing.height)}"


def _words(words: Words, **look: object) -> Markup:
    """Write a text; on the page its class decides size and, unless it has one of its own, colour."""
    if not look:
        look = {"class_": words.role, "fill": None if words.colour in (INK, MUTED) else css_of(words.colour)}
    if words.rotate:
        look["transform"] = f"rotate({coordinate(-words.rotate)} {coordinate(words.x)} {coordinate(words.y)})"
    anchor = None if words.anchor == "start" else words.anchor
    return tag("text", words.text, x=words.x, y=words.y, text_anchor=anchor, **look)


def _sized_words(words: Words) -> Markup:
    return _words(words, font_size=words.size, fill=hex_of(words.colour))


def _plain_shapes(shapes: Shapes) -> Markup:
    """Write shapes without what only the page uses; those that only answer the pointer are left out."""
    if shapes.fill is shapes.stroke is shapes.fills is shapes.strokes is None:
        return Markup("")
    return _shapes(shapes, hex_of, page=False)


def _shapes(shapes: Shapes, colour_of: Callable[[Colour], str], page: bool = True) -> Markup:
    stroked = shapes.stroke is not None or shapes.strokes is not None
    look = {
        "fill": "none" if shapes.fill is None and shapes.fills is None else _colour(shapes.fill, colour_of),
        "stroke": _colour(shapes.stroke, colour_of),
        "stroke_width": round(shapes.stroke_width, 2) if stroked else None,
        "stroke_dasharray": _DASHES[shapes.dash],
        "stroke_linecap": "round" if shapes.kind == "path" and stroked else None,
        "stroke_linejoin": "round" if shapes.kind == "path" and stroked else None,
        "opacity": shapes.opacity if shapes.opacity != 1 else None,
    }
    look = {key: str(value) if isinstance(value, float) else value for key, value in look.items()}
    items = [
        _geometry(shapes, place) | _item_colour(shapes, index, colour_of) | (_page_item(shapes, index) if page else {})
        for index, place in enumerate(shapes.places)
    ]
    css = shapes.css or None if page else None
    if page and shapes.series is not None:
        inner = [empty_tag(shapes.kind, **{**look, **item}) for item in items]
        return tag("g", *inner, class_=series_class(shapes.series), data_series=shapes.series)
    if len(items) == 1:
        css = " ".join(filter(None, (css, items[0].pop("class_", None)))) or None  # type: ignore[arg-type]
        return empty_tag(shapes.kind, **(look | items[0] | {"class_": css}))
    return tag("g", *(empty_tag(shapes.kind, **item) for item in items), class_=css, **look) if items else Markup("")


def _geometry(shapes: Shapes, place: object) -> dict[str, object]:
    if shapes.kind == "path":
        return {"d": line_path(np.asarray(place), shapes.closed)}
    names = {"circle": ("cx", "cy", "r"), "rect": ("x", "y", "width", "height"), "line": ("x1", "y1", "x2", "y2")}
    return dict(zip(names[shapes.kind], map(float, place), strict=True))  # type: ignore[call-overload]


def _item_colour(shapes: Shapes, index: int, colour_of: Callable[[Colour], str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, colours in (("fill", shapes.fills), ("stroke", shapes.strokes)):
        if colours is not None:
            found[name] = colour_of(colours[index])
    return found


def _page_item(shapes: Shapes, index: int) -> dict[str, object]:
    css = shapes.item_css if isinstance(shapes.item_css, str) else shapes.item_css[index]
    found: dict[str, object] = {"class_": " ".join(filter(None, ("mark" if shapes.tips else "", css))) or None}
    if shapes.tips:
        found["data_tip"] = shapes.tips[index]
    return found | {f"data_{name}": values[index] for name, values in shapes.data.items()}


def _colour(colour: Colour | None, colour_of: Callable[[Colour], str]) -> str | None:
    return None if colour is None else colour_of(colour)
