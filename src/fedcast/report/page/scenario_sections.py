"""The end of the page: the scenario, and how to reproduce the runs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from operator import attrgetter

from fedcast.formatting import setting_text
from fedcast.registry import find, names, option_fields
from fedcast.report.content import Content
from fedcast.report.html import Markup, note, scrolled, section, table, tag
from fedcast.report.scenario_table import differences, differences_table, value_text, whole_scenario
from fedcast.runs import StoredRun, combinations, decides, setting, variants, with_given_epochs
from fedcast.scenario import Scenario, parameter

_PLUGINS_NOTE = (
    "Copy the plug-in files too: the scenario names them, and their paths start at the folder of scenario.toml. "
    "A run is the same only if their content is."
)
_FOLDERS_NOTE = "The name of a run's folder depends on everything that determines the run: equal names, equal runs."
_DEVICES_NOTE = "The same devices with the same samples give the same weights, up to rounding."
# What runs of a report may differ in; the comparison shows these.
COMPARED = (
    "seed", "clustering.rule", "allocation.method", "training.algorithm", "sharing.kind", "training.local_epochs",
)  # fmt: skip


# Parameters of training that are listed even if they have their default.
_LISTED = (
    "training.model", "training.rounds", "training.local_epochs", "training.batch_size", "training.learning_rate",
    "training.participation", "rounds.target_accuracy", "rounds.fit",
)  # fmt: skip


def scenario_section(contents: Sequence[Content]) -> Markup:
    """Return a table of what differs from the defaults, and the whole scenario."""
    content, varied = contents[0], [*contents[0].facet, *contents[0].tuned]
    runs = [run for one in contents for run in one.runs]
    options = {key: option for run in runs for key, option in run.plugin_options.items()}
    changed = differences(content.scenario, options, (*COMPARED, *varied))
    listed = {key: (key, *_varied(contents, key)) for key in varied}
    listed |= {line[0]: line for line in _always(content.scenario) if line[0] not in listed}
    listed |= {line[0]: line for line in changed}
    shown = differences_table(list(listed.values()))
    said = "Rule, allocation method, algorithm, kind of sharing and seed are in the comparison."
    compared = note(said + (" The TOML is that of the first run." if varied else ""))
    return section("scenario", "Scenario", shown, compared, whole_scenario(content.scenario))


def _always(scenario: Scenario) -> Iterator[tuple[str, str, str, str]]:
    """Yield name, value, default and meaning of parameters that are listed even if they have their default."""
    partition = scenario.data.partition
    fields = option_fields(find("partition", partition).options) if partition in names("partition") else {}
    options = [f"data.{partition}.{name}" for name in fields]
    for key in ("data.dataset", "data.num_users", "data.partition", *options, *_LISTED):
        default, meaning = parameter(key)
        yield key, value_text(key, setting(scenario, key)), value_text(key, default), meaning


def _varied(contents: Sequence[Content], key: str) -> tuple[str, str, str]:
    """Return all values, default and meaning of a parameter that varies."""
    found = dict.fromkeys(
        value_text(key, setting(run.scenario, key))
        for content in contents
        for run in content.runs
        if decides(run.scenario, key)
    )
    default, meaning = parameter(key)
    return f"varies: {', '.join(found)}", value_text(key, default), meaning


def _training_time(run: StoredRun) -> str:
    """Return how long training took here, or whose history was taken over."""
    if run.timing is not None:
        return run.timing.text
    return f"not trained: as {run.history_from}" if run.history_from else "–"


def reproduce_section(contents: Sequence[Content]) -> Markup:
    """Return commands, run folders and versions."""
    content, runs = contents[0], [run for one in contents for run in one.runs]
    # Results of real devices are in a folder of their run.
    names = {run: run.folder.parent.name if run.measured_s else run.folder.name for run in runs}
    folders = [(one.name_of(run), tag("code", names[run]), _training_time(run)) for one in contents for run in one.runs]
    packages = dict.fromkeys(name for run in runs for name in run.versions)
    versions = [
        (package, ", ".join(dict.fromkeys(run.versions.get(package, "absent") for run in runs))) for package in packages
    ]
    return section(
        "reproduce",
        "How to reproduce",
        tag("p", "Save the scenario above as ", tag("code", "scenario.toml"), ", then:"),
        tag("pre", tag("code", "\n".join(commands(*contents)))),
        *([note(_PLUGINS_NOTE)] if content.scenario.plugins else []),
        note(_DEVICES_NOTE if any(run.measured_s for run in runs) else _FOLDERS_NOTE),
        tag(
            "div",
            scrolled(table(("run", "folder", "training took"), folders, "words"), "Run folders", tall=True),
            scrolled(table(("package", "version"), versions, "words"), "Versions"),
            class_="two",
        ),
    )


def commands(*contents: Content) -> list[str]:
    """Return one command for a whole grid of runs; otherwise one per run, and one for the page."""
    if any(run.measured_s for one in contents for run in one.runs):
        return ["fedcast federation run PROJECT scenario.toml"]
    content, varied = contents[0], [*contents[0].facet, *contents[0].tuned]
    scenarios = [run.scenario for one in contents for run in one.runs]
    scenarios += [run.scenario for one in contents for run in one.failed]
    keys = [_key(scenario, varied) for scenario in scenarios]
    values = [list(dict.fromkeys(column)) for column in zip(*keys, strict=True)]
    given, rules, methods, algorithms, kinds, *_ = values
    seeds = range(min(map(int, given)), min(map(int, given)) + len(given))
    controls = list(dict.fromkeys(name for one in contents for row in one.rows if (name := row.strategy.control)))
    # A single kind is that of the scenario, and controls need the rule none.
    controls = controls if len(kinds) > 1 and "none" in rules else []
    vary = {key: list({str(one.facet[key]): one.facet[key] for one in contents}.values()) for key in content.facet}
    whole = [
        one
        for base in variants(content.scenario, vary)
        for one in combinations(base, rules, methods, algorithms, seeds, controls)
    ]
    grids = ({_key(scenario, varied) for scenario in made} for made in (whole, with_given_epochs(whole)))
    if not content.tuned and set(keys) in grids:
        words = ["fedcast compare scenario.toml", f"--rules {','.join(rules)}", f"--seeds {len(seeds)}"]
        words += [f"--methods {','.join(methods)}"] if len(methods) > 1 else []
        words += [f"--algorithms {','.join(algorithms)}"] if len(algorithms) > 1 else []
        words += [f"--controls {','.join(controls)}"] if controls else []
        words += [
            f"--vary {shlex.quote(f'{key}=' + ','.join(map(setting_text, listed)))}" for key, listed in vary.items()
        ]
        return [" ".join(words)]
    differing = [(place, name) for place, name in enumerate((*COMPARED, *varied)) if len(values[place]) > 1]
    lines = []
    for key in dict.fromkeys(keys):
        settings = [f"--set {name}={shlex.quote(key[place])}" for place, name in differing]
        lines.append(" ".join(["fedcast train scenario.toml --out runs", *settings]))
    return [*lines, "fedcast report runs"]


def _key(scenario: Scenario, varied: Sequence[str] = ()) -> tuple[str, ...]:
    values = attrgetter(*COMPARED)(scenario)
    own = [setting(scenario, key) if decides(scenario, key) else "" for key in varied]
    return tuple(setting_text(value) for value in (*values, *own))
