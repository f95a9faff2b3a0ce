"""fedcast validate."""

from __future__ import annotations

import typer

from fedcast.cli.options import Overrides, Preset, ScenarioFile, read_scenario


def validate(path: ScenarioFile = None, preset: Preset = "default", overrides: Overrides = None) -> None:
    """Check a scenario and name every fault at once."""
    from fedcast.data.validate import data_faults
    from fedcast.errors import ScenarioError

    scenario = read_scenario(path, preset, overrides)
    source = path or f"preset {preset}"
    if faults := data_faults(scenario):
        raise ScenarioError("\n".join(f"{source}: {fault}" for fault in faults))
    typer.echo(f"{source}: ok")
