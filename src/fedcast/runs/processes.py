"""A sweep on worker processes of this machine; each does one run at a time, on one thread."""

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

from fedcast.allocation import METHODS
from fedcast.clustering import RULES
from fedcast.errors import FedcastError
from fedcast.runs.jobs import Job, SweepProgress, run_job
from fedcast.scenario import Scenario, load_plugins

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.synchronize import Event

_Message = tuple[int, int, float]
_POLL_S = 0.1


def sweep_in_processes(
    todo: Sequence[Job], store: Path, data_dir: Path | None, workers: int, progress: SweepProgress
) -> None:
    """Do all runs on a pool of worker processes; after a failure, start no more."""
    context = get_context("spawn")
    # A pipe instead of a queue: a worker that is killed while it holds the queue's lock would block the others.
    # Messages this short are written atomically, so that several writers need no lock.
    reader, writer = context.Pipe(duplex=False)
    started, stop = context.Event(), context.Event()
    shared = writer, started, stop
    try:
        with _forwarding(reader, progress), ProcessPoolExecutor(workers, context, _start_worker, shared) as pool:
            try:
                _feed(pool, todo, workers, store, data_dir)
            except KeyboardInterrupt:
                stop.set()  # runs in progress end with a checkpoint after their round
                raise
    except KeyboardInterrupt:
        for worker in active_children():  # only if a second Ctrl-C interrupted the wait for them
            worker.kill()
        raise
    except BrokenProcessPool:
        if not started.is_set():
            raise FedcastError(
                "workers: no worker process could be started; each imports your script, so that it must call sweep "
                'under `if __name__ == "__main__":`; or use workers=1'
            ) from None
        raise FedcastError(
            "a worker process was killed, possibly because memory ran out; "
            "finished runs are kept: repeat the command with fewer --workers"
        ) from None


def _feed(pool: ProcessPoolExecutor, todo: Sequence[Job], workers: int, store: Path, data_dir: Path | None) -> None:
    """Submit as many runs as there are workers, and another when one ends; none after a failure."""
    waiting = iter(todo)

    def start(count: int) -> set[Future[None]]:
        return {
            pool.submit(_work, position, scenario.model_dump_json(), store, data_dir)
            for position, scenario in itertools.islice(waiting, count)
        }

    running, failure = start(workers), None
    while running:
        finished, running = wait(running, return_when=FIRST_COMPLETED)
        failure = failure or next((error for future in finished if (error := future.exception())), None)
        if failure is None:
            running |= start(len(finished))
    if failure is not None:
        raise failure


_send_to_parent: Callable[[_Message], None]
_stop_requested: Callable[[], bool]


def _start_worker(writer: Connection, started: Event, stop: Event) -> None:
    """Set up a worker process: one thread, progress to the parent, Ctrl-C handled by the parent."""
    started.set()
    import torch

    global _send_to_parent, _stop_requested
    _send_to_parent, _stop_requested = writer.send, stop.is_set
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)


def _work(position: int, content: str, store: Path, data_dir: Path | None) -> None:
    scenario = Scenario.model_validate_json(content)
    load_plugins(scenario)
    _check_names(scenario)
    run_job(
        (position, scenario),
        store,
        data_dir=data_dir,
        progress=lambda *message: _send_to_parent(message),
        should_stop=_stop_requested,
    )


def _check_names(scenario: Scenario) -> None:
    """Explain a name that is missing here: a worker imports the script, but does not run its `if __name__` block."""
    rule, method = scenario.clustering.rule, scenario.allocation.method
    for key, name, table in (("clustering.rule", rule, RULES), ("allocation.method", method, METHODS)):
        if name not in table:
            raise FedcastError(
                f"{key}: {name!r} is not known to the worker processes that your script starts; add it to its table at "
                f"the top level of the script or of a module that it imports, not in main(); or use workers=1"
            )


@contextmanager
def _forwarding(reader: Connection, progress: SweepProgress) -> Iterator[None]:
    """Pass messages of workers on to `progress`.

    If a call fails, messages are still read, so that workers do not block, and the error is raised at the end.
    """
    ended = threading.Event()
    failures: list[BaseException] = []

    def listen() -> None:
        while reader.poll(0 if ended.is_set() else _POLL_S) or not ended.is_set():
            if reader.poll():
                message = reader.recv()
                try:
                    if not failures:
                        progress(*message)
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
