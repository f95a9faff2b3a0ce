"""Read scenarios from TOML, apply overrides, and validate them."""

from __future__ import annotations

import os
import tomllib
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fedcast import registry
from fedcast.errors import FedcastError, MovedKeyWarning, ScenarioError
from fedcast.formatting import did_you_mean, shown_value, similar_name
from fedcast.scenario.describe import Fault, fault_lines, faults_of, section_at, unknown_key, values_of
from fedcast.scenario.file_paths import change_paths, leaves
from fedcast.scenario.moved import Tree, move_all, moved_note, set_twice
from fedcast.scenario.option_tables import ChoiceSection
from fedcast.scenario.presets import PRESETS, STUDIES
from fedcast.scenario.sections import BEST_RULE, LEFT_TO_PLAN, Scenario
from fedcast.text_files import is_file, read_text

# What functions take for a scenario: itself, the path of a file, or the name of a preset.
ScenarioLike = Scenario | str | Path

_MOST_BYTES = 2**24
_MOST_LEVELS = 20
_MOST_SHOWN = 80
# Table of a scenario file that says what a comparison varies.
_STUDY = "study"


def preset(name: str = "default") -> Scenario:
    """Return the scenario of that name.

    Example:
        >>> preset("paper").devices.energy_budget_j
        0.005
    """
    if name not in PRESETS:
        hint = did_you_mean(similar_name(name, PRESETS), f"there are {', '.join(PRESETS)}")
        raise ScenarioError(f"unknown preset {name!r}{hint}")
    return Scenario.model_validate(PRESETS[name])


def load_scenario(
    path: str | Path | None = None,
    *,
    base: str | None = None,
    overrides: Sequence[str] | Mapping[str, Any] = (),
    folder: str | Path | None = None,
) -> Scenario:
    """Read a TOML file over a preset, apply `section.key=value` overrides, and validate everything at once.

    Plug-in files that the scenario names in ``plugins`` are run: use only files that you trust.

    Args:
        path: a TOML file; what it leaves out is taken from the preset. None: the preset itself. A table ``[study]``,
            for `fedcast compare`, is not part of the scenario.
        base: name of the preset; None: the one that the file names (``preset = "digits"``), else ``default``.
        overrides: strings such as ``"data.num_users=50"``, or values by name; they win over the file. Relative paths
            in them start at the working folder.
        folder: where relative paths in the file start; None: at the file's own folder.

    Example:
        >>> load_scenario(overrides=["data.num_users=50"]).data.num_users
        50
        >>> load_scenario(base="digits", overrides={"training.rounds": 3}).training.rounds
        3
    """
    text, given = ("", {}) if path is None else _read(Path(path))
    given.pop(_STUDY, None)
    start = Path() if path is None else Path(path).parent if folder is None else Path(folder)
    if start != Path():
        change_paths(given, start, lambda file: str(start / file))
    base = _base(given, base, path)
    over, faults = _overrides(overrides)
    faults += [
        Fault(new, f"{old} is the old name of the same option; remove one of them")
        for tree in (given, over)
        for new, old in set_twice(tree).items()
    ]
    tree = _merge(_merge(preset(base).model_dump(exclude_unset=True), move_all(given)), move_all(over))
    unloaded = _load_plugins(tree)
    scenario, invalid = _check(tree)
    faults += unloaded + invalid
    # Without its plug-ins, names in a scenario are unknown.
    unknown = [] if unloaded else _unknown_names(tree)
    source = str(path or "scenario")
    if faults or unknown or scenario is None:
        setter = "override" if isinstance(overrides, Mapping) else "--set"
        message = fault_lines(faults + unknown, text, source, leaves(move_all(over)), setter)
        raise ScenarioError(message, None if faults else scenario)
    for origin, note in ((source, moved_note(given)), ("override", moved_note(over))):
        if note:
            warnings.warn(f"{origin}: {note}", MovedKeyWarning, stacklevel=2)
    return scenario


def as_scenario(given: ScenarioLike) -> Scenario:
    """Return a scenario, or load the one of a file or preset.

    Example:
        >>> as_scenario("digits").training.rounds
        60
    """
    if isinstance(given, Scenario):
        return given
    value: object = given  # whatever a caller without a type checker passes
    if not isinstance(value, str | os.PathLike):
        expected = "a Scenario, the path of a scenario file or the name of a preset"
        raise FedcastError(f"scenario: expected {expected}, got {shown_value(value)}")
    return preset(str(given)) if str(given) in PRESETS and not is_file(given) else load_scenario(given)


def read_study_table(path: str | Path | None, base: str | None = None) -> Tree:
    """Return the table ``[study]`` of a scenario file, what it varies by dotted key, over that of its preset.

    `base` is the preset of a file that names none; without a file, that of the preset alone.
    """
    given = {} if path is None else _read(Path(path))[1]
    table, of_preset = given.get(_STUDY, {}), STUDIES.get(str(given.get("preset", base)), {})
    if not isinstance(table, dict):
        raise ScenarioError(f"{path}: study: expected a table, [study]")
    vary = table.get("vary")
    return of_preset | (table | {"vary": leaves(vary)} if isinstance(vary, dict) else table)


def current_keys(key: str) -> list[str]:
    """Return the keys that a parameter has now, also if it is named by an old one.

    Example:
        >>> current_keys("data.alpha"), current_keys("training.learning_rate")
        (['data.dirichlet.alpha'], ['training.learning_rate'])
    """
    return list(leaves(move_all(_nested({key: None}))))


def read_stored_scenario(path: Path) -> Scenario:
    """Read a scenario that fedcast wrote beside a result: names are not looked up, and no plug-in is run.

    Paths in it start at the working folder, as they did when it was written.
    """
    text, given = _read(path)
    given.pop("preset", None)
    scenario, faults = _check(given)
    if scenario is None:
        raise ScenarioError(fault_lines(faults, text, str(path)))
    return scenario


def with_overrides(scenario: Scenario, values: Mapping[str, Any]) -> Scenario:
    """Return the scenario with some values replaced, named as in a file, and validated as they are there.

    Example:
        >>> with_overrides(Scenario(), {"seed": 3, "clustering.rule": "blend"}).clustering.rule
        'blend'
    """
    made, faults = _check(_merge(scenario.model_dump(), move_all(_nested(values))))
    if made is None:
        raise ScenarioError(fault_lines(faults))
    return made


def load_plugins(scenario: Scenario) -> None:
    """Run the plug-in files of a scenario in this process, if they have not been run; workers call this first."""
    for file in scenario.plugins:
        registry.load_file(file)


def _unknown_names(tree: Tree) -> list[Fault]:
    """Return the choices and option tables that are not registered."""
    faults = []
    for name in Scenario.model_fields:
        section, section_type = tree.get(name), section_at([name])
        if not (isinstance(section, Mapping) and section_type and issubclass(section_type, ChoiceSection)):
            continue
        for kind in registry.kinds_of(name):
            key = registry.KINDS[kind].key
            chosen = section.get(key)
            own_model = kind == "model" and (chosen == "auto" or section.get("model_file") is not None)
            left_to_plan = kind in LEFT_TO_PLAN and chosen == BEST_RULE
            if isinstance(chosen, str) and chosen not in registry.names(kind) and not (own_model or left_to_plan):
                message = f"invalid value {chosen!r}: {registry.unknown_name(kind, chosen)}"
                message += f"; {BEST_RULE} lets a plan choose" if kind in LEFT_TO_PLAN else ""
                faults.append(Fault(f"{name}.{key}", message))
        faults += [
            Fault(f"{name}.{key}", unknown_key([name, key]))
            for key, value in section.items()
            if isinstance(value, Mapping) and key not in values_of(section_type)
            if registry.find_in_section(name, key) is None
        ]
    return faults


def _load_plugins(tree: Tree) -> list[Fault]:
    files = tree.get("plugins", ())
    faults = []
    for file in files if isinstance(files, list | tuple) else ():
        try:
            if isinstance(file, str):
                registry.load_file(file)
        except FedcastError as error:
            faults.append(Fault("plugins", str(error).removeprefix("plugins: ")))
    return faults


def _read(path: Path) -> tuple[str, Tree]:
    """Return the text of a TOML file, and its values."""
    try:
        text = read_text(path, _MOST_BYTES)
        tree = tomllib.loads(text)
    except FileNotFoundError:
        meant = similar_name(str(path), PRESETS, 0.8)
        preset_hint = f"; did you mean the preset {meant} (--preset {meant})?" if meant else ""
        raise ScenarioError(f"{path}: no such file{preset_hint or f'; `fedcast init {path}` writes one'}") from None
    except IsADirectoryError:
        raise ScenarioError(f"{path}: is a folder, expected a TOML file") from None
    except FedcastError as error:
        raise ScenarioError(str(error)) from None
    except (ValueError, RecursionError) as error:
        # A whole number of thousands of digits gives advice on Python after a semicolon.
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error).partition(";")[0]
        raise ScenarioError(f"{path}: not valid TOML: {reason}") from None
    if _is_deep(tree):
        raise ScenarioError(f"{path}: not a scenario: nested too deeply")
    return text, tree


def _is_deep(value: Any) -> bool:
    """Return whether tables and lists are nested deeper than any scenario: functions here call themselves for each."""
    level = [value]
    for _ in range(_MOST_LEVELS):
        inside = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
        level = [value for values in inside for value in values]
    return bool(level)


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> Tree:
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merge(merged[key], value) if both else value
    return merged


def _base(given: Tree, asked: str | None, path: str | Path | None) -> str:
    """Return the preset to read over: the one that the file names, which is removed from it, or the one asked for."""
    named = given.pop("preset", None)
    if named is not None and not isinstance(named, str):
        raise ScenarioError(f"{path}: preset: invalid value {named!r}: expected one of {', '.join(PRESETS)}")
    if named is not None and asked not in (None, named):
        raise ScenarioError(
            f"{path}: it names preset {named!r}, but {asked!r} is asked for; change it in the file, or ask for none"
        )
    return named or asked or "default"


def _nested(values: Mapping[str, Any]) -> Tree:
    """Return values by `section.key` as nested tables."""
    tree: Tree = {}
    for path, value in values.items():
        for key in reversed(path.split(".")):
            value = {key: value}
        tree = _merge(tree, value)
    return tree


def _overrides(given: Sequence[str] | Mapping[str, Any]) -> tuple[Tree, list[Fault]]:
    """Return overrides as tables, and what is wrong with them."""
    if isinstance(given, Mapping):
        return _nested(given), []
    values, faults = {}, []
    for override in [given] if isinstance(given, str) else given:
        path, equals, text = override.partition("=")
        keys, value = path.strip().split("."), _value(text.strip())
        if equals and all(keys) and len(keys) < _MOST_LEVELS and not _is_deep(value):
            values[path.strip()] = value
        else:
            shown = override if len(override) <= _MOST_SHOWN else f"{override[:_MOST_SHOWN]}…"
            faults.append(Fault(f"--set {shown}", "expected section.key=value, for example data.num_users=50"))
    return _nested(values), faults


def _value(text: str) -> Any:
    """Return the value of an override: TOML if valid, else the text itself, without quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def read_values(text: str) -> list[Any]:
    """Return values that are separated by commas, each as in an override.

    Example:
        >>> read_values("0.1, 1"), read_values("1,[1, 2]"), read_values("gain,emd")
        ([0.1, 1], [1, [1, 2]], ['gain', 'emd'])
    """
    try:
        return list(tomllib.loads(f"values = [{text}]")["values"])
    except (ValueError, RecursionError):
        return [_value(part.strip()) for part in text.split(",") if part.strip()]


def values_by_key(given: Sequence[str], option: str) -> dict[str, list[Any]]:
    """Return the values of a repeatable option KEY=V,… by key.

    Example:
        >>> values_by_key(["seed=0,1", "clustering.rule=daca"], "--vary")
        {'seed': [0, 1], 'clustering.rule': ['daca']}
    """
    found: dict[str, list[Any]] = {}
    for text in given:
        name, equals, values = text.partition("=")
        key = name.strip()
        if not (key and equals and read_values(values)):
            raise ScenarioError(f"{option} {text}: expected KEY=V,…, for example training.learning_rate=0.05,0.1")
        if key in found:
            raise ScenarioError(f"{option} {text}: {key} is given twice; give all its values once, as KEY=V,…")
        found[key] = read_values(values)
    return found


def _check(tree: Tree) -> tuple[Scenario | None, list[Fault]]:
    try:
        return Scenario.model_validate(tree), []
    except ValidationError as error:
        return None, faults_of(error)
