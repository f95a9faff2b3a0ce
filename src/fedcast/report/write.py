"""The report as a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedcast.errors import FedcastError
from fedcast.io import atomic_write
from fedcast.report.content import gather
from fedcast.report.page import page
from fedcast.runs.store import StoredRun


def write_report(runs: Sequence[StoredRun], path: str | Path) -> Path:
    """Write finished runs as one HTML file that needs nothing else; the same runs give the same bytes.

    Args:
        runs: that differ in rule, method, algorithm and seed alone (`fedcast.runs.store.load_runs` reads them).
        path: of an .html file.
    """
    path = Path(path)
    check_report_path(path)
    text = page(gather(runs))
    with atomic_write(path) as aside:
        aside.write_text(text, encoding="utf-8")
    return path


def check_report_path(path: Path) -> None:
    """Refuse a file that cannot be a page, before any work is done for it."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise FedcastError(f"{path}: a report is an .html file; --export FOLDER writes tables and figures")
    if path.is_dir():
        raise FedcastError(f"{path}: is a folder, expected a file")
