"""PNG and PDF of a figure that was laid out. The only module that imports matplotlib."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from fedcast.report.colours import Dash, hex_of
from fedcast.report.layout import Drawing
from fedcast.report.shapes import Shapes, Words

_POINTS_PER_INCH = 72
# In units of the line's width.
_DASHES: dict[Dash, Any] = {"solid": "-", "dashed": (0, (3.5, 2.2)), "dotted": (0, (0.1, 2.4)), "dashdot": "-."}
# A PDF with more shapes than this is slow to show; they become an image inside it.
_MAX_VECTORS = 5_000
_ANCHORS = {"start": "left", "middle": "center", "end": "right"}
# TrueType fonts are embedded whole, which publishers ask for; without a date the same figure has the same bytes.
_SETTINGS: dict[Any, Any] = {"pdf.fonttype": 42, "font.family": ["DejaVu Sans"]}
_METADATA: dict[str, dict[str, str | None]] = {"pdf": {"CreationDate": None}}


def write_with_matplotlib(drawing: Drawing, path: Path, kind: str, dpi: int) -> None:
    """Write a figure.

    Args:
        drawing: what to draw.
        path: of the file.
        kind: ``png`` or ``pdf``.
        dpi: pixels per inch of a PNG.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_SETTINGS), warnings.catch_warnings():
        # A name in a script that the font lacks shows as boxes; a warning for each of its letters helps nobody.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        size_in = drawing.width / _POINTS_PER_INCH, drawing.height / _POINTS_PER_INCH
        figure = Figure(figsize=size_in, facecolor="white")
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set_xlim(0, drawing.width)
        axes.set_ylim(drawing.height, 0)
        axes.set_axis_off()
        for order, item in enumerate(drawing.items):
            if isinstance(item, Words):
                _add_words(axes, item, order)
            else:
                _add_shapes(axes, item, order)
        figure.savefig(path, format=kind, dpi=dpi, metadata=_METADATA.get(kind))


def _add_words(axes: Any, words: Words, order: int) -> None:
    look: dict[str, Any] = {"fontsize": words.size, "color": hex_of(words.colour), "ha": _ANCHORS[words.anchor]}
    axes.text(
        words.x, words.y, words.text, va="baseline", rotation=words.rotate, rotation_mode="anchor", zorder=order,
        parse_math=False, **look,
    )  # fmt: skip


def _add_shapes(axes: Any, shapes: Shapes, order: int) -> None:
    from matplotlib.collections import PathCollection

    if not len(shapes.places) or shapes.fill is shapes.stroke is None:
        return
    collection = PathCollection(
        [_path(shapes, place) for place in shapes.places], facecolors=_colours(shapes.fill),
        edgecolors=_colours(shapes.stroke), linewidths=0.0 if shapes.stroke is None else shapes.stroke_width,
        linestyles=[_DASHES[shapes.dash]], alpha=shapes.opacity, zorder=order,
        rasterized=len(shapes.places) > _MAX_VECTORS, capstyle="round", joinstyle="round",
    )  # fmt: skip
    axes.add_collection(collection, autolim=False)


def _colours(colours: Any) -> Any:
    if colours is None:
        return "none"
    return hex_of(colours) if isinstance(colours, int | str) else [hex_of(colour) for colour in colours]


def _path(shapes: Shapes, place: Any) -> Any:
    from matplotlib.path import Path as Outline

    if shapes.kind == "circle":
        return Outline.circle(place[:2], place[2])
    if shapes.kind == "rect":
        x, y, wide, tall = place
        return Outline([(x, y), (x + wide, y), (x + wide, y + tall), (x, y + tall), (x, y)], closed=True)
    if shapes.kind == "line":
        return Outline([place[:2], place[2:]])
    points = np.asarray(place)
    return Outline(np.concatenate([points, points[:1]]), closed=True) if shapes.closed else Outline(points)
