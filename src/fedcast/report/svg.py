"""SVG of a figure that was laid out: as part of the report page, or as a file of its own. Texts stay texts."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from fedcast.report.colours import INK, MUTED, Dash, css_of, hex_of, series_class
from fedcast.report.drawing import Figure
from fedcast.report.html import Markup, coordinate, empty_tag, tag
from fedcast.report.layout import Drawing, lay_out
from fedcast.report.shapes import Shapes, Words
from fedcast.typing import Floats

_DASHES: dict[Dash, str | None] = {"solid": None, "dashed": "5 3", "dotted": "0.1 4", "dashdot": "6 3 1 3"}
_FONTS = "Helvetica, Arial, 'DejaVu Sans', sans-serif"
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def picture(figure: Figure | Drawing, name: str, **attributes: object) -> Markup:
    """Return an SVG element for the report page, whose style sheet and script it needs; they find it by its name.

    A drawing is one that was laid out for the page; for attributes see `fedcast.report.html.tag`.
    """
    drawing = figure if isinstance(figure, Drawing) else lay_out(figure, html=True)
    # It takes the keyboard's focus: arrow keys then go from mark to mark.
    fixed = {"class_": "plot", "role": "img", "aria_label": drawing.description, "tabindex": 0, "data_plot": name}
    return tag("svg", *_items(drawing, page=True), viewBox=_box(drawing), **fixed, **attributes)


def svg_file(drawing: Drawing) -> str:
    """Return the text of an SVG file on white paper that needs nothing else."""
    paper = empty_tag("rect", width="100%", height="100%", fill="#ffffff")
    picture = tag(
        "svg", tag("title", drawing.description), paper, *_items(drawing, page=False),
        xmlns="http://www.w3.org/2000/svg", viewBox=_box(drawing), width=f"{coordinate(drawing.width)}pt",
        height=f"{coordinate(drawing.height)}pt", font_family=Markup(_FONTS),
    )  # fmt: skip
    return '<?xml version="1.0" encoding="utf-8"?>\n' + _NOT_IN_XML.sub("�", picture) + "\n"


def line_path(points: Floats, closed: bool = False) -> str:
    """Return the SVG path through points."""
    places = [f"{coordinate(x)} {coordinate(y)}" for x, y in points.tolist()]
    return "M" + "L".join(places) + ("Z" if closed else "")


def _box(drawing: Drawing) -> str:
    return f"0 0 {coordinate(drawing.width)} {coordinate(drawing.height)}"


def _items(drawing: Drawing, page: bool) -> list[Markup]:
    return [_words(item, page) if isinstance(item, Words) else _shapes(item, page) for item in drawing.items]


def _words(words: Words, page: bool) -> Markup:
    """Write a text; on the page its class decides size and, unless it has one of its own, colour."""
    look: dict[str, object] = {"font_size": words.size, "fill": hex_of(words.colour)}
    if page:
        usual = MUTED if words.role in ("tick", "label") else INK
        look = {"class_": words.role, "style": None if words.colour == usual else f"fill:{css_of(words.colour)}"}
    if words.rotate:
        look["transform"] = f"rotate({coordinate(-words.rotate)} {coordinate(words.x)} {coordinate(words.y)})"
    anchor = None if words.anchor == "start" else words.anchor
    return tag("text", words.text, x=words.x, y=words.y, text_anchor=anchor, **look)


def _shapes(shapes: Shapes, page: bool) -> Markup:
    """Write shapes; a file has nothing that only the page uses, and no shapes that only answer the pointer."""
    if not page and shapes.fill is None and shapes.stroke is None:
        return Markup("")
    colour_of = css_of if page else hex_of
    group: dict[str, Any] = {"fill": "none" if shapes.fill is None else None}
    items = [_geometry(shapes, place) for place in shapes.places]
    for name, colours in (("fill", shapes.fill), ("stroke", shapes.stroke)):
        if isinstance(colours, int | str):
            group[name] = colour_of(colours)
        elif colours is not None:
            for item, colour in zip(items, colours, strict=True):
                item[name] = colour_of(colour)
    if shapes.stroke is not None:
        group["stroke_width"] = str(round(shapes.stroke_width, 2))
    group["stroke_dasharray"] = _DASHES[shapes.dash]
    if shapes.kind == "path" and shapes.stroke is not None:
        group |= {"stroke_linecap": "round", "stroke_linejoin": "round"}
    group["opacity"] = str(shapes.opacity) if shapes.opacity != 1 else None
    if page:
        for index, item in enumerate(items):
            item |= _page_item(shapes, index)
    css = shapes.css or None if page else None
    if page and shapes.series is not None:
        inner = [empty_tag(shapes.kind, **group, **item) for item in items]
        return tag("g", *inner, class_=series_class(shapes.series), data_series=shapes.series)
    if len(items) == 1:
        css = " ".join(filter(None, (css, items[0].pop("class_", None)))) or None
        return empty_tag(shapes.kind, **group | items[0], class_=css)
    return tag("g", *(empty_tag(shapes.kind, **item) for item in items), class_=css, **group) if items else Markup("")


def _geometry(shapes: Shapes, place: Any) -> dict[str, Any]:
    if shapes.kind == "path":
        return {"d": line_path(np.asarray(place), shapes.closed)}
    names = {"circle": ("cx", "cy", "r"), "rect": ("x", "y", "width", "height"), "line": ("x1", "y1", "x2", "y2")}
    return dict(zip(names[shapes.kind], map(float, place), strict=True))


def _page_item(shapes: Shapes, index: int) -> dict[str, Any]:
    css = shapes.item_css if isinstance(shapes.item_css, str) else shapes.item_css[index]
    found = {"class_": " ".join(filter(None, ("mark" if shapes.tips else "", css))) or None}
    if shapes.tips:
        found["data_tip"] = shapes.tips[index]
    return found | {f"data_{name}": values[index] for name, values in shapes.data.items()}
