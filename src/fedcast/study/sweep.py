"""Many runs: over the cores of this machine, or over a Ray cluster. What is done is kept, and never done again."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from fedcast.allocation.methods import find_method
from fedcast.clustering.rules import find_rule
from fedcast.errors import FedcastError
from fedcast.scenario import Scenario, changed
from fedcast.study.store import do_run, is_done, run_folder

if TYPE_CHECKING:
    from multiprocessing.queues import SimpleQueue
    from multiprocessing.synchronize import Event

    from fedcast.training import Record

# Called with the place of a run, its round and its accuracy.
Progress = Callable[[int, int, float], None]
Job = tuple[int, Scenario]
_Message = tuple[int, int, float]


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
    methods = methods or [scenario.allocation.method]
    algorithms = algorithms or [scenario.training.algorithm]
    seeds = list(seeds) or [scenario.seed]
    for rule in rules:
        find_rule(rule)
    for method in methods:
        find_method(method)
    made = []
    for rule, method, algorithm, seed in itertools.product(rules, methods, algorithms, seeds):
        if method == methods[0] or rule not in ("none", "central"):
            values = {"clustering.rule": rule, "allocation.method": method, "training.algorithm": algorithm}
            made.append(changed(scenario, {**values, "seed": seed}))
    return list({run_folder(Path(), one): one for one in made}.values())


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
    store = Path(store)
    _check_store(store)
    todo = [(place, one) for place, one in enumerate(scenarios) if not is_done(run_folder(store, one))]
    say = progress or (lambda *_: None)
    if ray_address is not None:
        from fedcast.study.ray_cluster import sweep_on_ray

        sweep_on_ray(todo, store, ray_address, data_dir, say)
    elif workers <= 1 or len(todo) <= 1:
        with _one_thread():
            for place, scenario in todo:
                do_run(scenario, store, data_dir=data_dir, progress=_told(place, say))
    else:
        _in_processes(todo, store, data_dir, min(workers, len(todo)), say)
    return [run_folder(store, scenario) for scenario in scenarios]


def _in_processes(todo: Sequence[Job], store: Path, data_dir: Path | None, workers: int, say: Progress) -> None:
    context = get_context("spawn")
    queue: SimpleQueue[_Message | None] = context.SimpleQueue()
    stop = context.Event()
    with _listening(queue, say), ProcessPoolExecutor(workers, context, _start_worker, (queue, stop)) as pool:
        try:
            _feed(pool, todo, workers, store, data_dir)
        except KeyboardInterrupt:
            stop.set()  # runs under way end with a checkpoint after their round
            raise


def _feed(pool: ProcessPoolExecutor, todo: Sequence[Job], workers: int, store: Path, data_dir: Path | None) -> None:
    """Hand out as many runs as there are workers, and the next when one is done; none after a failure."""
    waiting = iter(todo)

    def begin(count: int) -> set[Future[None]]:
        return {
            pool.submit(_work, place, scenario.model_dump_json(), store, data_dir)
            for place, scenario in itertools.islice(waiting, count)
        }

    under_way, failure = begin(workers), None
    while under_way:
        finished, under_way = wait(under_way, return_when=FIRST_COMPLETED)
        failure = failure or next((error for future in finished if (error := future.exception())), None)
        if failure is None:
            under_way |= begin(len(finished))
    if failure is not None:
        raise failure


_tell_parent: Callable[[_Message], None]
_asked_to_stop: Callable[[], bool]


def _start_worker(queue: SimpleQueue[_Message | None], stop: Event) -> None:
    """In a new process: one thread, progress to the parent, and Ctrl-C left to the parent."""
    import signal

    import torch

    global _tell_parent, _asked_to_stop
    _tell_parent, _asked_to_stop = queue.put, stop.is_set
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)


def _work(place: int, scenario: str, store: Path, data_dir: Path | None) -> None:
    do_run(
        Scenario.model_validate_json(scenario),
        store,
        data_dir=data_dir,
        progress=_told(place, lambda *message: _tell_parent(message)),
        should_stop=_asked_to_stop,
    )


def _told(place: int, say: Progress) -> Callable[[Record], None]:
    return lambda record: say(place, record.round, record.accuracy)


@contextmanager
def _listening(queue: SimpleQueue[_Message | None], say: Progress) -> Iterator[None]:
    """Pass on what workers say, until the end."""

    def listen() -> None:
        while (message := queue.get()) is not None:
            say(*message)

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    try:
        yield
    finally:
        queue.put(None)
        thread.join()


@contextmanager
def _one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _check_store(store: Path) -> None:
    """Refuse a place that cannot hold runs before any work is done for it."""
    if store.exists() and not store.is_dir():
        raise FedcastError(f"{store}: is a file, expected a folder for runs")
    store.mkdir(parents=True, exist_ok=True)
    probe = store / ".writable"
    probe.touch()
    probe.unlink()
