"""The report: finished runs, or a plan, as one HTML page, and as tables and figures for other programs.

Figures are described without saying how they are drawn (`fedcast.report.drawing` has an example); `save_figure` writes
them as SVG, PNG or PDF.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedcast._lazy import lazy_names
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
    Names,
    Panel,
    Segments,
    Text,
)
from fedcast.report.figures.crowds import crowd_figure
from fedcast.report.figures.maps import cluster_figure, cluster_map, plan_figure
from fedcast.report.figures.network_maps import network_figure, network_map
from fedcast.report.figures.users import ClassDots, class_dots, class_dots_figure
from fedcast.report.save import check_figure_path, save_figure
from fedcast.report.shell import check_report_path

# Imported when first used: reports of runs need PyTorch; figures of plans do not.
if TYPE_CHECKING:
    from fedcast.report.plan_page import write_plan_report
    from fedcast.report.report_files import DEFAULT_FORMATS, check_export, export_report, write_report

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
    "Names",
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
    "crowd_figure",
    "export_report",
    "network_figure",
    "network_map",
    "plan_figure",
    "save_figure",
    "write_plan_report",
    "write_report",
]

__getattr__ = lazy_names(__name__, __file__)
