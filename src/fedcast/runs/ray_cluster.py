"""A sweep on a Ray cluster: workers need no common disk, and a lost one costs only its unfinished runs.

A worker does a run in a folder of its own and sends the files back; they enter the store whole or not at all.
"""

from __future__ import annotations

import itertools
import logging
import shutil
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcast.errors import FedcastError
from fedcast.runs.store import accept_run, load_run, run_folder
from fedcast.scenario import Scenario

if TYPE_CHECKING:
    from fedcast.runs.sweep import Job, Progress

# How often Ray begins a run anew whose worker was lost.
_RETRIES = 5
_PATIENCE_S = 5.0
Files = dict[str, bytes]


def sweep_on_ray(todo: Sequence[Job], store: Path, address: str, data_dir: Path | None, say: Progress) -> None:
    """Do all runs on the cluster and take them into the store as they come; after a failure, begin no more."""
    ray = _connect(address)
    try:
        remote = ray.remote(num_cpus=1, max_retries=_RETRIES)(_run_elsewhere)
        folder = None if data_dir is None else str(data_dir)
        waiting = iter(todo)

        def begin(count: int) -> dict[Any, Job]:
            jobs = itertools.islice(waiting, count)
            return {remote.remote(scenario.model_dump_json(), folder): (place, scenario) for place, scenario in jobs}

        under_way = begin(max(1, int(ray.cluster_resources().get("CPU", 1))))
        failure: Exception | None = None
        while under_way:
            (finished, *_), _ = ray.wait(list(under_way), num_returns=1)
            place, scenario = under_way.pop(finished)
            try:
                last = load_run(_take_in(store, scenario, *ray.get(finished))).history.records[-1]
            except Exception as error:
                failure = failure or _plain(error)
                continue
            say(place, last.round, last.accuracy)
            if failure is None:
                under_way |= begin(1)
        if failure is not None:
            raise failure
    finally:
        ray.shutdown()


def _take_in(store: Path, scenario: Scenario, name: str, files: Files) -> Path:
    folder = run_folder(store, scenario)
    if name != folder.name:
        raise FedcastError(
            f"{folder.name}: the worker made {name}; a file that the scenario names, or fedcast, differs there"
        )
    return accept_run(folder, files)


def _connect(address: str) -> Any:
    try:
        import ray
    except ImportError:
        raise FedcastError('a Ray cluster needs Ray: pip install "fedcast[ray]"') from None
    _refuse_silence(address)
    try:
        ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise FedcastError(f"--ray {address}: no Ray cluster there ({reason}); `ray start --head` starts one") from None
    return ray


def _refuse_silence(address: str) -> None:
    """Ray waits for minutes at an address where nobody answers: ask first."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdigit():
        return  # a name such as auto, which Ray knows at once whether it can resolve
    try:
        socket.create_connection((host, int(port)), timeout=_PATIENCE_S).close()
    except OSError as error:
        raise FedcastError(
            f"--ray {address}: no Ray cluster there ({error.strerror or error}); `ray start --head` starts one"
        ) from None


def _run_elsewhere(scenario: str, data_dir: str | None) -> tuple[str, Files]:
    """On a worker: one run on one thread; its folder's name and files."""
    import torch

    from fedcast.runs.sweep import named_run

    torch.set_num_threads(1)
    store = Path(tempfile.mkdtemp(prefix="fedcast-"))
    try:
        folder = named_run(
            Scenario.model_validate_json(scenario), store, data_dir=None if data_dir is None else Path(data_dir)
        )
        assert folder is not None
        files = {path.name: path.read_bytes() for path in folder.iterdir() if path.name[0] != "."}
        return folder.name, files
    finally:
        shutil.rmtree(store)


def _plain(error: Exception) -> Exception:
    """What went wrong in the run, without Ray's wrapping."""
    if isinstance(error, FedcastError):
        return error
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, Exception) else FedcastError(f"Ray: {str(error).splitlines()[0]}")
