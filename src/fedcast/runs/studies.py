"""Studies: strategies over seeds and over any other parameters, with settings that are tuned on other seeds."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError

from fedcast import registry
from fedcast.errors import FedcastError
from fedcast.formatting import did_you_mean, similar_name
from fedcast.runs.comparable import Facet, cell, choice_of, decides, facets, mixes_epochs, setting, stacked
from fedcast.runs.comparison import Score, compare, comparison_table, score
from fedcast.runs.executors import SweepProgress
from fedcast.runs.stored_run import FailedRun, StoredRun, load_run
from fedcast.runs.strategies import Strategy, strategy_of
from fedcast.runs.sweeps import ARGUMENTS, grid, sweep, with_given_epochs
from fedcast.scenario import BEST_RULE, Scenario, current_keys, load_scenario, read_study_table
from fedcast.sharing import CONTROLS

# Sections of parameters that belong to a strategy, so that they can be tuned; those of others make a task.
_TUNED_SECTIONS = ("training", "clustering", "allocation", "sharing")
# Keys of a study: type of the value, and its name in messages.
_KEYS: dict[str, tuple[Any, str]] = {
    "rules": (Annotated[Sequence[str], Field(min_length=1)], "a list of names, at least one"),
    **dict.fromkeys(("methods", "algorithms", "controls"), (Sequence[str], "a list of names")),
    "seeds": (Annotated[int, Field(ge=1)], "a whole number >= 1"),
    "tune_on": (Annotated[int, Field(ge=0)], "a whole number >= 0"),
    "vary": (Mapping[str, Annotated[list[Any] | tuple[Any, ...], Field(min_length=1)]], "a table of lists of values"),
    "targets": (Sequence[Annotated[float, Field(gt=0, lt=1)]], "a list of accuracies between 0 and 1"),
}
Settings = dict[str, Any]


@dataclass(frozen=True)
class Study:
    """A study: strategies, seeds, and other parameters that vary.

    With `tune_on`, varied parameters of the sections training, clustering, allocation and sharing are settings of the
    strategies: each strategy is run with all of them on that many further seeds, and reported with the best. Other
    varied parameters, and without `tune_on` all, give one comparison (facet) for each combination of values.
    """

    scenario: Scenario
    rules: Sequence[str] = ("none", "scc", "cec", "daca", "gain", "blend")
    methods: Sequence[str] = ()  #: empty: the scenario's
    algorithms: Sequence[str] = ()  #: likewise
    controls: Sequence[str] = ()  #: see `fedcast.grid`
    seeds: int = 5  #: number of seeds, starting with the scenario's
    tune_on: int = 0  #: number of seeds after those, on which settings are chosen; 0: nothing is tuned
    vary: Mapping[str, Sequence[Any]] = field(default_factory=dict)  #: values by dotted key
    targets: Sequence[float] = ()  #: accuracies to which rounds and time are reported, besides the scenario's target

    def __post_init__(self) -> None:
        if self.tune_on and not self.tuned:
            sections = f"{', '.join(_TUNED_SECTIONS[:-1])} or {_TUNED_SECTIONS[-1]}"
            raise FedcastError(f"tune_on: there is nothing to tune; vary a parameter of {sections}")
        if not self.rules:
            raise FedcastError("rules: expected at least one, for example none")

    @property
    def tuned(self) -> list[str]:
        """Return the keys of the settings that are tuned."""
        varied = [key for name in self.vary for key in current_keys(name)]
        return [key for key in varied if self.tune_on and key.partition(".")[0] in _TUNED_SECTIONS]

    @property
    def other_targets(self) -> list[float]:
        """Return the targets that are not the scenario's own, ascending."""
        return [one for one in sorted(self.targets) if one != self.scenario.rounds.target_accuracy]

    def scenarios(self, *, tuning: bool = False) -> list[Scenario]:
        """Return the scenarios with all settings, on the seeds that are reported or on those for `tuning`.

        Controls are not tuned: they take the settings of their strategy.
        """
        first, count = (self.scenario.seed + self.seeds, self.tune_on) if tuning else (self.scenario.seed, self.seeds)
        seeds, controls = range(first, first + count), () if tuning else self.controls
        made = grid(self.scenario, self.rules, self.methods, self.algorithms, seeds, controls, self.vary)
        return with_given_epochs(made)

    @property
    def reported(self) -> int:
        """Return how many runs are reported: with tuning, one setting of each strategy, facet and seed."""
        scenarios = self.scenarios()
        if not self.tune_on:
            return len(scenarios)
        named = mixes_epochs(scenarios)
        made = [key for name in self.vary for key in current_keys(name) if key not in self.tuned]
        groups = [(_group(one, made, named), one.seed) for one in scenarios]
        return len(set(groups))


@dataclass(frozen=True)
class Trial:
    """A strategy with some settings, on the seeds for tuning."""

    strategy: Strategy
    settings: Settings  #: by dotted key
    scores: Sequence[Score]
    failed: int  #: runs that failed
    task: Settings  #: values of the facet

    @property
    def merit(self) -> tuple[float, float, float]:
        """Return a sort key, lower is better: runs that reach the target, time to it if any does, final accuracy."""
        reached = sum(one.reached for one in self.scores)
        seconds = float(np.mean([one.total_s for one in self.scores])) if reached else 0.0
        accuracy = float(np.mean([one.accuracy for one in self.scores])) if self.scores else 0.0
        return -reached / (len(self.scores) + self.failed), seconds, -accuracy


@dataclass(frozen=True, eq=False)
class StudyResult:
    """The runs of a study by facet, and what settings were chosen from."""

    facets: Sequence[Facet]
    tuned: Sequence[str] = ()  #: keys of the settings that were tuned
    trials: Sequence[Trial] = ()  #: strategies with all settings, on the seeds for tuning
    tuning_failed: Sequence[FailedRun] = ()  #: runs for tuning that failed

    @property
    def runs(self) -> list[StoredRun]:
        """Return the runs that are reported, each once."""
        return list({run.folder: run for facet in self.facets for run in facet.runs}.values())

    @property
    def failed(self) -> list[FailedRun]:
        """Return all runs that failed, each once."""
        failed = [*self.tuning_failed, *(run for facet in self.facets for run in facet.failed)]
        return list({run.folder: run for run in failed}.values())


def load_study(
    path: str | Path | None = None,
    *,
    base: str | None = None,
    overrides: Sequence[str] | Mapping[str, Any] = (),
    **given: Any,
) -> Study:
    """Read a study: a scenario file with a table ``[study]``, whose keys are those of `Study`.

    ``[study.vary]`` has a list of values for each dotted key. `path`, `base` and `overrides` are those of
    `load_scenario`; other arguments are values of `Study`, which win over the file, in `vary` key by key. Some presets
    have a study too, such as ``niid-mnist``.

    Example:
        >>> study = load_study(rules=["daca", "gain"], vary={"training.learning_rate": [0.1, 0.2]}, seeds=3)
        >>> len(study.scenarios())
        12
    """
    table = read_study_table(path, base)
    for name, value in (table | given).items():
        where = f"{path}: study.{name}" if name in table else name
        if name not in _KEYS:
            hint = did_you_mean(similar_name(name, _KEYS), f"there are {', '.join(_KEYS)}")
            raise FedcastError(f"{where}: unknown key{hint}")
        kind, expected = _KEYS[name]
        try:
            TypeAdapter(kind).validate_python(value, strict=True)
        except ValidationError:
            raise FedcastError(f"{where}: invalid value {value!r}: expected {expected}") from None
    return Study(load_scenario(path, base=base, overrides=overrides), **_merged(table, given))


def _merged(table: Settings, given: Settings) -> Settings:
    """Return a study of a file or preset with what is given, which wins key by key also in `vary`.

    Where the given names leave a choice out, its varied options go too, and tuning if there is nothing left to tune.
    """
    vary = given.get("vary", {})
    names = vary | {key: given[argument] for key, argument in ARGUMENTS.items() if argument in given}

    def kept(key: str) -> bool:
        if (choice := choice_of(key)) is None:
            return True
        known = registry.KINDS[choice.kind]
        chosen = names.get(f"{known.section}.{known.key}")
        return chosen is None or choice.name in chosen or BEST_RULE in chosen

    merged = table | given
    if "vary" in merged:
        merged["vary"] = {key: values for key, values in table.get("vary", {}).items() if kept(key)} | vary
    if "tune_on" not in given and not any(key.partition(".")[0] in _TUNED_SECTIONS for key in merged.get("vary", {})):
        merged.pop("tune_on", None)
    return merged


def sweep_study(
    study: Study,
    store: str | Path,
    *,
    data_dir: Path | None = None,
    workers: int = 1,
    ray_address: str | None = None,
    begin: Callable[[Sequence[Scenario], str], None] | None = None,
    progress: SweepProgress | None = None,
    on_failure: Callable[[FailedRun], None] | None = None,
) -> StudyResult:
    """Do the runs of a study, first those on the seeds for tuning; finished runs are reused.

    Runs that fail are part of the result, and do not end the others. Arguments are those of `sweep`; `begin` is called
    with the scenarios of each sweep and with its purpose, ``tuning`` or ``comparison``, before it starts.
    """

    def do(scenarios: Sequence[Scenario], purpose: str) -> tuple[list[StoredRun], list[FailedRun]]:
        failed: list[FailedRun] = []

        def fail(one: FailedRun) -> None:
            failed.append(one)
            if on_failure is not None:
                on_failure(one)

        if begin is not None:
            begin(scenarios, purpose)
        where: dict[str, Any] = {"data_dir": data_dir, "workers": workers, "ray_address": ray_address}
        folders = sweep(scenarios, store, **where, progress=progress, on_failure=fail)
        return [load_run(folder) for folder in dict.fromkeys(folders)], failed

    if not study.tuned:
        return StudyResult(facets(*do(study.scenarios(), "comparison")))
    runs, failed = do(study.scenarios(tuning=True), "tuning")
    tried = trials(facets(runs, failed, study.tuned), study.tuned)
    found = do(_with_best(study, tried), "comparison")
    return StudyResult(facets(*found, study.tuned), study.tuned, tried, failed)


def trials(tasks: Sequence[Facet], tuned: Sequence[str]) -> list[Trial]:
    """Return every strategy with every setting of each task; settings that decide nothing are left out."""
    scenarios = [run.scenario for task in tasks for run in task.runs]
    named = mixes_epochs([*scenarios, *(one.scenario for task in tasks for one in task.failed)])
    found = []
    for task in tasks:
        groups: dict[tuple[Strategy, str], tuple[list[Score], list[FailedRun]]] = defaultdict(lambda: ([], []))
        for run in task.runs:
            groups[_group(run.scenario, tuned, named)][0].append(score(run, name_epochs=named))
        for failed in task.failed:
            groups[_group(failed.scenario, tuned, named)][1].append(failed)
        found += [
            Trial(strategy, json.loads(settings), scores, len(lost), dict(task.values))
            for (strategy, settings), (scores, lost) in groups.items()
        ]
    return found


def best_trials(tried: Sequence[Trial]) -> list[Trial]:
    """Return the best trial of each task and strategy, if one of its runs finished."""
    best: dict[tuple[str, Strategy], Trial] = {}
    for one in tried:
        key = json.dumps(one.task), one.strategy
        if one.scores and (key not in best or one.merit < best[key].merit):
            best[key] = one
    return list(best.values())


def _group(scenario: Scenario, tuned: Sequence[str], named: bool) -> tuple[Strategy, str]:
    return strategy_of(scenario, name_epochs=named), json.dumps(_settings_of(scenario, tuned))


def _settings_of(scenario: Scenario, keys: Sequence[str]) -> Settings:
    """Return the values of parameters that decide the run of a scenario."""
    return {key: setting(scenario, key) for key in keys if decides(scenario, key)}


def _with_best(study: Study, tried: Sequence[Trial]) -> list[Scenario]:
    """Return the scenarios that are reported: of each strategy those with the best settings of its task."""
    scenarios = study.scenarios()
    named, best, kept = mixes_epochs(scenarios), best_trials(tried), []
    for scenario in scenarios:
        strategy = strategy_of(scenario, name_epochs=named)
        if strategy.sharing in CONTROLS.values() and study.controls:
            strategy = strategy.with_sharing(study.scenario.sharing.kind)
        own = _settings_of(scenario, list(dict.fromkeys(key for one in best for key in (*one.task, *study.tuned))))
        for trial in best:
            # What decides nothing in this scenario is the same in every task.
            wanted = {key: value for key, value in trial.task.items() if key in own} | trial.settings
            if trial.strategy == strategy and wanted == own:
                kept.append(scenario)
                break
    if not kept:
        raise FedcastError("tuning: no run finished, so that no setting could be chosen")
    return kept


def facets_table(found: Sequence[Facet], tuned: Sequence[str] = ()) -> dict[str, list[Any]]:
    """Return one row per facet and strategy: what varies, the settings that were chosen, and `comparison_table`."""

    def table_of(facet: Facet) -> dict[str, list[Any]]:
        rows = compare(facet.runs, facet.failed, tuned)
        return {key: [cell(row.settings.get(key)) for row in rows] for key in tuned} | comparison_table(rows)

    return stacked(found, table_of)


def trials_table(tried: Sequence[Trial]) -> dict[str, list[Any]]:
    """Return one row per task, strategy and setting that was tried on the seeds for tuning, and which was chosen."""
    best = best_trials(tried)
    keys = dict.fromkeys(key for one in tried for key in (*one.task, *one.settings))
    return {
        **{key: [cell(one.task.get(key, one.settings.get(key))) for one in tried] for key in keys},
        "strategy": [one.strategy.name for one in tried],
        "seeds": [len(one.scores) for one in tried],
        "failed": [one.failed for one in tried],
        "reached": [sum(score.reached for score in one.scores) for one in tried],
        **{
            name: [float(np.mean([s.measure(name) for s in one.scores])) if one.scores else None for one in tried]
            for name in ("total_s", "accuracy")
        },
        "chosen": [one in best for one in tried],
    }
