"""Checks of the paths of reports."""

from __future__ import annotations

from pathlib import Path

from fedcast.errors import FedcastError
from fedcast.io import check_writable


def check_report_path(path: Path) -> None:
    """Check that a report can be written to a file, before any work is done for it."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise FedcastError(f"{path}: a report is an .html file; --export FOLDER writes tables and figures")
    check_writable(path)
