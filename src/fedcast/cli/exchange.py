"""The commands `fedcast export` and `fedcast import-partition`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedcast.cli.arguments import DataDir


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder, or a folder with one run.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder to write, new or empty.")],
    torch: Annotated[
        bool, typer.Option("--torch", help="Add a plain PyTorch script that repeats the training.")
    ] = False,
    flower: Annotated[bool, typer.Option("--flower", help="Add a Flower app that repeats the training.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Write a run for other tools: partitions, samples, weights, history, plan."""
    from fedcast.runs import export_run

    written = export_run(run, folder, torch=torch, flower=flower, data_dir=data_dir)
    typer.echo(f"wrote {written}; {written / 'README.md'} says what each file is")
