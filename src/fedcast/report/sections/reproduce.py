"""How to have the same again: commands, run folders, versions."""

from __future__ import annotations

import shlex

from fedcast.report.content import Content
from fedcast.report.markup import Markup, tag
from fedcast.report.sections.parts import scrolled, table
from fedcast.report.sections.scenario import COMPARED
from fedcast.runs.sweep import combinations
from fedcast.scenario import Scenario


def reproduce_section(content: Content) -> Markup:
    """Commands, then folders, then versions."""
    folders = [(content.name_of(run), tag("code", run.folder.name)) for run in content.runs]
    return tag(
        "section",
        tag("h2", "How to reproduce"),
        tag("p", "Save the scenario above as ", tag("code", "scenario.toml"), ", then:"),
        tag("pre", tag("code", "\n".join(commands(content)))),
        tag("p", "A run's folder is named after all that decides it: the same name holds the same run.", class_="note"),
        tag(
            "div",
            scrolled(table(("run", "folder"), folders, "words"), "Run folders", tall=True),
            scrolled(table(("package", "version"), _versions(content), "words"), "Versions"),
            class_="two",
        ),
        id="reproduce",
    )


def commands(content: Content) -> list[str]:
    """One command for a whole grid of runs; else one per run, and one for this page."""
    return _as_grid(content) or _one_by_one(content)


def _as_grid(content: Content) -> list[str]:
    """The comparison that these runs come from, if they are all of its runs."""
    rules, methods, algorithms = (_values(content, key) for key in COMPARED[1:])
    seeds = range(content.seeds[0], content.seeds[0] + len(content.seeds))
    whole = combinations(content.scenario, rules, methods, algorithms, seeds)
    if {_key(scenario) for scenario in whole} != {_key(run.scenario) for run in content.runs}:
        return []
    words = ["fedcast compare scenario.toml", f"--rules {','.join(rules)}", f"--seeds {len(seeds)}"]
    words += [f"--allocations {','.join(methods)}"] if len(methods) > 1 else []
    words += [f"--algorithms {','.join(algorithms)}"] if len(algorithms) > 1 else []
    return [" ".join(words)]


def _one_by_one(content: Content) -> list[str]:
    differing = [key for key in COMPARED if len(_values(content, key)) > 1]
    lines = []
    for run in content.runs:
        settings = [f"--set {key}={shlex.quote(_value(run.scenario, key))}" for key in differing]
        lines.append(" ".join(["fedcast train scenario.toml --out runs", *settings]))
    return [*lines, "fedcast report runs"]


def _key(scenario: Scenario) -> tuple[str, ...]:
    return tuple(_value(scenario, key) for key in COMPARED)


def _values(content: Content, key: str) -> list[str]:
    """What a parameter is in these runs, each value once."""
    return list(dict.fromkeys(_value(run.scenario, key) for run in content.runs))


def _value(scenario: Scenario, key: str) -> str:
    value: object = scenario
    for part in key.split("."):
        value = getattr(value, part)
    return str(value)


def _versions(content: Content) -> list[tuple[str, str]]:
    """Of every package; several where runs were made with several."""
    packages = dict.fromkeys(name for run in content.runs for name in run.versions)
    found = []
    for package in packages:
        versions = dict.fromkeys(run.versions.get(package, "absent") for run in content.runs)
        found.append((package, ", ".join(versions)))
    return found
