"""Many runs, on the cores of this machine or on a Ray cluster; finished runs are not repeated."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from fedcast import registry
from fedcast.allocation import find_method
from fedcast.clustering import find_rule, uses_method
from fedcast.data import make_population
from fedcast.errors import FedcastError, ScenarioError, SweepError
from fedcast.rounds import fit_of
from fedcast.runs.checks import check_model_size
from fedcast.runs.comparable import decides
from fedcast.runs.executors import Job, SweepProgress, sweep_here, sweep_in_processes, sweep_on_ray
from fedcast.runs.store import check_store, run_folder, run_key, store_failure
from fedcast.runs.stored_run import FailedRun, is_done
from fedcast.scenario import BEST_RULE, Scenario, ScenarioLike, as_scenario, current_keys, missing_files, with_overrides
from fedcast.sharing import CONTROLS

_T = TypeVar("_T")
# Parameters with an argument of their own, here and on the command line.
ARGUMENTS = {
    "clustering.rule": "rules", "allocation.method": "methods", "training.algorithm": "algorithms", "seed": "seeds",
    "sharing.kind": "controls, or one scenario for each kind",
}  # fmt: skip


def grid(
    scenario: ScenarioLike,
    rules: Sequence[str],
    methods: Sequence[str] = (),
    algorithms: Sequence[str] = (),
    seeds: Iterable[int] = (),
    controls: Sequence[str] = (),
    vary: Mapping[str, Sequence[Any]] = MappingProxyType({}),
) -> list[Scenario]:
    """Return the scenario for every combination; an empty list means the scenario's own value.

    Rule ``none`` allocates nothing, so that all methods would give the same run: only the first method is used with
    it. `controls` (``work``, ``epochs``) add runs that train as much as each strategy without sharing,
    see `fedcast.runs.gains`; they need the rule ``none`` among the rules. `vary` has values of any other parameters, by
    dotted key; `fedcast.facets` groups the runs by them.

    Example:
        >>> made = grid(Scenario(), ["none", "daca"], ["jfvo", "saa"], seeds=[0, 1])
        >>> [(one.clustering.rule, one.allocation.method, one.seed) for one in made][:4]
        [('none', 'jfvo', 0), ('none', 'jfvo', 1), ('daca', 'jfvo', 0), ('daca', 'jfvo', 1)]
        >>> len(made)
        6
        >>> rates = grid(Scenario(), ["none"], vary={"training.learning_rate": [0.1, 0.2]})
        >>> [one.training.learning_rate for one in rates]
        [0.1, 0.2]
    """
    scenario = as_scenario(scenario)
    rules, methods = _as_list("rules", rules, "['daca']"), _as_list("methods", methods, "['jfvo']")
    algorithms, seeds = _as_list("algorithms", algorithms, "['fedavg']"), _as_list("seeds", seeds, "range(3)")
    controls = _as_list("controls", controls, "['work']")
    if unknown := [name for name in controls if name not in CONTROLS]:
        raise FedcastError(f"invalid value {unknown[0]!r} for controls: expected {' or '.join(CONTROLS)}")
    if controls and "none" not in rules:
        raise FedcastError(f"controls: a gain is measured from no sharing; add none to the rules {', '.join(rules)}")
    for kind, names in (("clustering", rules), ("allocation", methods), ("algorithm", algorithms)):
        for name in names:
            if name != BEST_RULE:
                registry.find(kind, name)
    made = [
        one
        for base in variants(scenario, vary)
        for one in combinations(base, rules, methods, algorithms, seeds, controls)
    ]
    for key in vary:
        if not any(decides(one, name) for one in made for name in current_keys(key)):
            raise FedcastError(f"vary: {key} changes nothing: no run makes the choice that this is an option of")
    return _each_once(made)


def _each_once(scenarios: Iterable[Scenario]) -> list[Scenario]:
    """Return the first of all scenarios of the same run, which differ in options that it does not use."""
    found: dict[str, Scenario] = {}
    for scenario in scenarios:
        found.setdefault(run_key(scenario), scenario)
    return list(found.values())


def variants(scenario: Scenario, vary: Mapping[str, Sequence[Any]]) -> list[Scenario]:
    """Return the scenario with every combination of values, by dotted key; what makes a strategy is an error."""
    given: dict[str, str] = {}
    for name in vary:
        for now in current_keys(name):
            if given.setdefault(now, name) != name:
                raise FedcastError(f"vary: {given[now]} and {name} are the same parameter; give all its values once")
    for key, values in vary.items():
        if key in ARGUMENTS:
            raise FedcastError(f"vary: {key} makes a strategy or a seed; use {ARGUMENTS[key]}")
        if not _as_list(f"vary[{key!r}]", values, "[0.05, 0.1]"):
            raise FedcastError(f"vary[{key!r}]: expected at least one value")
    chosen = [dict(zip(vary, values, strict=True)) for values in itertools.product(*vary.values())]
    return [with_overrides(scenario, values) for values in chosen]


def with_given_epochs(scenarios: Sequence[Scenario]) -> list[Scenario]:
    """Add the smallest number of local epochs to runs without sharing that leave the choice to their plan.

    FedAvg is then compared at its best number of local epochs and as it is mostly used, with one.

    Example:
        >>> [one.training.local_epochs for one in with_given_epochs(grid(Scenario(), ["none"], seeds=[0]))]
        [(1, 2, 3, 5, 8), 1]
    """
    return [
        one
        for scenario in scenarios
        for one in (
            (scenario, with_overrides(scenario, {"training.local_epochs": scenario.training.epoch_choices[0]}))
            if scenario.clustering.rule == "none" and len(scenario.training.epoch_choices) > 1
            else (scenario,)
        )
    ]


def combinations(
    scenario: Scenario,
    rules: Sequence[str],
    methods: Sequence[str],
    algorithms: Sequence[str],
    seeds: Sequence[int],
    controls: Sequence[str] = (),
) -> list[Scenario]:
    """Do the same as `grid` without looking the names up: finished runs may use a plug-in that is not installed."""
    methods = methods or [scenario.allocation.method]
    algorithms = algorithms or [scenario.training.algorithm]
    seeds = seeds or [scenario.seed]
    kinds, made = [scenario.sharing.kind, *(CONTROLS[name] for name in controls)], []
    for rule, method, algorithm, kind, seed in itertools.product(rules, methods, algorithms, kinds, seeds):
        if (method == methods[0] or uses_method(rule)) and (kind == kinds[0] or rule != "none"):
            values = {"clustering.rule": rule, "allocation.method": method, "training.algorithm": algorithm}
            made.append(with_overrides(scenario, {**values, "sharing.kind": kind, "seed": seed}))
    return _each_once(made)


def _as_list(name: str, values: Iterable[_T], example: str) -> list[_T]:
    """Return the values as a list; a single string or scenario, which is iterable too, is an error."""
    if isinstance(values, str | Scenario) or not isinstance(values, Iterable):
        shown = "one scenario" if isinstance(values, Scenario) else repr(values)
        raise FedcastError(f"{name}: expected a list such as {example}, got {shown}")
    return list(values)


def sweep(
    scenarios: Sequence[ScenarioLike],
    store: str | Path,
    *,
    data_dir: Path | None = None,
    workers: int = 1,
    ray_address: str | None = None,
    progress: SweepProgress | None = None,
    on_failure: Callable[[FailedRun], None] | None = None,
) -> list[Path]:
    """Run all scenarios that have no finished run yet, and return the folders of finished runs, in order.

    Every run computes on one thread, so that its results do not depend on how many run at the same time. A run that
    fails, for example because its plan is infeasible or its training diverges, does not end the others. When they are
    done, a `SweepError` lists all that failed, unless `on_failure` takes them.

    Args:
        scenarios: of the runs.
        store: folder of run folders.
        data_dir: where dataset files are looked for first.
        workers: number of processes; 1: all runs in this process.
        ray_address: address of a Ray cluster to use instead; ``auto``: the one that this machine belongs to.
        progress: called with position, round and accuracy after every round of every run; with Ray, after every run.
        on_failure: called with each run that fails; None: an error is raised at the end.
    """
    store, given = Path(store), [as_scenario(one) for one in _as_list("scenarios", scenarios, "[scenario]")]
    if workers < 1:
        raise FedcastError(f"invalid value {workers} for workers: expected 1 or more")
    check_store(store)
    folders = [run_folder(store, scenario) for scenario in given]
    todo = [(position, one) for position, one in enumerate(given) if not is_done(folders[position])]
    _check_scenarios([scenario for _, scenario in todo], data_dir, data_here=ray_address is None)
    report, failed = progress or (lambda *_: None), list[FailedRun]()

    def fail(job: Job, error: FedcastError) -> None:
        position, scenario = job
        failed.append(store_failure(folders[position], scenario, str(error)))
        if on_failure is not None:
            on_failure(failed[-1])

    if ray_address is not None:
        sweep_on_ray(todo, store, ray_address, data_dir, report, fail)
    elif workers == 1 or len(todo) <= 1:
        sweep_here(todo, store, data_dir, report, fail)
    else:
        sweep_in_processes(todo, store, data_dir, min(workers, len(todo)), report, fail)
    if failed and on_failure is None:
        raise SweepError("\n".join(f"{one.folder.name}: {one.reason}" for one in failed), failed)
    return [folder for folder in folders if is_done(folder)]


def _check_scenarios(scenarios: Sequence[Scenario], data_dir: Path | None, *, data_here: bool) -> None:
    """Raise an error for unknown names and missing or invalid files, before any run has a folder.

    Of runs with the same dataset only the data of the first are loaded, and only if they are needed here.
    """
    for scenario in scenarios:
        if scenario.clustering.rule != BEST_RULE:
            find_rule(scenario.clustering.rule)
        find_method(scenario.allocation.method)
        fit_of(scenario.rounds, scenario.data.dataset)
        if faults := missing_files(scenario):
            raise ScenarioError("\n".join(faults))
        check_model_size(scenario)
    if data_here:
        for scenario in {one.data.dataset: one for one in reversed(scenarios)}.values():
            make_population(scenario.data, scenario.seed, data_dir)
