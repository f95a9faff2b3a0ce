"""Scenarios: every parameter of a task, with its unit, default and range; TOML in and out."""

from fedcast._deprecated import renamed
from fedcast.scenario.describe import parameter, unit_of
from fedcast.scenario.file_paths import (
    files_by_key,
    flat_values,
    missing_files,
    named_files,
    named_paths,
    with_absolute_paths,
)
from fedcast.scenario.identity import NOT_DECIDING, deciding_values, values_before_tables
from fedcast.scenario.presets import PRESETS
from fedcast.scenario.scenario_files import (
    ScenarioLike,
    as_scenario,
    current_keys,
    load_plugins,
    load_scenario,
    preset,
    read_stored_scenario,
    read_study_table,
    read_values,
    values_by_key,
    with_overrides,
)
from fedcast.scenario.sections import (
    BEST_KIND,
    BEST_RULE,
    MODEL_OF_DATASET,
    USUAL_MODEL,
    Allocation,
    Cellular,
    Changes,
    ClusteringSettings,
    Data,
    Devices,
    Geometry,
    Rounds,
    Scenario,
    SharingSettings,
    Sidelink,
    Trust,
    model_name,
)
from fedcast.scenario.toml_text import to_toml
from fedcast.scenario.training_section import Training

__all__ = [
    "BEST_KIND",
    "BEST_RULE",
    "MODEL_OF_DATASET",
    "NOT_DECIDING",
    "PRESETS",
    "USUAL_MODEL",
    "Allocation",
    "Cellular",
    "Changes",
    "ClusteringSettings",
    "Data",
    "Devices",
    "Geometry",
    "Rounds",
    "Scenario",
    "ScenarioLike",
    "SharingSettings",
    "Sidelink",
    "Training",
    "Trust",
    "as_scenario",
    "current_keys",
    "deciding_values",
    "files_by_key",
    "flat_values",
    "load_plugins",
    "load_scenario",
    "missing_files",
    "model_name",
    "named_files",
    "named_paths",
    "parameter",
    "preset",
    "read_stored_scenario",
    "read_study_table",
    "read_values",
    "to_toml",
    "unit_of",
    "values_before_tables",
    "values_by_key",
    "with_absolute_paths",
    "with_overrides",
]

__getattr__ = renamed(__name__, {"Clustering": ClusteringSettings})
