"""The report: finished runs as one HTML page, and as tables and figures for other programs.

Figures are described without saying how they are drawn (`fedcast.report.drawing` has an example); `save_figure` writes
them as SVG, PNG or PDF.
"""

from fedcast.report.colours import GRID, INK, MUTED, PAPER, Colour, Dash
from fedcast.report.drawing import (
    Axis,
    Bars,
    Dots,
    Figure,
    HoverColumns,
    Key,
    Level,
    Line,
    Mark,
    Panel,
    Segments,
    Text,
)
from fedcast.report.export import export_report
from fedcast.report.save import check_figure_path, save_figure
from fedcast.report.write import write_report

__all__ = [
    "GRID",
    "INK",
    "MUTED",
    "PAPER",
    "Axis",
    "Bars",
    "Colour",
    "Dash",
    "Dots",
    "Figure",
    "HoverColumns",
    "Key",
    "Level",
    "Line",
    "Mark",
    "Panel",
    "Segments",
    "Text",
    "check_figure_path",
    "export_report",
    "save_figure",
    "write_report",
]
