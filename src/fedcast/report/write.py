"""The report as an HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedcast.errors import FedcastError
from fedcast.io import atomic_write
from fedcast.report.content import gather
from fedcast.report.page import page
from fedcast.runs import StoredRun


def write_report(runs: Sequence[StoredRun], path: str | Path) -> Path:
    """Write finished runs as one self-contained HTML file; the same runs give the same bytes.

    Args:
        runs: which may differ only in rule, allocation method, algorithm and seed; see `fedcast.load_runs`.
        path: of an .html file.
    """
    path = Path(path)
    check_report_path(path)
    text = page(gather(runs))
    with atomic_write(path) as aside:
        aside.write_text(text, encoding="utf-8")
    return path


def check_report_path(path: Path) -> None:
    """Check that a report can be written to a file, before any work is done for it."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise FedcastError(f"{path}: a report is an .html file; --export FOLDER writes tables and figures")
    if path.is_dir():
        raise FedcastError(f"{path}: is a folder, expected a file")
