"""Arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fedcast.data import Population
    from fedcast.scenario import Scenario

ScenarioFile = Annotated[
    Path | None, typer.Argument(metavar="[SCENARIO.toml]", help="Scenario file; without one, the preset.")
]
Preset = Annotated[
    str | None,
    typer.Option(
        help="Values that the file leaves out: default, paper, digits or mnist. Unset: the preset that the file names."
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="SECTION.KEY=VALUE", help="Change one value, e.g. data.dirichlet.alpha=0.5. Repeatable."
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(help="Folder with dataset files; else $FEDCAST_DATA, then the cache, then a download."),
]
Counts = Annotated[
    Path | None, typer.Option(help="Own label counts: user and a column per class, or user,class,count.")
]
PictureWidth = Annotated[
    str, typer.Option("--width", help="Width of the picture: screen, or for papers column (3.5 in) or page (7.16 in).")
]
Links = Annotated[Path | None, typer.Option(help="Own links: user_a,user_b,rate_bps,closeness.")]


def read_scenario(
    path: Path | None, preset: str | None, overrides: list[str] | None, usual: str = "default"
) -> Scenario:
    """The scenario that the shared arguments describe; with neither file nor preset, the command's usual preset."""
    from fedcast.scenario import load_scenario

    return load_scenario(path, base=preset or (usual if path is None else None), overrides=overrides or [])


def read_people(
    path: Path | None, preset: str | None, overrides: list[str] | None, counts: Path | None
) -> tuple[Scenario, Population | None]:
    """The scenario, and the users of a table of counts, if there is one, in the place of its dataset."""
    from fedcast.data import read_counts

    if counts is None:
        return read_scenario(path, preset, overrides), None
    population = read_counts(counts)
    own = ["data.dataset=synthetic", f"data.num_users={population.num_users}"]
    return read_scenario(path, preset, [*(overrides or []), *own]), population


def as_overrides(files: dict[str, Path | None]) -> list[str]:
    """Options that name a table, as the parameters they stand for."""
    return [f"{key}={path}" for key, path in files.items() if path is not None]
