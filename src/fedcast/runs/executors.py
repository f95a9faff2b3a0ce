"""Executors of the runs of a sweep: in this process, on worker processes of this machine, or on a Ray cluster.

Every worker does one run at a time, on one thread. A worker of a Ray cluster needs no shared disk: it does a run in a
temporary folder and sends its files back; the store accepts all of them or none. A lost worker costs only its run.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fedcast.allocation import METHODS
from fedcast.clustering import RULES
from fedcast.errors import FedcastError
from fedcast.io import write_file
from fedcast.runs.orphans import end_with_parent
from fedcast.runs.store import run_folder, run_scenario, save_finished_run
from fedcast.runs.stored_run import load_run
from fedcast.scenario import BEST_RULE, Scenario, load_plugins, to_toml
from fedcast.training import Record

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.synchronize import Event

# The position of a run in the sweep, and its scenario.
Job = tuple[int, Scenario]
# Called with the position of a run, its round and its accuracy.
SweepProgress = Callable[[int, int, float], None]
# Called with a run that failed, and why.
JobFailed = Callable[[Job, FedcastError], None]
_Handle = TypeVar("_Handle")
_Item = TypeVar("_Item")

_POLL_S = 0.1
# How often Ray restarts a run whose worker was lost.
_RETRIES = 5
_CONNECT_TIMEOUT_S = 5.0


def run_job(
    job: Job, store: Path, data_dir: Path | None, progress: SweepProgress, should_stop: Callable[[], bool] | None = None
) -> Path | None:
    """Call `run_scenario`, and `progress` with the position of the run."""
    position, scenario = job

    def report(record: Record) -> None:
        progress(position, record.round, record.accuracy)

    return run_scenario(scenario, store, data_dir=data_dir, progress=report, should_stop=should_stop)


def _do_all(
    todo: Sequence[_Item],
    slots: int,
    submit: Callable[[_Item], _Handle],
    wait_for_some: Callable[[Collection[_Handle]], Collection[_Handle]],
    collect: Callable[[_Handle, _Item], None],
    failed: Callable[[_Item, FedcastError], None] | None = None,
) -> None:
    """Start as many runs as there are slots, and another when one ends.

    After an error that is not one of the run itself, or any if there is no `failed`, start no more and raise it.
    """
    waiting, failure = iter(todo), None
    running = {submit(job): job for job in itertools.islice(waiting, slots)}
    while running:
        finished = wait_for_some(running)
        for handle in finished:
            item = running.pop(handle)
            try:
                collect(handle, item)
            except Exception as error:
                if failed is not None and isinstance(error, FedcastError):
                    failed(item, error)
                else:
                    failure = failure or error
        if failure is None:
            running |= {submit(job): job for job in itertools.islice(waiting, len(finished))}
    if failure is not None:
        raise failure


def sweep_here(
    todo: Sequence[Job], store: Path, data_dir: Path | None, progress: SweepProgress, failed: JobFailed
) -> None:
    """Do all runs in this process, one after another."""
    with one_thread():
        for job in todo:
            try:
                run_job(job, store, data_dir, progress)
            except FedcastError as error:
                failed(job, error)


def sweep_in_processes(
    todo: Sequence[Job], store: Path, data_dir: Path | None, workers: int, progress: SweepProgress, failed: JobFailed
) -> None:
    """Do all runs on a pool of worker processes."""
    do_in_processes(
        todo, workers, _work, lambda job: (job[0], job[1].model_dump_json(), store, data_dir),
        progress=progress, failed=failed,
    )  # fmt: skip


def do_in_processes(
    todo: Sequence[_Item],
    workers: int,
    work: Callable[..., Any],
    arguments: Callable[[_Item], tuple[Any, ...]],
    collect: Callable[[Any, _Item], None] | None = None,
    progress: SweepProgress = lambda *_: None,
    failed: Callable[[_Item, FedcastError], None] | None = None,
) -> None:
    """Call a function for every item on a pool of worker processes.

    Args:
        todo: the items.
        workers: number of processes.
        work: function of a module; it may call `stop_requested`.
        arguments: of the function for an item.
        collect: called here with the result and the item, when an item is done.
        progress: called with what `work` sends.
        failed: called with an item whose work ends with a `FedcastError`; without it, and after any other error, no
            more are started, and the error is raised.
    """
    # Workers are forked from a server process that imports PyTorch once, for all sweeps of this process.
    context = get_context("forkserver" if sys.platform == "linux" else "spawn")
    context.set_forkserver_preload([__name__])
    # A pipe instead of a queue: a worker that is killed while it holds the queue's lock would block the others.
    # Messages this short are written atomically, so that several writers need no lock.
    reader, writer = context.Pipe(duplex=False)
    started, stop = context.Event(), context.Event()
    shared = writer, started, stop, dict(os.environ)
    try:
        with _forwarding(reader, progress), ProcessPoolExecutor(workers, context, _start_worker, shared) as pool:
            try:
                _do_all(
                    todo,
                    workers,
                    lambda item: pool.submit(work, *arguments(item)),
                    lambda running: wait(running, return_when=FIRST_COMPLETED).done,
                    lambda future, item: future.result() if collect is None else collect(future.result(), item),
                    failed,
                )
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


_send_to_parent: Callable[[tuple[int, int, float]], None]
_stop_requested: Callable[[], bool] | None = None


def stop_requested() -> bool:
    """Return whether this is a worker process that Ctrl-C asked to end after this round."""
    return _stop_requested is not None and _stop_requested()


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread inside, so that results do not depend on how many runs there are at the same time."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _start_worker(writer: Connection, started: Event, stop: Event, environment: dict[str, str]) -> None:
    """Set up a worker process: one thread, progress to the parent, Ctrl-C handled by the parent."""
    end_with_parent()
    started.set()
    import torch

    # The server process has the environment of its start.
    os.environ.clear()
    os.environ.update(environment)

    global _send_to_parent, _stop_requested
    _send_to_parent, _stop_requested = writer.send, stop.is_set
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)


def _work(position: int, content: str, store: Path, data_dir: Path | None) -> None:
    scenario = Scenario.model_validate_json(content)
    load_plugins(scenario)
    # A worker imports the script that called sweep, but does not run its `if __name__` block.
    rule, method = scenario.clustering.rule, scenario.allocation.method
    for key, name, table in (("clustering.rule", rule, RULES), ("allocation.method", method, METHODS)):
        if name not in table and name != BEST_RULE:
            raise FedcastError(
                f"{key}: {name!r} is not known to the worker processes that your script starts; add it to its table at "
                f"the top level of the script or of a module that it imports, not in main(); or use workers=1"
            )
    run_job((position, scenario), store, data_dir, lambda *message: _send_to_parent(message), stop_requested)


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


def sweep_on_ray(
    todo: Sequence[Job], store: Path, address: str, data_dir: Path | None, progress: SweepProgress, failed: JobFailed
) -> None:
    """Do all runs on the cluster and store each when it ends."""
    ray = _connect(address)
    remote = ray.remote(num_cpus=1, max_retries=_RETRIES)(_run_on_worker)

    def save(handle: Any, job: Job) -> None:
        position, scenario = job
        folder = run_folder(store, scenario)
        try:
            name, files = ray.get(handle)
        except Exception as error:
            raise _original_error(error) from None
        if name != folder.name:
            raise FedcastError(
                f"the worker returned {name}; a file that the scenario names, or the version of fedcast, differs there"
            )
        last = load_run(save_finished_run(folder, files)).history.records[-1]
        progress(position, last.round, last.accuracy)

    try:
        _do_all(
            todo,
            max(1, int(ray.cluster_resources().get("CPU", 1))),
            lambda job: remote.remote(*_sent(job[1]), data_dir),
            lambda running: ray.wait(list(running), num_returns=1)[0],
            save,
            failed,
        )
    finally:
        ray.shutdown()


def _connect(address: str) -> Any:
    try:
        import ray
    except ImportError:
        raise FedcastError('a Ray cluster needs Ray: pip install "fedcast[ray]"') from None
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        # Ray itself waits for minutes at an address that does not answer, but not for a name such as auto.
        if port.isdigit():
            socket.create_connection((host, int(port)), timeout=_CONNECT_TIMEOUT_S).close()
        ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise FedcastError(f"--ray {address}: no Ray cluster there ({reason}); `ray start --head` starts one") from None
    return ray


def _sent(scenario: Scenario) -> tuple[str, list[bytes]]:
    """Return the scenario and the content of its plug-in files, which need not exist on the worker's machine."""
    return scenario.model_dump_json(), [Path(file).read_bytes() for file in scenario.plugins]


def _run_on_worker(content: str, plugins: Sequence[bytes], data_dir: Path | None) -> tuple[str, dict[str, bytes]]:
    """Do one run on one thread, and return the name of its folder and its files."""
    import torch

    torch.set_num_threads(1)
    store = Path(tempfile.mkdtemp(prefix="fedcast-"))
    try:
        given = Scenario.model_validate_json(content)
        scenario = given.model_copy(update={"plugins": tuple(_local_copy(text) for text in plugins)})
        load_plugins(scenario)
        # The run keeps the places that its sender gave.
        write_file(run_folder(store, scenario) / "scenario.toml", to_toml(given))
        folder = run_job((0, scenario), store, data_dir, lambda *_: None)
        assert folder is not None
        return folder.name, {path.name: path.read_bytes() for path in folder.iterdir() if path.name[0] != "."}
    finally:
        shutil.rmtree(store)


def _local_copy(plugin: bytes) -> str:
    """Write a plug-in file to a place that depends on its content: a process runs the same file only once."""
    path = Path(tempfile.gettempdir()) / f"fedcast-plugin-{hashlib.sha256(plugin).hexdigest()[:12]}.py"
    return str(write_file(path, plugin))


def _original_error(error: Exception) -> Exception:
    """Return the error of the run without Ray's wrapper."""
    if isinstance(error, FedcastError):
        return error
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, Exception) else FedcastError(f"Ray: {str(error).splitlines()[0]}")
