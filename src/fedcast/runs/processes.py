"""A sweep over processes of this machine: each does one run at a time, on one thread."""

from __future__ import annotations

import itertools
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import TYPE_CHECKING

from fedcast.allocation.methods import METHODS
from fedcast.clustering.rules import RULES
from fedcast.errors import FedcastError
from fedcast.runs.sweep import named_run, told
from fedcast.scenario import Scenario

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.synchronize import Event

    from fedcast.runs.sweep import Job, Progress

_Message = tuple[int, int, float]
_LISTENING_S = 0.1


def sweep_in_processes(todo: Sequence[Job], store: Path, data_dir: Path | None, workers: int, say: Progress) -> None:
    """Do all runs, so many at a time; after a failure, begin no more."""
    context = get_context("spawn")
    # A pipe and no queue: a queue's lock would stay held by a worker that is killed while it holds it. Messages this
    # short are written whole, so that many writers need no lock.
    reader, writer = context.Pipe(duplex=False)
    started, stop = context.Event(), context.Event()
    shared = writer, started, stop
    try:
        with _listening(reader, say), ProcessPoolExecutor(workers, context, _start_worker, shared) as pool:
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
        if not started.is_set():
            raise FedcastError(
                "workers: no process could be started; each imports your script, which must call sweep under "
                '`if __name__ == "__main__":`, or else with workers=1'
            ) from None
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


def _start_worker(writer: Connection, started: Event, stop: Event) -> None:
    """In a new process: one thread, progress to the parent, and Ctrl-C left to the parent."""
    started.set()
    import torch

    global _tell_parent, _asked_to_stop
    _tell_parent, _asked_to_stop = writer.send, stop.is_set
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)


def _work(place: int, content: str, store: Path, data_dir: Path | None) -> None:
    scenario = Scenario.model_validate_json(content)
    _refuse_names_of_the_parent(scenario)
    named_run(
        scenario,
        store,
        data_dir=data_dir,
        progress=told(place, lambda *message: _tell_parent(message)),
        should_stop=_asked_to_stop,
    )


def _refuse_names_of_the_parent(scenario: Scenario) -> None:
    """A process that is started imports the script, but does not run what stands under its `if __name__` line."""
    rule, method = scenario.clustering.rule, scenario.allocation.method
    for key, name, table in (("clustering.rule", rule, RULES), ("allocation.method", method, METHODS)):
        if name not in table:
            raise FedcastError(
                f"{key}: {name!r} is not known to the processes that your script starts; add it to its table at the "
                f"top level of the script or of a module that it imports, not in main(); or take workers=1"
            )


@contextmanager
def _listening(reader: Connection, say: Progress) -> Iterator[None]:
    """Pass on what workers say, until the end; if that fails, listen on, lest they wait for us, and raise it then."""
    ended = threading.Event()
    failures: list[BaseException] = []

    def listen() -> None:
        while reader.poll(0 if ended.is_set() else _LISTENING_S) or not ended.is_set():
            if reader.poll():
                said = reader.recv()
                try:
                    if not failures:
                        say(*said)
                except BaseException as error:
                    failures.append(error)

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    if failures:
        raise failures[0]
