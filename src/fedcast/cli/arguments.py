"""Arguments that several commands share."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fedcast.data import Population
    from fedcast.scenario import Scenario

table_option = partial(typer.Option, rich_help_panel="Tables")

ScenarioFile = Annotated[
    Path | None,
    typer.Argument(metavar="[SCENARIO.toml]", help="Scenario file; without one, the preset. Code it names is run."),
]
Preset = Annotated[str | None, typer.Option(help="Preset to start from: default, paper, digits, mnist, niid-….")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a value, e.g. data.num_users=50. Repeatable."),
]
DataDir = Annotated[Path | None, typer.Option(help="Folder with dataset files, tried first.")]
Counts = Annotated[Path | None, table_option(help="Label counts: user and a column per class, or user,class,count.")]
Positions = Annotated[Path | None, table_option(help="Positions: user with x_m,y_m or longitude,latitude.")]
BaseStations = Annotated[Path | None, table_option(help="Base stations: x_m,y_m or longitude,latitude.")]
DeviceFile = Annotated[Path | None, table_option("--devices", help="Devices, a row per user.")]
Links = Annotated[Path | None, table_option(help="Links: user_a, user_b, rate_bps, closeness.")]
PictureWidth = Annotated[
    str, typer.Option("--width", help="Width of the picture: screen, column (3.5 in) or page (7.16 in).")
]

# Parameters that name the tables of the shared arguments.
_TABLES = {
    "links": "trust.links_file", "positions": "geometry.positions_file",
    "base_stations": "geometry.base_stations_file", "devices": "devices.devices_file",
}  # fmt: skip


def words(option: str, text: str) -> list[str]:
    """Return the names in the value of an option, separated by commas, without repetitions."""
    found = [name.strip() for name in text.split(",") if name.strip()]
    if not found:
        raise typer.BadParameter(f"{option}: expected names separated by commas")
    return list(dict.fromkeys(found))


def read_scenario(
    path: Path | None, preset: str | None, overrides: list[str] | None, usual: str = "default"
) -> Scenario:
    """Return the scenario of the shared arguments; with neither file nor preset, the command's usual preset."""
    from fedcast.scenario import load_scenario

    base = preset or (usual if path is None else None)
    return load_scenario(path, base=base, overrides=overrides or [])


def read_with_counts(
    path: Path | None, preset: str | None, overrides: list[str] | None, counts: Path | None, **tables: Path | None
) -> tuple[Scenario, Population | None]:
    """Return the scenario with the given tables, and the population of a table of label counts, if there is one."""
    own = [f"{_TABLES[name]}={file}" for name, file in tables.items() if file is not None] + (overrides or [])
    own += [] if counts is None else ["data.dataset=synthetic", f"data.synthetic.counts_file={counts}"]
    return with_counts(read_scenario(path, preset, own))


def with_counts(scenario: Scenario) -> tuple[Scenario, Population | None]:
    """Return the population of the table of label counts that a scenario names, and the scenario with its users."""
    from fedcast.data import counts_file, read_counts
    from fedcast.scenario import with_overrides

    if (file := counts_file(scenario.data)) is None:
        return scenario, None
    population = read_counts(file)
    return with_overrides(scenario, {"data.num_users": population.num_users}), population
