"""Many runs: over the cores of this machine, or over a Ray cluster. What is done is kept, and never done again."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fedcast.allocation.methods import find_method
from fedcast.clustering.rules import find_rule
from fedcast.data import make_population
from fedcast.data.validate import data_faults
from fedcast.errors import FedcastError, ScenarioError
from fedcast.rounds import load_fit
from fedcast.runs.comparison import NOTHING_ALLOCATED
from fedcast.runs.store import check_store, do_run, is_done, run_folder
from fedcast.scenario import Scenario, changed

if TYPE_CHECKING:
    from fedcast.training import Record

# Called with the place of a run, its round and its accuracy.
Progress = Callable[[int, int, float], None]
Job = tuple[int, Scenario]
_T = TypeVar("_T")


def grid(
    scenario: Scenario,
    rules: Sequence[str],
    methods: Sequence[str] = (),
    algorithms: Sequence[str] = (),
    seeds: Iterable[int] = (),
) -> list[Scenario]:
    """Every combination; what is empty is as in the scenario.

    Where nothing is shared (rule none) or nothing allocated (central), methods would repeat one run: the first counts.

    Example:
        >>> made = grid(Scenario(), ["none", "daca"], ["jfvo", "saa"], seeds=[0, 1])
        >>> [(one.clustering.rule, one.allocation.method, one.seed) for one in made][:4]
        [('none', 'jfvo', 0), ('none', 'jfvo', 1), ('daca', 'jfvo', 0), ('daca', 'jfvo', 1)]
        >>> len(made)
        6
    """
    rules, methods = _several("rules", rules, "['daca']"), _several("methods", methods, "['jfvo']")
    algorithms, seeds = _several("algorithms", algorithms, "['fedavg']"), _several("seeds", seeds, "range(3)")
    for rule in rules:
        find_rule(rule)
    for method in methods:
        find_method(method)
    return combinations(scenario, rules, methods, algorithms, seeds)


def combinations(
    scenario: Scenario, rules: Sequence[str], methods: Sequence[str], algorithms: Sequence[str], seeds: Sequence[int]
) -> list[Scenario]:
    """The same for names that need not be known here, such as the rules of finished runs."""
    methods = methods or [scenario.allocation.method]
    algorithms = algorithms or [scenario.training.algorithm]
    seeds = seeds or [scenario.seed]
    made = []
    for rule, method, algorithm, seed in itertools.product(rules, methods, algorithms, seeds):
        if method == methods[0] or rule not in NOTHING_ALLOCATED:
            values = {"clustering.rule": rule, "allocation.method": method, "training.algorithm": algorithm}
            made.append(changed(scenario, {**values, "seed": seed}))
    return list({run_folder(Path(), one): one for one in made}.values())


def _several(name: str, values: Iterable[_T], example: str) -> list[_T]:
    """A list of the values; a single value, which Python might take apart, is refused."""
    if isinstance(values, str | Scenario) or not isinstance(values, Iterable):
        shown = "one scenario" if isinstance(values, Scenario) else repr(values)
        raise FedcastError(f"{name}: expected a list such as {example}, got {shown}")
    return list(values)


def sweep(
    scenarios: Sequence[Scenario],
    store: str | Path,
    *,
    data_dir: Path | None = None,
    workers: int = 1,
    ray_address: str | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """Do all runs that are not done yet, and return all folders, in order.

    Every run computes on one thread, so that its bytes do not depend on how many run beside it. If one fails, those
    under way are finished and kept, no other is begun, and its error is raised.

    Args:
        scenarios: of the runs.
        store: folder of run folders.
        data_dir: where dataset files are looked for first.
        workers: processes; 1: in this one.
        ray_address: of a Ray cluster that does the runs instead; ``auto``: the one that this machine belongs to.
        progress: called with place, round and accuracy after every round of every run; by Ray, after every run.
    """
    store, scenarios = Path(store), _several("scenarios", scenarios, "[scenario]")
    if workers < 1:
        raise FedcastError(f"workers: {workers} is refused; expected 1 or more")
    check_store(store)
    todo = [(place, one) for place, one in enumerate(scenarios) if not is_done(run_folder(store, one))]
    _refuse_faults([scenario for _, scenario in todo], data_dir, data_here=ray_address is None)
    say = progress or (lambda *_: None)
    if ray_address is not None:
        from fedcast.runs.ray_cluster import sweep_on_ray

        sweep_on_ray(todo, store, ray_address, data_dir, say)
    elif workers == 1 or len(todo) <= 1:
        with _one_thread():
            for place, scenario in todo:
                named_run(scenario, store, data_dir=data_dir, progress=told(place, say))
    else:
        from fedcast.runs.processes import sweep_in_processes

        sweep_in_processes(todo, store, data_dir, min(workers, len(todo)), say)
    return [run_folder(store, scenario) for scenario in scenarios]


def _refuse_faults(scenarios: Sequence[Scenario], data_dir: Path | None, *, data_here: bool) -> None:
    """Find what every run would stumble over, before any of them has a folder: unknown names, missing or wrong files.

    Runs of a sweep mostly share their data, so that those of the first are tried.

    Args:
        scenarios: of the runs.
        data_dir: where dataset files are looked for first.
        data_here: false if they need only be where the runs are done.
    """
    for scenario in scenarios:
        find_rule(scenario.clustering.rule)
        find_method(scenario.allocation.method)
        load_fit(scenario.rounds.fit)
        if faults := data_faults(scenario):
            raise ScenarioError("\n".join(faults))
    if scenarios and data_here:
        make_population(scenarios[0].data, scenarios[0].seed, data_dir)


def named_run(scenario: Scenario, store: Path, **how: Any) -> Path | None:
    """`do_run`, whose errors say which of many runs they are about."""
    try:
        return do_run(scenario, store, **how)
    except FedcastError as error:
        raise FedcastError(f"{run_folder(store, scenario).name}: {error}") from None


def told(place: int, say: Progress) -> Callable[[Record], None]:
    """What a run calls after every round."""
    return lambda record: say(place, record.round, record.accuracy)


@contextmanager
def _one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
