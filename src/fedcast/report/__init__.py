"""The report: finished runs as one HTML page, and as tables and figures for other programs.

Figures are described without saying how they are drawn (`fedcast.report.drawing` has an example); `save_figure` writes
them as SVG, PNG or PDF.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
from fedcast.report.figures.classes import ClassDots, class_dots, class_dots_figure
from fedcast.report.figures.maps import cluster_figure, cluster_map, network_figure, network_map
from fedcast.report.save import check_figure_path, save_figure

if TYPE_CHECKING:
    from fedcast.report.export import DEFAULT_FORMATS, check_export, export_report
    from fedcast.report.write import check_report_path, write_report

# Reports of runs need PyTorch; figures of plans do not.
_HOME_OF = {
    "DEFAULT_FORMATS": "export",
    "check_export": "export",
    "check_report_path": "write",
    "export_report": "export",
    "write_report": "write",
}

__all__ = [
    "DEFAULT_FORMATS",
    "GRID",
    "INK",
    "MUTED",
    "PAPER",
    "Axis",
    "Bars",
    "ClassDots",
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
    "check_export",
    "check_figure_path",
    "check_report_path",
    "class_dots",
    "class_dots_figure",
    "cluster_figure",
    "cluster_map",
    "export_report",
    "network_figure",
    "network_map",
    "save_figure",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'fedcast.report' has no attribute {name!r}")
    return getattr(import_module(f"fedcast.report.{_HOME_OF[name]}"), name)
