"""Values that decide the result of a run, for the hash that names its folder."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fedcast import registry
from fedcast.scenario.moved import MOVED, Tree
from fedcast.scenario.option_tables import ChoiceSection
from fedcast.scenario.sections import BEST_RULE, LEFT_TO_PLAN, Scenario
from fedcast.scenario.training_section import FULL_UPLOAD

# Parameters that change how a run is carried out, not its result.
NOT_DECIDING = (("training", "checkpoint_every"),)
# Keys that came later are left out where they have their default: runs of before keep their folders.
_LATER_KEYS = {
    "data": ("counts_epsilon",),
    "geometry": ("base_stations_file",),
    "training": (
        "upload", "augmentation", "over_selection", "deadline_s", "buffer_size", "concurrency", "staleness_exponent",
        "fine_tune_epochs", "fine_tune_learning_rate", "user_test",
    ),
}  # fmt: skip
# Options that came later, with the value under which they change nothing: runs of before keep their folders.
_LATER_OPTIONS: dict[tuple[str, str], dict[str, Any]] = {
    ("partition", "dirichlet"): {"balanced": False},
    ("partition", "shards"): {"holders": "even"},
    ("partition", "natural"): {"join": False},
    ("partition", "indices"): {"shared": False},
    ("sharing", "synthetic"): {"features": "pixels", "network_file": None},
}


def deciding_values(scenario: Scenario) -> Tree:
    """Return every value that decides a run; of option tables those of the choices that the scenario makes.

    Plug-in files are left out: their content is hashed with that of the other files that a scenario names.
    """
    content = _without_settings_of_runs(scenario)
    for kind, known in registry.KINDS.items():
        section: ChoiceSection = getattr(scenario, known.section)
        chosen = getattr(section, known.key)
        if kind in LEFT_TO_PLAN and chosen == BEST_RULE:
            continue  # The options of every one may decide which is best.
        for name in section.tables:
            content[known.section].pop(name, None)
        # A model of one's own, or the dataset's usual one, has no options; nor has a choice that is not registered.
        options = asdict(section.options(kind)) if chosen in registry.names(kind) else section.tables.get(chosen, {})
        if kind != "upload" or chosen != FULL_UPLOAD:
            later = _LATER_OPTIONS.get((kind, chosen), {})
            kept = {name: value for name, value in options.items() if name not in later or value != later[name]}
            content[known.section][f"{kind} options"] = kept
    return content


def values_before_tables(scenario: Scenario) -> Tree | None:
    """Return the values as they were hashed before options had tables; None if there was no such scenario then."""
    if scenario.plugins or scenario.sharing.kind != "raw":
        return None
    content = _without_settings_of_runs(scenario)
    del content["sharing"]
    if content["training"]["model_file"] is None:
        del content["training"]["model_file"]
    for name, keys in MOVED.items():
        section: ChoiceSection = getattr(scenario, name)
        if set(section.tables) - {table for places in keys.values() for table, _ in places}:
            return None
        for table in section.tables:
            content[name].pop(table)
        content[name] |= {key: _value_before(section, places) for key, places in keys.items()}
    return content


def _value_before(section: ChoiceSection, places: tuple[tuple[str, str], ...]) -> Any:
    """Return the value of an old key: of the choice that the scenario makes, else of one that sets it."""
    chosen = {getattr(section, registry.KINDS[kind].key) for kind in registry.kinds_of(section.section)}
    table, name = min(places, key=lambda place: (place[0] not in chosen, place[0] not in section.tables))
    choice = registry.find_in_section(section.section, table)
    assert choice is not None, "moved keys lead to built-in choices"
    return getattr(section.options(choice.kind, table), name)


def _without_settings_of_runs(scenario: Scenario) -> Tree:
    """Return the values of a scenario without its plug-in files and without those that decide no result."""
    content = scenario.model_dump(mode="json", exclude={"plugins": True})
    for section, name in NOT_DECIDING:
        del content[section][name]
    if not any(content["changes"].values()):
        del content["changes"]
    if not content["training"]["fine_tune_epochs"]:
        content["training"]["fine_tune_learning_rate"] = None
    usual = Scenario()
    for section, names in _LATER_KEYS.items():
        for name in names:
            if content[section][name] == getattr(getattr(usual, section), name):
                del content[section][name]
    return content
