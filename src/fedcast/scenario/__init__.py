"""Scenarios: every parameter of a task, with its unit, default and range; TOML in and out."""

from fedcast.scenario.files import PRESETS, changed, load_scenario, named_files, preset, to_toml
from fedcast.scenario.sections import (
    Allocation,
    Cellular,
    Clustering,
    Data,
    Devices,
    Geometry,
    Rounds,
    Scenario,
    Sidelink,
    Training,
    Trust,
)

__all__ = [
    "PRESETS",
    "Allocation",
    "Cellular",
    "Clustering",
    "Data",
    "Devices",
    "Geometry",
    "Rounds",
    "Scenario",
    "Sidelink",
    "Training",
    "Trust",
    "changed",
    "load_scenario",
    "named_files",
    "preset",
    "to_toml",
]
