"""The report: finished runs as one HTML page, and as tables and figures for other programs."""

from fedcast.report.export import export_report
from fedcast.report.write import write_report

__all__ = ["export_report", "write_report"]
