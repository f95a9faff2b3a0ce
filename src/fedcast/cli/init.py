"""fedcast init."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedcast.cli.arguments import Overrides


def init(
    path: Annotated[Path, typer.Argument(metavar="[FILE]", help="File to write; - for the screen.")] = Path(
        "scenario.toml"
    ),
    preset: Annotated[str, typer.Option(help="Values to start from: default, paper, digits or mnist.")] = "default",
    overrides: Overrides = None,
    force: Annotated[bool, typer.Option(help="Replace an existing file.")] = False,
) -> None:
    """Write a scenario file: every parameter with meaning, unit and range."""
    from fedcast.errors import FedcastError
    from fedcast.io import atomic_write
    from fedcast.scenario import load_scenario, to_toml

    text = to_toml(load_scenario(base=preset, overrides=overrides or []), preset=preset, all_tables=True)
    if str(path) == "-":
        typer.echo(text, nl=False)
        return
    if path.exists() and not force:
        raise FedcastError(f"{path}: exists already; --force replaces it")
    with atomic_write(path) as aside:
        aside.write_text(text, encoding="utf-8")
    typer.echo(f"wrote {path}; edit it, then: fedcast inspect {path}")
