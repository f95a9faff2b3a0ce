"""The end of the page: the scenario, and how to reproduce the runs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel

from fedcast import registry
from fedcast.formatting import quantity
from fedcast.report.content import Content
from fedcast.report.html import Markup, note, scrolled, section, table, tag
from fedcast.runs import combinations, with_given_epochs
from fedcast.scenario import Scenario, to_toml, unit_of

_PREFIXED = ("Hz", "W", "J", "m", "bit/s")
_PLUGINS_NOTE = (
    "Copy the plug-in files too: the scenario names them, and their paths start at the folder of scenario.toml. "
    "A run is the same only if their content is."
)
# What runs of a report may differ in; the comparison shows these.
COMPARED = (
    "seed", "clustering.rule", "allocation.method", "training.algorithm", "sharing.kind", "training.local_epochs",
)  # fmt: skip


def scenario_section(content: Content) -> Markup:
    """Return a table of what differs from the defaults, and the whole scenario."""
    changed = list(differences(content.scenario, content.plugin_options))
    shown = note("Every parameter has its default.")
    if changed:
        titles = ("parameter", "value", "default", "meaning")
        shown = scrolled(table(titles, changed, "words"), "What differs from the defaults")
    toml = tag("pre", tag("code", to_toml(content.scenario)))
    compared = note("Rule, allocation method, algorithm, kind of sharing and seed are in the comparison.")
    whole = tag("details", tag("summary", "All parameters, as TOML"), toml)
    return section("scenario", "Scenario", shown, compared, whole)


def differences(
    scenario: Scenario, plugin_options: Mapping[str, Sequence[Any]] = MappingProxyType({})
) -> Iterator[tuple[str, str, str, str]]:
    """Yield name, value, default and meaning of each parameter that differs from its default.

    `plugin_options` has default and meaning of options of plug-ins, by dotted key; see `StoredRun.plugin_options`.
    """
    default = Scenario()
    for section_name in Scenario.model_fields:
        section, usual = getattr(scenario, section_name), getattr(default, section_name)
        if not isinstance(section, BaseModel):  # seed and plugins
            continue
        for name, field in type(section).model_fields.items():
            value, key = getattr(section, name), f"{section_name}.{name}"
            if name == "tables":
                yield from _option_differences(section_name, value, plugin_options)
            elif value != getattr(usual, name) and key not in COMPARED:
                yield key, _text(name, value), _text(name, getattr(usual, name)), field.description or ""
    if scenario.plugins:
        yield "plugins", ", ".join(scenario.plugins), "none", Scenario.model_fields["plugins"].description or ""


def _option_differences(
    section: str, tables: Mapping[str, Mapping[str, Any]], plugin_options: Mapping[str, Sequence[Any]]
) -> Iterator[tuple[str, str, str, str]]:
    """Yield the same of the options of choices; a plug-in that is not loaded has all its options in its table."""
    for choice_name, values in tables.items():
        choice = registry.find_in_section(section, choice_name)
        fields = {} if choice is None else registry.option_fields(choice.options)
        for name, value in values.items():
            key, default, meaning = f"{section}.{choice_name}.{name}", "unknown", ""
            if name in fields:
                default, meaning = _text(name, fields[name].default), fields[name].metadata.get("description", "")
            elif key in plugin_options:
                default, meaning = _text(name, plugin_options[key][0]), plugin_options[key][1]
            if _text(name, value) != default:
                yield key, _text(name, value), default, meaning


def _text(name: str, value: object) -> str:
    if value is None:
        return "unset"
    if not isinstance(value, float):
        return str(value)
    unit = unit_of(name)
    if unit in _PREFIXED:
        return quantity(value, unit)
    text = f"{value:,.0f}" if value.is_integer() else f"{value:g}"
    return f"{text} {unit}" if unit else text


def reproduce_section(content: Content) -> Markup:
    """Return commands, run folders and versions."""
    folders = [(content.name_of(run), tag("code", run.folder.name)) for run in content.runs]
    packages = dict.fromkeys(name for run in content.runs for name in run.versions)
    versions = [
        (package, ", ".join(dict.fromkeys(run.versions.get(package, "absent") for run in content.runs)))
        for package in packages
    ]
    return section(
        "reproduce",
        "How to reproduce",
        tag("p", "Save the scenario above as ", tag("code", "scenario.toml"), ", then:"),
        tag("pre", tag("code", "\n".join(commands(content)))),
        *([note(_PLUGINS_NOTE)] if content.scenario.plugins else []),
        note("The name of a run's folder depends on everything that determines the run: equal names, equal runs."),
        tag(
            "div",
            scrolled(table(("run", "folder"), folders, "words"), "Run folders", tall=True),
            scrolled(table(("package", "version"), versions, "words"), "Versions"),
            class_="two",
        ),
    )


def commands(content: Content) -> list[str]:
    """Return one command for a whole grid of runs; otherwise one per run, and one for the page."""
    keys = [*(_key(run.scenario) for run in content.runs), *(_key(one.scenario) for one in content.failed)]
    values = [list(dict.fromkeys(column)) for column in zip(*keys, strict=True)]
    given, rules, methods, algorithms, kinds, _ = values
    seeds = range(min(map(int, given)), min(map(int, given)) + len(given))
    controls = list(dict.fromkeys(name for row in content.rows if (name := row.strategy.control)))
    # A single kind is that of the scenario, and controls need the rule none.
    controls = controls if len(kinds) > 1 and "none" in rules else []
    whole = combinations(content.scenario, rules, methods, algorithms, seeds, controls)
    if set(keys) in ({_key(scenario) for scenario in made} for made in (whole, with_given_epochs(whole))):
        words = ["fedcast compare scenario.toml", f"--rules {','.join(rules)}", f"--seeds {len(seeds)}"]
        words += [f"--methods {','.join(methods)}"] if len(methods) > 1 else []
        words += [f"--algorithms {','.join(algorithms)}"] if len(algorithms) > 1 else []
        words += [f"--controls {','.join(controls)}"] if controls else []
        return [" ".join(words)]
    differing = [(place, name) for place, name in enumerate(COMPARED) if len(values[place]) > 1]
    lines = []
    for key in keys:
        settings = [f"--set {name}={shlex.quote(key[place])}" for place, name in differing]
        lines.append(" ".join(["fedcast train scenario.toml --out runs", *settings]))
    return [*lines, "fedcast report runs"]


def _key(scenario: Scenario) -> tuple[str, ...]:
    values = attrgetter(*COMPARED)(scenario)
    return tuple(str(list(value)) if isinstance(value, tuple) else str(value) for value in values)
