"""Figures as files: SVG, PNG or PDF, by the file's suffix. PNG and PDF are drawn by matplotlib."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from fedcast.errors import FedcastError
from fedcast.io import atomic_write, check_writable
from fedcast.report.colours import Dash, hex_of
from fedcast.report.drawing import Figure
from fedcast.report.layout import Drawing, check_width, lay_out
from fedcast.report.shapes import Shapes
from fedcast.report.svg import svg_file

FIGURE_FORMATS = ("png", "svg", "pdf")
_SCREEN_DPI, _PRINT_DPI = 160, 300
_POINTS_PER_INCH = 72
# In units of the line's width.
_DASHES: dict[Dash, Any] = {"solid": "-", "dashed": (0, (3.5, 2.2)), "dotted": (0, (0.1, 2.4)), "dashdot": "-."}
# A PDF with more shapes than this is slow to show; they become an image inside it.
_MAX_VECTORS = 5_000
_ANCHORS = {"start": "left", "middle": "center", "end": "right"}
# TrueType fonts are embedded whole, which publishers ask for.
_SETTINGS: dict[Any, Any] = {"pdf.fonttype": 42, "font.family": ["DejaVu Sans"]}


def check_figure_path(path: Path, width: str = "screen") -> None:
    """Check that a figure of that width can be written to a file, before any work is done for it."""
    check_width(width)
    if path.suffix.lower().removeprefix(".") not in FIGURE_FORMATS:
        expected = ", ".join(f".{kind}" for kind in FIGURE_FORMATS)
        raise FedcastError(f"{path}: unknown kind of picture {path.suffix!r}; expected {expected}")
    check_writable(path)


def save_figure(figure: Figure, path: str | Path, width: str = "screen", dpi: int | None = None) -> Path:
    """Write a figure atomically; missing folders are made. The same figure gives the same bytes.

    Args:
        figure: see `fedcast.report.drawing`, which has an example.
        path: of a .svg (texts stay texts), .png or .pdf (TrueType fonts are embedded) file.
        width: ``screen`` (the figure's own), or for papers ``column`` (3.5 in) or ``page`` (7.16 in).
        dpi: pixels per inch of a PNG; default 160 on screens, 300 in papers.
    """
    path = Path(path)
    check_figure_path(path, width)
    drawing, kind = lay_out(figure, width), path.suffix.lower().removeprefix(".")
    with atomic_write(path) as aside:
        if kind == "svg":
            aside.write_text(svg_file(drawing), encoding="utf-8")
        else:
            _write_with_matplotlib(drawing, aside, kind, dpi or (_SCREEN_DPI if width == "screen" else _PRINT_DPI))
    return path


def _write_with_matplotlib(drawing: Drawing, path: Path, kind: str, dpi: int) -> None:
    from matplotlib import rc_context
    from matplotlib.figure import Figure as Canvas

    with rc_context(_SETTINGS), warnings.catch_warnings():
        # A name in a script that the font lacks shows as boxes; a warning for each of its letters helps nobody.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        size_in = drawing.width / _POINTS_PER_INCH, drawing.height / _POINTS_PER_INCH
        canvas = Canvas(figsize=size_in, facecolor="white")
        axes = canvas.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set_xlim(0, drawing.width)
        axes.set_ylim(drawing.height, 0)
        axes.set_axis_off()
        for order, item in enumerate(drawing.items):
            if isinstance(item, Shapes):
                _add_shapes(axes, item, order)
                continue
            axes.text(
                item.x, item.y, item.text, fontsize=item.size, color=hex_of(item.colour), ha=_ANCHORS[item.anchor],
                va="baseline", rotation=item.rotate, rotation_mode="anchor", zorder=order, parse_math=False,
            )  # fmt: skip
        # Without a date the same figure has the same bytes.
        canvas.savefig(path, format=kind, dpi=dpi, metadata={"CreationDate": None} if kind == "pdf" else None)


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
