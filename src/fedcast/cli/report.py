"""fedcast report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Run folders, or folders of run folders.")],
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    export: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Also write all tables and figures.")] = None,
    formats: Annotated[
        list[str] | None,
        typer.Option("--format", help="Of the export: csv, parquet, png, svg or pdf; csv and png if none. Repeatable."),
    ] = None,
) -> None:
    """Write finished runs as one HTML page that works offline, and as tables and figures if asked."""
    from fedcast.errors import FedcastError
    from fedcast.report.export import USUAL_FORMATS, check_export, export_report
    from fedcast.report.write import check_report_path, write_report
    from fedcast.runs.store import load_runs

    check_report_path(out)
    if formats and export is None:
        raise FedcastError("--format: says how to export; add --export FOLDER")
    if export is not None:
        check_export(export, formats or USUAL_FORMATS)
    found = load_runs(runs)
    typer.echo(f"wrote {write_report(found, out)}")
    if export is not None:
        files = export_report(found, export, formats or USUAL_FORMATS)
        typer.echo(f"wrote {len(files)} files to {export}")
