"""The commands `fedcast init`, `validate`, `plugins` and `datasets`: scenario files, and what they can name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedcast.cli import arguments
from fedcast.cli.output import plain_table, screen, write_text
from fedcast.errors import DataError, FedcastError, OutsideFitError, ScenarioError
from fedcast.text_files import is_file

if TYPE_CHECKING:
    from fedcast.scenario import Devices, Scenario
    from fedcast.typing import Names


def init(
    path: Annotated[Path, typer.Argument(metavar="[FILE]", help="File to write; - for standard output.")] = Path(
        "scenario.toml"
    ),
    preset: Annotated[str, typer.Option(help="Preset: default, paper, digits, mnist, niid-….")] = "default",
    overrides: arguments.Overrides = None,
    force: Annotated[bool, typer.Option(help="Replace an existing file.")] = False,
) -> None:
    """Write a scenario file: every parameter with meaning, unit and range."""
    from fedcast.scenario import load_scenario, to_toml

    scenario = load_scenario(base=preset, overrides=overrides or [])
    text = to_toml(scenario, preset=preset, all_tables=True, folder=path.parent)
    if str(path) == "-":
        typer.echo(text, nl=False)
        return
    if path.exists() and not force:
        raise FedcastError(f"{path}: exists already; --force replaces it")
    write_text(path, text)
    typer.echo(f"wrote {path}; edit it, then: fedcast inspect {path}")


def validate(
    path: arguments.ScenarioFile = None,
    preset: arguments.Preset = None,
    overrides: arguments.Overrides = None,
    data_dir: arguments.DataDir = None,
    counts: arguments.Counts = None,
) -> None:
    """Validate a scenario and the files it names; print all errors, of each file the first.

    It says whether the scenario can be planned and trained. Only `fedcast plan` tells whether the plan is feasible.
    """
    from fedcast.cost import model_size
    from fedcast.plan import scenario_notes
    from fedcast.scenario import missing_files

    faults: list[str] = []
    try:
        scenario, people = arguments.read_with_counts(path, preset, overrides, counts)
    except ScenarioError as error:
        # Unknown names alone do not keep the tables from being validated.
        if error.scenario is None:
            raise
        scenario, people = arguments.with_counts(error.scenario)
        faults = str(error).splitlines()
    source = path or f"preset {preset or 'default'}"
    readers = _readers(scenario, people.names if people else None, names_known=not faults)
    faults += [f"{source}: {fault}" for fault in missing_files(scenario)]
    faults += _study_faults(path, preset, overrides) if not faults else []
    faults += [f"{source}: {fault}" for fault in map(_error_of, readers) if fault]
    if faults:
        raise ScenarioError("\n".join(faults))
    size = [model_size(scenario).note] if _samples_known(scenario) else []
    for note in (*filter(None, size), *scenario_notes(scenario)):
        typer.echo(f"fedcast: {note}", err=True)
    reason = "a table of label counts has no samples"
    if people is None:
        from fedcast.runs import check_training

        reason = _error_of(lambda: check_training(scenario, data_dir))
    typer.echo(f"{source}: ok" if not reason else f"{source}: ok to plan; not to train: {reason}")


def _study_faults(path: Path | None, preset: str | None, overrides: list[str] | None) -> list[str]:
    """Return the error that `fedcast compare` would give for the table [study] of a file, if it has one."""
    from fedcast.scenario import read_study_table

    if path is None or not read_study_table(path, preset):
        return []
    from fedcast.runs import load_study

    error = _error_of(lambda: load_study(path, base=preset, overrides=overrides or []).scenarios())
    return [error if error.startswith(str(path)) else f"{path}: [study]: {error}"] if error else []


def _error_of(check: Callable[[], object]) -> str:
    """Return the message of the error that a check raises; empty: it raises none."""
    try:
        check()
    except FedcastError as error:
        return str(error)
    return ""


def _readers(scenario: Scenario, names: Names | None, names_known: bool) -> list[Callable[[], object]]:
    """Return functions that check the model's size, who takes part, the fit of rounds and each table that exists."""
    from fedcast.cost import draws_of, model_bits
    from fedcast.network import place_users
    from fedcast.plan import network_of, read_changes

    users, geometry, seed = scenario.data.num_users, scenario.geometry, scenario.seed
    anywhere = geometry.model_copy(update={"positions_file": None, "base_stations_file": None})
    places = [file for file in (geometry.positions_file, geometry.base_stations_file) if file is not None]
    # Missing files are listed by themselves.
    placed = places[0] if places and all(map(is_file, places)) else None
    tables: list[tuple[str | None, Callable[[], object]]] = [
        (placed, lambda: place_users(users, geometry, seed, names)),
        (scenario.trust.links_file, lambda: network_of(scenario, place_users(users, anywhere, seed, names))),
        (scenario.devices.devices_file, lambda: _read_devices(users, scenario.devices, names)),
    ]
    there = [read for file, read in tables if file is not None and is_file(file)]
    return [
        *([lambda: model_bits(scenario)] if names_known and _samples_known(scenario) else []),
        *([lambda: draws_of(scenario)] if names_known else []),
        lambda: _load_rounds(scenario),
        lambda: read_changes(scenario.changes, users, names),
        *there,
    ]


def _load_rounds(scenario: Scenario) -> None:
    """Raise the error of the fit of rounds, unless planning does without one that covers the scenario."""
    from fedcast.plan import needs_rounds
    from fedcast.rounds import load_rounds

    try:
        load_rounds(scenario.rounds, scenario.training.learning_rate, scenario.data.dataset)
    except OutsideFitError as error:
        if needs_rounds(scenario):
            raise
        typer.echo(f"fedcast: rounds and delay are not predicted: {error}", err=True)


def _samples_known(scenario: Scenario) -> bool:
    """Return whether the shape of samples, on which a model's size depends, is known without loading them."""
    from fedcast.data import CATALOGUE

    return CATALOGUE[scenario.data.dataset].spec is not None


def _read_devices(users: int, devices: Devices, names: Names | None) -> None:
    from fedcast.cost import device_columns, device_table

    device_table(users, devices, names)
    path = str(devices.devices_file)
    found = device_columns(path)
    if not found.read:
        has = ", ".join(["user", *found.ignored])
        raise DataError(f"{path}: no column says anything about devices; it has {has}")


def plugins(
    path: arguments.ScenarioFile = None, preset: arguments.Preset = None, overrides: arguments.Overrides = None
) -> None:
    """List everything that a scenario can choose by name: what it does, where it comes from, its options.

    Plug-in files that the scenario names are run: use only files that you trust.
    """
    from fedcast.registry import KINDS, choices, option_fields

    scenario = arguments.read_scenario(path, preset, overrides)
    console, files = screen(), dict[str, None]()
    for kind, known in KINDS.items():
        section = getattr(scenario, known.section)
        chosen = getattr(section, known.key)
        table = plain_table("name", "what it does", "options", "origin", numbers=False)
        for choice in choices(kind):
            values = section.options(kind, choice.name)
            options = [
                _option(name, getattr(values, name), field.default)
                for name, field in option_fields(choice.options).items()
            ]
            name = f"{choice.name} *" if choice.name == chosen else choice.name
            table.add_row(name, choice.summary, ", ".join(options), choice.origin.rpartition("/")[2])
            files |= {choice.origin: None} if choice.origin.startswith("file ") else {}
        console.print(f"{known.noun}, {known.section}.{known.key}", style="bold")
        console.print(table, "")
    said = "* chosen. Options, with the scenario's values, are keys of [section.name]; `fedcast init` explains them."
    console.print(said, style="dim")
    # Tables cut long paths.
    for file in files:
        console.print(file, soft_wrap=True)


def _option(name: str, value: object, default: object) -> str:
    shown, usual = ("unset" if each is None else str(each) for each in (value, default))
    return f"{name} = {shown}" + (f" (default {usual})" if value != default else "")


def datasets(data_dir: arguments.DataDir = None) -> None:
    """List datasets: state, size, contents and terms of use."""
    from fedcast.data import CATALOGUE, data_folders, presence

    table = plain_table("name", "state", "size", "contents", "terms", numbers=False, header_style="bold")
    for name, entry in CATALOGUE.items():
        found = presence(name, data_dir)
        size = "" if found.megabytes is None else f"{found.megabytes:,.1f} MB"
        table.add_row(name, found.state, size, entry.summary, entry.terms)
    console = screen()
    console.print(table)
    console.print("\nSearched: " + ", then ".join(str(folder) for folder in data_folders(data_dir)), style="dim")
