"""Arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fedcast.scenario import Scenario

ScenarioFile = Annotated[
    Path | None, typer.Argument(metavar="[SCENARIO.toml]", help="Scenario file; without one, the preset.")
]
Preset = Annotated[str, typer.Option(help="Values that the file leaves out: default, paper, digits or mnist.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change one value, e.g. data.alpha=0.5. Repeatable."),
]
DataDir = Annotated[
    Path | None,
    typer.Option(help="Folder with dataset files; else $FEDCAST_DATA, then the cache, then a download."),
]


def read_scenario(path: Path | None, preset: str, overrides: list[str] | None) -> Scenario:
    """The scenario that the shared arguments describe."""
    from fedcast.scenario import load_scenario

    return load_scenario(path, base=preset, overrides=overrides or [])
