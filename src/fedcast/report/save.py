"""Figures as files: SVG, PNG or PDF, by the file's suffix."""

from __future__ import annotations

from pathlib import Path

from fedcast.errors import FedcastError
from fedcast.io import atomic_write
from fedcast.report.drawing import Figure
from fedcast.report.layout import check_width, lay_out
from fedcast.report.svg import svg_file

FIGURE_FORMATS = ("png", "svg", "pdf")
_SCREEN_DPI, _PRINT_DPI = 160, 300


def check_figure_path(path: Path, width: str = "screen") -> None:
    """Check that a figure of that width can be written to a file, before any work is done for it."""
    check_width(width)
    if path.suffix.lower().removeprefix(".") not in FIGURE_FORMATS:
        expected = ", ".join(f".{kind}" for kind in FIGURE_FORMATS)
        raise FedcastError(f"{path}: unknown kind of picture {path.suffix!r}; expected {expected}")
    if path.is_dir():
        raise FedcastError(f"{path}: is a folder, expected a file")


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
            from fedcast.report.matplotlib_backend import write_with_matplotlib

            write_with_matplotlib(drawing, aside, kind, dpi or (_SCREEN_DPI if width == "screen" else _PRINT_DPI))
    return path
