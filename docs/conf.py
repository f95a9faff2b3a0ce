"""Sphinx configuration; pages that list what the package knows are filled from the package itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from fedcast import __version__
from fedcast.cli.app import app as command_line
from fedcast.data import PARTITIONS
from fedcast.registry import KINDS, choices, kinds_of, names
from fedcast.scenario import PRESETS, Scenario
from fedcast.scenario.describe import accepted, is_section, values_of
from fedcast.scenario.option_tables import table_model
from fedcast.training import MODELS

project = "fedcast"
author = "The fedcast authors"
copyright = "2026, The fedcast authors"  # noqa: A001
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax", "sphinx_copybutton"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "fedcast"
html_static_path = ["_static"]
html_css_files = ["tables.css"]
autodoc_member_order = "bysource"
autodoc_typehints = "description"
# Shown by name: the trailing underscore of numpy.str_ would be read as a reference.
autodoc_type_aliases = {"Names": "Names"}
autodoc_default_options = {"members": True, "show-inheritance": False}
napoleon_use_ivar = True
myst_heading_anchors = 3


_HEAD = ["| key | default | accepts | meaning |", "|---|---|---|---|"]


def _scenario() -> str:
    default = Scenario()
    parts = [*_HEAD, *_rows(default)]
    for name, field in Scenario.model_fields.items():
        if is_section(field):
            section = getattr(default, name)
            parts += ["", f"## [{name}]", "", _summary(section), "", *_HEAD, *_rows(section), *_option_tables(name)]
    return "\n".join(parts)


def _option_tables(section: str) -> list[str]:
    """Return the tables ``[section.name]`` of all built-in choices that have options."""
    parts: list[str] = []
    for choice in (choice for kind in kinds_of(section) for choice in choices(kind)):
        rows = _rows(table_model(choice.options)())
        parts += ["", f"### [{section}.{choice.name}]", "", choice.summary, "", *_HEAD, *rows] if rows else []
    return parts


def _summary(section: Any) -> str:
    return (section.__doc__ or "").strip().splitlines()[0]


def _rows(section: Any) -> list[str]:
    return [_row(key, section) for key in values_of(type(section))]


def _accepted(key: str, section: Any) -> str:
    """Return what a key accepts; the names of built-in choices where it chooses by name."""
    chosen = [kind for kind in kinds_of(getattr(section, "section", "")) if KINDS[kind].key == key]
    if chosen:
        return "one of " + ", ".join(f"`{name}`" for name in names(chosen[0])) + ", or a plug-in"
    return accepted(key, type(section).model_fields[key])


def _row(key: str, section: Any) -> str:
    field = type(section).model_fields[key]
    value = getattr(section, key)
    shown = "unset" if value is None else f"`{list(value) if isinstance(value, tuple) else value}`"
    return f"| `{key}` | {shown} | {_accepted(key, section)} | {field.description} |"


def _presets() -> str:
    lines = []
    for name, sections in PRESETS.items():
        changes = [f"`{section}.{key} = {value}`" for section, keys in sections.items() for key, value in keys.items()]
        lines.append(f"- **{name}**: {', '.join(changes) if changes else 'the defaults below'}")
    return "\n".join(lines)


def _partitions() -> str:
    lines = ["| name | what it does | every sample used |", "|---|---|---|"]
    for name, partition in PARTITIONS.items():
        lines.append(f"| `{name}` | {partition.summary} | {'yes' if partition.complete else 'not always'} |")
    return "\n".join(lines)


def _models() -> str:
    lines = ["| name | layers | weights on its usual dataset |", "|---|---|---|"]
    lines += [f"| `{name}` | {model.summary} | {model.weights:,} |" for name, model in MODELS.items()]
    return "\n".join(lines)


def _commands() -> str:
    parts = []
    for name, command in _all_commands(typer.main.get_command(command_line)):
        rows = [_parameter(parameter) for parameter in command.params]
        parts += ["", f"## fedcast {name}", "", command.help]
        parts += ["", "| argument or option | default | meaning |", "|---|---|---|", *rows] if rows else []
    return "\n".join(parts)


def _all_commands(group: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the commands of a group, and those of the groups in it, by their full names."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _all_commands(command, f"{above}{name} ")
        else:
            yield f"{above}{name}", command


def _parameter(parameter: Any) -> str:
    names = [name for name in (*parameter.opts, *parameter.secondary_opts) if name.startswith("-")]
    words = " / ".join(names) + (f" {parameter.metavar}" if parameter.metavar else "")
    default = names[0] if parameter.default is True else parameter.default
    shown = f"`{default}`" if default else ""
    cells = (f"`{words.strip()}`", shown, parameter.help)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


_FILLED = {
    "{{ scenario }}": _scenario,
    "{{ presets }}": _presets,
    "{{ partitions }}": _partitions,
    "{{ models }}": _models,
    "{{ commands }}": _commands,
}


def _fill(_: Any, __: str, source: list[str]) -> None:
    for mark, make in _FILLED.items():
        if mark in source[0]:
            source[0] = source[0].replace(mark, make())


def setup(app: Any) -> None:
    """Fill marked pages when Sphinx reads them."""
    app.connect("source-read", _fill)
