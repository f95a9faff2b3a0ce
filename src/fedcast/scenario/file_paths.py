"""Files and folders that a scenario names, and its values by dotted key."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fedcast.scenario.moved import Tree
from fedcast.scenario.option_tables import UNSET
from fedcast.scenario.sections import Scenario
from fedcast.text_files import is_file


def with_absolute_paths(scenario: Scenario) -> Scenario:
    """Return the scenario with absolute paths, for a process in another working folder.

    Example:
        >>> from fedcast.scenario import load_scenario
        >>> made = with_absolute_paths(load_scenario(overrides=["data.file=mine.npz"]))
        >>> all(path.is_absolute() for path in named_paths(made).values())
        True
    """
    tree = scenario.model_dump(mode="json")
    change_paths(tree, Path(), lambda file: str(Path(file).resolve()))
    return Scenario.model_validate_json(json.dumps(tree))


def flat_values(scenario: Scenario) -> Tree:
    """Return all values by dotted key: ``{"seed": 0, "data.dataset": "digits", …}``."""
    return leaves(scenario.model_dump(mode="json"))


def named_paths(scenario: Scenario) -> dict[str, Path]:
    """Return the paths that a scenario names, by dotted key, plug-in files last.

    Example:
        >>> from fedcast.scenario import load_scenario
        >>> named_paths(load_scenario(overrides=["data.file=mine.npz"]))
        {'data.file.path': PosixPath('mine.npz')}
    """
    values = flat_values(scenario).items()
    found = {key: Path(value) for key, value in values if isinstance(value, str) and _names_path(key)}
    return found | {f"plugins[{place}]": Path(file) for place, file in enumerate(scenario.plugins)}


def missing_files(scenario: Scenario) -> list[str]:
    """Return a line for every file that a scenario names and that does not exist."""
    named = named_paths(scenario).items()
    folders = [f"{key}: no such folder: {path}" for key, path in named if _names_folder(key) and not path.is_dir()]
    return folders + [
        f"{key}: no such file: {path}" for key, path in named if not _names_folder(key) and not is_file(path)
    ]


def named_files(scenario: Scenario) -> list[Path]:
    """Return the files that a scenario names and that exist, its fit of rounds and all in its folders among them.

    Example:
        >>> named_files(Scenario())
        []
    """
    fit = Path(scenario.rounds.fit)
    return [*(file for _, file in files_by_key(scenario)), *([fit] if is_file(fit) else [])]


def files_by_key(scenario: Scenario) -> list[tuple[str, Path]]:
    """Return the files that exist at the paths that a scenario names, with the dotted key; of folders all files."""
    named = named_paths(scenario).items()
    inside = ((key, sorted(path.rglob("*")) if _names_folder(key) else [path]) for key, path in named)
    return [(key, file) for key, files in inside for file in files if is_file(file)]


def _names_path(key: str) -> bool:
    key = key.rpartition(".")[2]
    return key in ("file", "path", "folder") or key.endswith(("_file", "_path"))


def _names_folder(key: str) -> bool:
    return key.rpartition(".")[2] == "folder"


def change_paths(tree: Tree, start: Path, change: Callable[[str], str]) -> None:
    """Replace the paths in a scenario's values, which start at a folder; a fit is a path only if it is a file."""
    for key, value in tree.items():
        if isinstance(value, dict):
            change_paths(value, start, change)
        elif key == "plugins" and isinstance(value, list):
            tree[key] = [change(file) if isinstance(file, str) else file for file in value]
        elif (
            isinstance(value, str)
            and value != UNSET
            and (_names_path(key) or (key == "fit" and is_file(start / value)))
        ):
            tree[key] = change(value)


def leaves(tree: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return the values of nested tables by dotted path."""
    found: Tree = {}
    for key, value in tree.items():
        found |= leaves(value, f"{above}{key}.") if isinstance(value, Mapping) else {f"{above}{key}": value}
    return found
