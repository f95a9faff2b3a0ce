"""The command `fedcast report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedcast.errors import FedcastError


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Run folders, or folders of run folders.")],
    out: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("report.html"),
    export: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Also write all tables and figures.")] = None,
    formats: Annotated[
        list[str] | None,
        typer.Option(
            "--format", help="Format of the export: csv, parquet, png, svg or pdf. Default: csv and png. Repeatable."
        ),
    ] = None,
    width: Annotated[
        str, typer.Option(help="Width of exported figures: screen, column (3.5 in) or page (7.16 in).")
    ] = "screen",
) -> None:
    """Write finished runs as one HTML page that works offline, and as tables and figures if asked."""
    from fedcast.report import DEFAULT_FORMATS, check_export, check_report_path, export_report, write_report
    from fedcast.runs import load_runs

    check_report_path(out)
    for option, given in (("--format", formats), ("--width", width != "screen")):
        if given and export is None:
            raise FedcastError(f"{option}: applies to exports only; add --export FOLDER")
    if export is not None:
        check_export(export, formats or DEFAULT_FORMATS, width)
    found = load_runs(runs)
    typer.echo(f"wrote {write_report(found, out)}")
    if export is not None:
        files = export_report(found, export, formats or DEFAULT_FORMATS, width)
        typer.echo(f"wrote {len(files)} files to {export}")
