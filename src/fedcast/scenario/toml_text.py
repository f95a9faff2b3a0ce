"""Write scenarios as TOML, with comments that give meaning, unit and range."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import tomlkit

from fedcast import registry
from fedcast.scenario.describe import comment, float_text, is_section, values_of
from fedcast.scenario.file_paths import change_paths
from fedcast.scenario.option_tables import UNSET, ChoiceSection, Section, table_model
from fedcast.scenario.presets import PRESETS
from fedcast.scenario.sections import Scenario


def to_toml(
    scenario: Scenario,
    *,
    preset: str = "default",
    comments: bool = True,
    all_tables: bool = False,
    folder: str | Path = "",
) -> str:
    """Return a scenario as TOML text: every parameter, with a comment that gives meaning, unit and range.

    A parameter that is unset (None), for which TOML has no value, stands as a comment if that is its default, otherwise
    as the text "unset".

    Args:
        scenario: to write.
        preset: that a reader takes missing values from; the file names it.
        comments: whether to explain.
        all_tables: write the options of every choice, instead of those of the chosen and changed ones.
        folder: of the file, where relative paths in it start; by default the working folder.

    Example:
        >>> from fedcast.scenario import Scenario
        >>> print(to_toml(Scenario()).splitlines()[3])
        seed = 0  # seed of every random choice; a whole number, >= 0, < 9223372036854775808
    """
    if Path(folder) != Path():
        tree = scenario.model_dump(mode="json")
        change_paths(tree, Path(), lambda file: file if Path(file).is_absolute() else os.path.relpath(file, folder))
        scenario = Scenario.model_validate(tree)
    lines, usual = [], Scenario.model_validate(PRESETS[preset])
    if comments:
        lines = [
            "# fedcast scenario. Delete what you do not want to fix: missing keys take the preset's value.",
            "# All units are SI and stand at the end of a name.",
        ]
    lines.append(f'preset = "{preset}"')
    lines += _assignments(scenario, usual, comments)
    for name, field in type(scenario).model_fields.items():
        if is_section(field):
            section: Section = getattr(scenario, name)
            lines += ["", _header(name, (section.__doc__ or "").strip().splitlines()[0] if comments else "")]
            lines += _assignments(section, getattr(usual, name), comments)
            if isinstance(section, ChoiceSection):
                lines += _tables(section, getattr(usual, name), comments, all_tables)
    return "\n".join(lines) + "\n"


def _header(name: str, explanation: str) -> str:
    return f"[{name}]  # {explanation}" if explanation else f"[{name}]"


def _tables(section: ChoiceSection, usual: ChoiceSection, comments: bool, all_tables: bool) -> list[str]:
    """Return the option tables of a section; those of plug-ins that are not loaded as they are."""
    lines: list[str] = []
    unknown = dict(section.tables)
    for kind in registry.kinds_of(section.section):
        for name in registry.names(kind):
            changed = unknown.pop(name, {})
            if all_tables or changed or name == getattr(section, registry.KINDS[kind].key):
                choice = registry.find(kind, name)
                table, usual_table = (
                    table_model(choice.options).model_validate(values)
                    for values in (changed, usual.tables.get(name, {}))
                )
                assignments = _assignments(table, usual_table, comments)
                header = _header(f"{section.section}.{name}", choice.summary if comments else "")
                lines += ["", header, *assignments] if assignments else []
    for name, values in unknown.items():
        lines += ["", _header(f"{section.section}.{name}", "")]
        lines += [_assignment(key, UNSET if value is None else value) for key, value in values.items()]
    return lines


def _assignments(section: Section, usual: Section, comments: bool) -> list[str]:
    lines = []
    for name, field in values_of(type(section)).items():
        value = getattr(section, name)
        line = _assignment(name, UNSET if value is None and getattr(usual, name) is not None else value)
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
