"""Scenarios as TOML: read, override, write, and say what is wrong with one, all faults in one go."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomlkit
from pydantic import ValidationError

from fedcast.errors import ScenarioError
from fedcast.scenario.describe import comment, is_section
from fedcast.scenario.faults import Fault, did_you_mean, faults_of, float_text
from fedcast.scenario.sections import Scenario, Section

Tree = dict[str, Any]

# Parameters that name a file; a fit may also be one that is shipped.
FILES = [
    (name, key)
    for name, field in Scenario.model_fields.items()
    if is_section(field)
    for key in field.annotation.model_fields  # type: ignore[union-attr]
    if key == "file" or key.endswith("_file")
]
_FIT = ("rounds", "fit")

# Table I of the paper as printed, under the reading of its sidelink that gives v_th a meaning (SPEC §3, §4).
PRESETS: dict[str, Tree] = {
    "default": {},
    "paper": {
        "sidelink": {"model": "los_only", "tx_gain_db": 0.0, "rx_gain_db": 0.0},
        "devices": {"energy_coefficient": 4e-26, "energy_budget_j": 0.005},
        "allocation": {"max_sharing_ratio": 1.0},
    },
    # Tasks with a fit of rounds of our own (studies/rounds), trained as they were for it.
    # Digits stand for photographs of 31 kB that take 3 million cycles each, so that all parts of the delay show. A head
    # may share half of what it holds, since 14 samples are little to share from.
    "digits": {
        "data": {"bits_per_sample": 250e3},
        "devices": {"cycles_per_sample": 3e6},
        "allocation": {"max_sharing_ratio": 0.5},
        "rounds": {"fit": "digits-0.85", "target_accuracy": 0.85},
        "training": {"model": "small_cnn", "local_epochs": 5, "learning_rate": 0.1, "rounds": 60},
    },
    "mnist": {
        "data": {"dataset": "mnist"},
        "rounds": {"fit": "mnist-0.95"},
    },
}


def preset(name: str = "default") -> Scenario:
    """The scenario of that name.

    Example:
        >>> preset("paper").devices.energy_budget_j
        0.005
    """
    if name not in PRESETS:
        raise ScenarioError(f"unknown preset {name!r}{did_you_mean(name, PRESETS)}; there are {', '.join(PRESETS)}")
    return Scenario.model_validate(PRESETS[name])


def load_scenario(
    path: str | Path | None = None,
    *,
    base: str | None = None,
    overrides: Sequence[str] | Mapping[str, Any] = (),
    folder: str | Path | None = None,
) -> Scenario:
    """Read a TOML file over a preset, apply `section.key=value` overrides, and check everything at once.

    Args:
        path: a TOML file; what it leaves out is taken from the preset. None: the preset itself.
        base: name of the preset; None: the one that the file names (``preset = "digits"``), else ``default``.
        overrides: strings such as ``"data.num_users=50"``, or values by name; they win over the file. Paths in them
            start, as any path does, at the working folder.
        folder: where relative paths in the file start; None: at the file's own folder.

    Example:
        >>> load_scenario(overrides=["data.num_users=50"]).data.num_users
        50
        >>> load_scenario(base="digits", overrides={"training.rounds": 3}).training.rounds
        3
    """
    text = "" if path is None else _read(Path(path))
    faults: list[Fault] = []
    given = _parse(text, path)
    if path is not None:
        _start_paths(given, Path(path).parent if folder is None else Path(folder))
    tree = _merge(preset(_base(given, base, path)).model_dump(exclude_unset=True), given)
    if isinstance(overrides, Mapping):
        tree = _merge(tree, _nested(overrides))
        overrides = ()
    for override in [overrides] if isinstance(overrides, str) else overrides:
        tree, fault = _apply(tree, override)
        if fault:
            faults.append(fault)
    scenario, found = _check(tree, text, given)
    faults += found
    if faults or scenario is None:
        source = str(path) if path is not None else "scenario"
        raise ScenarioError("\n".join(f"{source}: {fault}" for fault in faults))
    return scenario


def changed(scenario: Scenario, values: Mapping[str, Any]) -> Scenario:
    """The scenario with some values replaced, named as in a file, and checked as they are there.

    Example:
        >>> changed(Scenario(), {"seed": 3, "clustering.rule": "blend"}).clustering.rule
        'blend'
    """
    made, faults = _check(_merge(scenario.model_dump(), _nested(values)), "", {})
    if made is None:
        raise ScenarioError("\n".join(str(fault) for fault in faults))
    return made


def named_files(scenario: Scenario) -> list[Path]:
    """The files that a scenario names and that are there.

    Example:
        >>> named_files(Scenario())
        []
    """
    named = [getattr(getattr(scenario, section), key) for section, key in (*FILES, _FIT)]
    return [Path(name) for name in named if name is not None and Path(name).is_file()]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ScenarioError(f"{path}: no such file; `fedcast init {path}` writes one") from None
    except IsADirectoryError:
        raise ScenarioError(f"{path}: is a folder, expected a TOML file") from None
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{path}: not UTF-8 text (byte {error.start})") from None


def _parse(text: str, path: str | Path | None) -> Tree:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"{path}: not valid TOML: {error}") from None


def _start_paths(given: Tree, folder: Path) -> None:
    """Put the folder in front of every path; a fit of rounds is one only if it lies there, else a shipped name."""
    for name, key in (*FILES, _FIT):
        section = given.get(name)
        value = section.get(key) if isinstance(section, dict) else None
        if isinstance(value, str) and ((name, key) != _FIT or (folder / value).is_file()):
            given[name][key] = value if folder == Path() else str(folder / value)


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> Tree:
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merge(merged[key], value) if both else value
    return merged


def _base(given: Tree, asked: str | None, path: str | Path | None) -> str:
    """The preset to read over: that of the file, which is taken out of it, or the one asked for."""
    named = given.pop("preset", None)
    if named is not None and not isinstance(named, str):
        raise ScenarioError(f"{path}: preset: {named!r} is refused: expected one of {', '.join(PRESETS)}")
    if named is not None and asked not in (None, named):
        raise ScenarioError(
            f"{path}: it names preset {named!r}, but {asked!r} is asked for; change it in the file, or ask for none"
        )
    return named or asked or "default"


def _nested(values: Mapping[str, Any]) -> Tree:
    """`section.key` to value as tables."""
    tree: Tree = {}
    for name, value in values.items():
        tree = _merge(tree, _at(name.split("."), value))
    return tree


def _at(keys: Sequence[str], value: Any) -> Tree:
    for key in reversed(keys):
        value = {key: value}
    nested: Tree = value
    return nested


def _apply(tree: Tree, override: str) -> tuple[Tree, Fault | None]:
    path, equals, text = override.partition("=")
    keys = path.strip().split(".")
    if not equals or not all(keys):
        return tree, Fault("", f"--set {override}: expected section.key=value, for example data.num_users=50")
    return _merge(tree, _at(keys, _value(text.strip()))), None


def _value(text: str) -> Any:
    """The value of an override: TOML where it is TOML, `unset` for none, else the text itself, without quotes."""
    if text == "unset":
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _check(tree: Tree, text: str, given: Tree) -> tuple[Scenario | None, list[Fault]]:
    try:
        return Scenario.model_validate(tree), []
    except ValidationError as error:
        return None, faults_of(error, text if given else "")


def to_toml(scenario: Scenario, *, preset: str = "default", comments: bool = True) -> str:
    """A scenario as TOML text: every parameter, with a comment that gives meaning, unit and range.

    A parameter that is unset (None) stands as a comment, since TOML has no empty value.

    Args:
        scenario: to write.
        preset: that a reader takes missing values from.
        comments: whether to explain.

    Example:
        >>> from fedcast.scenario import Scenario
        >>> print(to_toml(Scenario()).splitlines()[3])
        seed = 0  # seed of every random choice; a whole number, >= 0, < 9223372036854775808
    """
    lines = []
    if comments:
        lines = [
            "# fedcast scenario. Delete what you do not want to fix: missing keys take the preset's value.",
            "# All units are SI and stand at the end of a name.",
        ]
    lines.append(f'preset = "{preset}"')
    lines += _assignments(scenario, comments)
    for name, field in type(scenario).model_fields.items():
        if is_section(field):
            section: Section = getattr(scenario, name)
            lines += ["", f"[{name}]"]
            if comments and section.__doc__:
                lines[-1] += f"  # {section.__doc__.strip().splitlines()[0]}"
            lines += _assignments(section, comments)
    return "\n".join(lines) + "\n"


def _assignments(section: Section, comments: bool) -> list[str]:
    lines = []
    for name, field in type(section).model_fields.items():
        if is_section(field):
            continue
        line = _assignment(name, getattr(section, name))
        if line.startswith("#") and not comments:
            continue
        lines.append(line + (f"  # {comment(name, field)}" if comments else ""))
    return lines


def _assignment(name: str, value: Any) -> str:
    if value is None:
        return f"# {name} ="
    if isinstance(value, float):
        return f"{name} = {float_text(value)}"
    return f"{name} = {tomlkit.item(list(value) if isinstance(value, tuple) else value).as_string()}"
