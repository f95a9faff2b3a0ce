"""Many runs: over the cores of this machine, or over a Ray cluster. What is done is kept, and never done again."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcast.allocation.methods import find_method
from fedcast.clustering.rules import find_rule
from fedcast.errors import FedcastError
from fedcast.scenario import Scenario, changed
from fedcast.study.compare import NOTHING_ALLOCATED
from fedcast.study.store import check_store, do_run, is_done, run_folder

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.synchronize import Event

    from fedcast.training import Record

# Called with the place of a run, its round and its accuracy.
Progress = Callable[[int, int, float], None]
Job = tuple[int, Scenario]
_Message = tuple[int, int, float]
_LISTENING_S = 0.1


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
        if method == methods[0] or rule not in NOTHING_ALLOCATED:
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
    check_store(store)
    todo = [(place, one) for place, one in enumerate(scenarios) if not is_done(run_folder(store, one))]
    say = progress or (lambda *_: None)
    if ray_address is not None:
        from fedcast.study.ray_cluster import sweep_on_ray

        sweep_on_ray(todo, store, ray_address, data_dir, say)
    elif workers <= 1 or len(todo) <= 1:
        with _one_thread():
            for place, scenario in todo:
                named_run(scenario, store, data_dir=data_dir, progress=_told(place, say))
    else:
        _in_processes(todo, store, data_dir, min(workers, len(todo)), say)
    return [run_folder(store, scenario) for scenario in scenarios]


def _in_processes(todo: Sequence[Job], store: Path, data_dir: Path | None, workers: int, say: Progress) -> None:
    context = get_context("spawn")
    # A pipe and no queue: a queue's lock would stay held by a worker that is killed while it holds it. Messages this
    # short are written whole, so that many writers need no lock.
    reader, writer = context.Pipe(duplex=False)
    stop = context.Event()
    try:
        with _listening(reader, say), ProcessPoolExecutor(workers, context, _start_worker, (writer, stop)) as pool:
            try:
                _feed(pool, todo, workers, store, data_dir)
            except KeyboardInterrupt:
                stop.set()  # runs under way end with a checkpoint after their round
                raise
    except KeyboardInterrupt:
        for worker in active_children():  # left only if a second Ctrl-C broke off the wait for them
            worker.kill()
        raise
    except BrokenProcessPool:
        raise FedcastError(
            "a worker process was killed, perhaps for want of memory; "
            "what is finished is kept: repeat the command with fewer --workers"
        ) from None


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


def _start_worker(writer: Connection, stop: Event) -> None:
    """In a new process: one thread, progress to the parent, and Ctrl-C left to the parent."""
    import signal

    import torch

    global _tell_parent, _asked_to_stop
    _tell_parent, _asked_to_stop = writer.send, stop.is_set
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)


def _work(place: int, scenario: str, store: Path, data_dir: Path | None) -> None:
    named_run(
        Scenario.model_validate_json(scenario),
        store,
        data_dir=data_dir,
        progress=_told(place, lambda *message: _tell_parent(message)),
        should_stop=_asked_to_stop,
    )


def named_run(scenario: Scenario, store: Path, **how: Any) -> Path | None:
    """`do_run`, whose errors say which of many runs they are about."""
    try:
        return do_run(scenario, store, **how)
    except FedcastError as error:
        raise FedcastError(f"{run_folder(store, scenario).name}: {error}") from None


def _told(place: int, say: Progress) -> Callable[[Record], None]:
    return lambda record: say(place, record.round, record.accuracy)


@contextmanager
def _listening(reader: Connection, say: Progress) -> Iterator[None]:
    """Pass on what workers say, until the end."""
    ended = threading.Event()

    def listen() -> None:
        while reader.poll(0 if ended.is_set() else _LISTENING_S) or not ended.is_set():
            if reader.poll():
                say(*reader.recv())

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
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
