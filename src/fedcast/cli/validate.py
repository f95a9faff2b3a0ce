"""fedcast validate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from fedcast.cli.arguments import Counts, Overrides, Preset, ScenarioFile, read_with_counts

if TYPE_CHECKING:
    from fedcast.scenario import Devices, Scenario
    from fedcast.typing import Names


def validate(
    path: ScenarioFile = None, preset: Preset = None, overrides: Overrides = None, counts: Counts = None
) -> None:
    """Validate a scenario and the tables it names: all errors at once, of each table the first."""
    from fedcast.errors import ScenarioError
    from fedcast.scenario import missing_files

    faults: list[str] = []
    try:
        scenario, people = read_with_counts(path, preset, overrides, counts)
    except ScenarioError as error:
        # Unknown names alone do not keep the tables from being validated.
        scenario, people = read_with_counts(path, preset, overrides, counts, check_names=False)
        faults = str(error).splitlines()
    source = path or f"preset {preset or 'default'}"
    readers = _readers(scenario, people.names if people else None, names_known=not faults)
    faults += [f"{source}: {fault}" for fault in [*missing_files(scenario), *_faults_of(readers)]]
    if faults:
        raise ScenarioError("\n".join(faults))
    typer.echo(f"{source}: ok")


def _faults_of(readers: list[Callable[[], object]]) -> list[str]:
    """Return the first error of each."""
    from fedcast.errors import FedcastError

    faults = []
    for read in readers:
        try:
            read()
        except FedcastError as error:
            faults.append(str(error))
    return faults


def _readers(scenario: Scenario, names: Names | None, names_known: bool) -> list[Callable[[], object]]:
    """Return functions that read the model's size, the fit of rounds and each table that exists."""
    from fedcast.cost import model_bits
    from fedcast.network import place_users
    from fedcast.plan import network_of
    from fedcast.rounds import load_rounds

    users, geometry, seed = scenario.data.num_users, scenario.geometry, scenario.seed
    anywhere = geometry.model_copy(update={"positions_file": None})
    tables: list[tuple[str | None, Callable[[], object]]] = [
        (geometry.positions_file, lambda: place_users(users, geometry, seed, names)),
        (scenario.trust.links_file, lambda: network_of(scenario, place_users(users, anywhere, seed, names))),
        (scenario.devices.devices_file, lambda: _read_devices(users, scenario.devices, names)),
    ]
    there = [read for file, read in tables if file is not None and Path(file).is_file()]
    return [*([lambda: model_bits(scenario)] if names_known else []), lambda: load_rounds(scenario.rounds), *there]


def _read_devices(users: int, devices: Devices, names: Names | None) -> None:
    from fedcast.cost import device_columns, device_table
    from fedcast.errors import DataError

    device_table(users, devices, names)
    path = str(devices.devices_file)
    found = device_columns(path)
    if not found.read:
        has = ", ".join(["user", *found.ignored])
        raise DataError(f"{path}: no column says anything about devices; it has {has}")
