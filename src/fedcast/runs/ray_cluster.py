"""A sweep on a Ray cluster; workers need no shared disk, and a lost worker costs only its unfinished runs.

A worker does a run in a temporary folder and sends its files back; the store accepts all of them or none.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import shutil
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedcast.errors import FedcastError
from fedcast.io import atomic_write
from fedcast.runs.jobs import Job, SweepProgress, run_job
from fedcast.runs.store import load_run, run_folder, save_finished_run
from fedcast.scenario import Scenario, load_plugins, to_toml

# How often Ray restarts a run whose worker was lost.
_RETRIES = 5
_CONNECT_TIMEOUT_S = 5.0
Files = dict[str, bytes]


def sweep_on_ray(
    todo: Sequence[Job], store: Path, address: str, data_dir: Path | None, progress: SweepProgress
) -> None:
    """Do all runs on the cluster and store each when it ends; after a failure, start no more."""
    ray = _connect(address)
    try:
        remote = ray.remote(num_cpus=1, max_retries=_RETRIES)(_run_on_worker)
        folder = None if data_dir is None else str(data_dir)
        waiting = iter(todo)

        def start(count: int) -> dict[Any, Job]:
            return {remote.remote(*_sent(job[1]), folder): job for job in itertools.islice(waiting, count)}

        running = start(max(1, int(ray.cluster_resources().get("CPU", 1))))
        failure: Exception | None = None
        while running:
            (finished, *_), _ = ray.wait(list(running), num_returns=1)
            position, scenario = running.pop(finished)
            try:
                last = load_run(_store(store, scenario, *ray.get(finished))).history.records[-1]
            except Exception as error:
                failure = failure or _original_error(error)
                continue
            progress(position, last.round, last.accuracy)
            if failure is None:
                running |= start(1)
        if failure is not None:
            raise failure
    finally:
        ray.shutdown()


def _store(store: Path, scenario: Scenario, name: str, files: Files) -> Path:
    folder = run_folder(store, scenario)
    if name != folder.name:
        raise FedcastError(
            f"{folder.name}: the worker returned {name}; a file that the scenario names, or the version of fedcast, "
            f"differs there"
        )
    return save_finished_run(folder, files)


def _connect(address: str) -> Any:
    try:
        import ray
    except ImportError:
        raise FedcastError('a Ray cluster needs Ray: pip install "fedcast[ray]"') from None
    _check_answers(address)
    try:
        ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise FedcastError(f"--ray {address}: no Ray cluster there ({reason}); `ray start --head` starts one") from None
    return ray


def _check_answers(address: str) -> None:
    """Fail early: Ray itself waits for minutes at an address that does not answer."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdigit():
        return  # a name such as auto, which Ray resolves without waiting
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_TIMEOUT_S).close()
    except OSError as error:
        raise FedcastError(
            f"--ray {address}: no Ray cluster there ({error.strerror or error}); `ray start --head` starts one"
        ) from None


def _sent(scenario: Scenario) -> tuple[str, list[bytes]]:
    """Return the scenario and the content of its plug-in files, which need not exist on the worker's machine."""
    return scenario.model_dump_json(), [Path(file).read_bytes() for file in scenario.plugins]


def _run_on_worker(content: str, plugins: Sequence[bytes], data_dir: str | None) -> tuple[str, Files]:
    """Do one run on one thread, and return the name of its folder and its files."""
    import torch

    torch.set_num_threads(1)
    store = Path(tempfile.mkdtemp(prefix="fedcast-"))
    try:
        given = Scenario.model_validate_json(content)
        scenario = given.model_copy(update={"plugins": tuple(_local_copy(text) for text in plugins)})
        load_plugins(scenario)
        # The run keeps the places that its sender gave.
        with atomic_write(run_folder(store, scenario) / "scenario.toml") as aside:
            aside.write_text(to_toml(given), encoding="utf-8")
        folder = run_job((0, scenario), store, data_dir=None if data_dir is None else Path(data_dir))
        assert folder is not None
        files = {path.name: path.read_bytes() for path in folder.iterdir() if path.name[0] != "."}
        return folder.name, files
    finally:
        shutil.rmtree(store)


def _local_copy(plugin: bytes) -> str:
    """Write a plug-in file to a place that depends on its content: a process runs the same file only once."""
    path = Path(tempfile.gettempdir()) / f"fedcast-plugin-{hashlib.sha256(plugin).hexdigest()[:12]}.py"
    with atomic_write(path) as aside:
        aside.write_bytes(plugin)
    return str(path)


def _original_error(error: Exception) -> Exception:
    """Return the error of the run without Ray's wrapper."""
    if isinstance(error, FedcastError):
        return error
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, Exception) else FedcastError(f"Ray: {str(error).splitlines()[0]}")
