"""The commands `fedcast export` and `fedcast import-partition`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedcast.cli.arguments import DataDir
from fedcast.formatting import pluralize


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder, or a folder with one run.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder to write, new or empty.")],
    torch: Annotated[
        bool, typer.Option("--torch", help="Add a plain PyTorch script that repeats the training.")
    ] = False,
    flower: Annotated[bool, typer.Option("--flower", help="Add a Flower app that repeats the training.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Write a run for other tools: samples, weights, history."""
    from fedcast.runs import export_run

    written = export_run(run, folder, torch=torch, flower=flower, data_dir=data_dir)
    typer.echo(f"wrote {written}; {written / 'README.md'} says what each file is")


def import_partition(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="Folder or file of the other tool.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder to write, new or empty.")],
    kind: Annotated[str, typer.Option("--format", help="flwr (flwr-datasets), leaf (LEAF) or pfllib (PFLlib).")],
    shape: Annotated[str | None, typer.Option(help="Shape of a sample, e.g. 28,28 if images are vectors.")] = None,
    inputs: Annotated[str | None, typer.Option(help="flwr: column of the inputs.")] = None,
    labels: Annotated[str | None, typer.Option(help="flwr: column of the labels.")] = None,
) -> None:
    """Read the samples of users that another tool stored."""
    from fedcast.data import import_partition

    sides = None if shape is None else _sides(shape)
    found = import_partition(source, folder, kind, shape=sides, inputs=inputs, labels=labels)
    of_test = " (held out, a fifth of each class)" if found.held_out else ""
    typer.echo(
        f"{pluralize(found.num_users, 'user')}, {pluralize(found.num_classes, 'class', 'classes')}, "
        f"{pluralize(found.num_samples, 'sample')} for training, {found.num_test:,} for the test{of_test}\n"
        f"wrote {found.folder}; train with `fedcast train {found.scenario}`"
    )


def _sides(text: str) -> list[int]:
    parts = text.replace("x", ",").split(",")
    if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise typer.BadParameter(f"--shape: invalid value {text!r}: expected whole numbers > 0 such as 28,28")
    return [int(part) for part in parts]
