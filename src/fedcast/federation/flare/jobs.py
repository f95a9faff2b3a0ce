"""The operator's side: sessions with the server, who answers it, and the jobs of runs."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from fedcast.errors import FedcastError
from fedcast.federation.flare.kits import Project
from fedcast.federation.flare.names import ADMIN, CONTROLLER, DEVICE_CONFIG, RUNS, SERVER, STOP_FILE
from fedcast.federation.flare.processes import running_processes
from fedcast.federation.state import RunState, load_state, write_state
from fedcast.io import write_file

_POLL_S = 0.2
# A device that is only slow answers again within this time; one that sends heartbeats and does not was restarted.
_LOST_S, _LOOK_S = 25.0, 5.0
# Seconds for a device to answer, for a server that somebody may have started just now, and for a job to end.
_ANSWER_S, _SERVER_S, _END_S = 3.0, 4.0, 30.0
_ATTEMPTS = 3  # to connect to a server that listens
# States of a job that the server will run, and of one that it is starting, which takes less than a few seconds.
_WAITING, _STARTING, _START_S = ("SUBMITTED", "APPROVED"), "DISPATCHED", 6.0


@contextmanager
def _quiet() -> Iterator[None]:
    """Print nothing of what FLARE prints while it connects, such as tracebacks by the root logger."""
    nowhere, root = logging.NullHandler(), logging.getLogger()
    root.addHandler(nowhere)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        root.removeHandler(nowhere)


@contextmanager
def session(project: Project, timeout_s: float = 10.0) -> Iterator[Any]:
    """Connect to the server as its operator."""
    try:
        from nvflare.fuel.flare_api.flare_api import new_secure_session
    except ImportError:
        raise FedcastError('nvflare is not installed: pip install "fedcast[federation]"') from None
    logging.getLogger("nvflare").addHandler(logging.NullHandler())  # it warns of connections that it repeats itself
    for attempt in range(_ATTEMPTS):
        _check_listening(project, min(timeout_s, _ANSWER_S))
        try:
            with _quiet():
                connected = new_secure_session(ADMIN, str(project.admin), timeout=timeout_s)
            break
        except Exception as error:  # FLARE raises exceptions of many kinds
            # FLARE gives a server a few seconds for its first answer, which a busy machine does not always keep.
            if attempt == _ATTEMPTS - 1:
                said = f"{type(error).__name__}: {error}"
                raise FedcastError(f"the server does not answer ({said}); start it first") from None
    try:
        yield connected
    except FedcastError:
        raise
    except Exception as error:  # as above, of a server that went away
        raise FedcastError(f"the server does not answer any more ({type(error).__name__}: {error})") from error
    finally:
        connected.close()  # otherwise its threads keep this process alive


def _check_listening(project: Project, timeout_s: float) -> None:
    """Raise an error at once if nothing listens at the server's port; FLARE would try for a long time."""
    try:
        socket.create_connection((project.host, project.port), timeout_s).close()
    except OSError as error:
        raise FedcastError(
            f"no server at {project.host}:{project.port} ({error.strerror or error}); start it first: "
            f"{_how_to_start(project)}"
        ) from None


def _how_to_start(project: Project) -> str:
    return f"fedcast federation up {project.folder}, or on other hosts fedcast federation start {project.server}"


class ServerStatus(NamedTuple):
    """The present state of a server."""

    devices: list[str]  #: those that answer it
    runs: dict[str, str]  #: id of the job of each run that has not ended


def server_status(project: Project, timeout_s: float = 10.0) -> ServerStatus:
    """Ask the server which devices answer it, and which runs go on."""
    with session(project, timeout_s) as connected:
        return ServerStatus(_answering(connected), _active_runs(project, connected))


def wait_for_server(project: Project, timeout_s: float) -> ServerStatus:
    """Wait for the server: as long if it was started as a process of this machine, else a few seconds."""
    began = time.monotonic()
    while True:
        try:
            return server_status(project, timeout_s=5.0)
        except FedcastError:
            waited = time.monotonic() - began
            if waited > timeout_s or (waited > _SERVER_S and SERVER not in running_processes(project)):
                raise
        time.sleep(_POLL_S)


def wait_for_devices(project: Project, names: list[str], timeout_s: float) -> list[str]:
    """Wait until devices are connected; return those that are when they all are or the time is up."""
    end = time.monotonic() + timeout_s
    found = wait_for_server(project, timeout_s).devices
    while not set(names) <= set(found) and time.monotonic() < end:
        time.sleep(_POLL_S)
        found = wait_for_server(project, end - time.monotonic()).devices
    return [name for name in names if name in found]


def _answering(connected: Any) -> list[str]:
    """Return the devices that answer now: FLARE lists one that was killed until it misses its heartbeats."""
    known = [client.name for client in connected.get_system_info().client_info]
    if not known:
        return []
    connected.set_timeout(_ANSWER_S)
    answers = connected.get_client_job_status(known) or []
    connected.unset_timeout()
    return sorted({answer["client_name"] for answer in answers if answer["status"] not in ("no_reply", "error")})


def _active_runs(project: Project, connected: Any) -> dict[str, str]:
    """Return the jobs that run or will run, by the names of their runs; not those whose run has ended by itself."""
    running, listed = _running_jobs(connected)
    if _stuck_jobs(running, listed):
        time.sleep(_START_S)
        running, listed = _running_jobs(connected)
        for job_id in _stuck_jobs(running, listed):
            # A server was killed while it started this job. It does not start it again, nor forget it.
            connected.abort_job(job_id)
    jobs = {
        str(job["job_name"]): str(job["job_id"])
        for job in listed
        if job["job_id"] in running or job["status"] in _WAITING
    }
    return {name: job for name, job in jobs.items() if not _has_ended(project.folder / RUNS / name)}


def _running_jobs(connected: Any) -> tuple[set[str], list[Any]]:
    """Return the ids of the jobs that run, and all jobs that the server knows."""
    listed = list(connected.list_jobs())
    return {job.job_id for job in connected.get_system_info().job_info}, listed


def _stuck_jobs(running: set[str], listed: list[Any]) -> list[str]:
    return [job["job_id"] for job in listed if job["status"] == _STARTING and job["job_id"] not in running]


def _has_ended(run_folder: Path) -> bool:
    """Return whether a run is done or has failed: FLARE takes some seconds to end its job then."""
    try:
        state = load_state(run_folder)
    except FedcastError:
        return False
    return state.phase == "done" or state.failure is not None


def check_idle(status: ServerStatus, project: Project, name: str = "") -> None:
    """Raise an error if another run than the named one goes on: devices take part in one run at a time."""
    for other in status.runs.keys() - {name}:
        raise FedcastError(
            f"run {other} goes on, and devices take part in one run at a time: wait for it (fedcast federation status "
            f"{project.folder}), or stop it: fedcast federation stop {project.folder}"
        )


def stop_run(project: Project, name: str) -> bool:
    """End the job of a run and wait until it has ended; return whether there was one. The run can be resumed."""
    with session(project) as connected:
        job = _active_runs(project, connected).get(name)
        if job is None:
            return False
        _end_job(connected, job, project.folder / RUNS / name)
        end = time.monotonic() + _END_S
        while not _job_status(connected, job).startswith("FINISHED") and time.monotonic() < end:
            time.sleep(_POLL_S)
    return True


def _end_job(connected: Any, job_id: str, run_folder: Path) -> None:
    (run_folder / STOP_FILE).touch()
    connected.abort_job(job_id)


def _job_status(connected: Any, job_id: str) -> str:
    return str(connected.get_job_meta(job_id).get("status", ""))


def submit_job(project: Project, run_folder: Path, devices: list[str], timeouts: dict[str, float]) -> str:
    """Send the job of a run to the server; return its id."""
    job = write_job(run_folder / "job", project, run_folder, devices, timeouts)
    with session(project) as connected:
        return str(connected.submit_job(str(job)))


def run_to_end(
    project: Project, run_folder: Path, timeouts: dict[str, float], wait_s: float, show: Callable[[RunState], None]
) -> RunState:
    """Run or resume a run over the devices that are connected, and return what the server knew when it ended.

    A run that is done is left as it is, and one that goes on is followed. FLARE does not take a device that was
    restarted into a running job. When one is connected again, the job is ended and another one continues with the next
    round.
    """
    if (state := load_state(run_folder)).phase == "done":
        return state
    status = wait_for_server(project, wait_s)
    check_idle(status, project, run_folder.name)
    job = status.runs.get(run_folder.name)
    while True:
        if job is None:
            # What the job before left says nothing about the next one, which takes a while to start.
            write_state(run_folder, replace(load_state(run_folder), failure=None, away=[]))
            devices = wait_for_devices(project, list(project.devices), wait_s)
            if not devices:
                raise FedcastError(f"no device is connected; start them: fedcast federation up {project.folder}")
            job = submit_job(project, run_folder, devices, timeouts)
        state = follow_job(project, job, run_folder, show, until_returned=True)
        if state.phase == "done" or state.failure is not None:
            return state
        job = None


def follow_job(
    project: Project,
    job_id: str,
    run_folder: Path,
    show: Callable[[RunState], None],
    *,
    until_returned: bool = False,
) -> RunState:
    """Show how a run goes until it is done or its job ends; return what the server knew then.

    With `until_returned` the job is also ended when a device that was lost is connected again.
    """
    watch, ended_here = _Lost(), False
    with session(project) as connected:
        while True:
            try:
                status = _job_status(connected, job_id)
                state = load_state(run_folder)
                if until_returned and not ended_here and watch.returned(connected, state):
                    _end_job(connected, job_id, run_folder)
                    ended_here = True
            except FedcastError:
                raise
            except Exception as error:  # FLARE raises exceptions of many kinds
                raise FedcastError(
                    f"the server went away ({type(error).__name__}); start it ({_how_to_start(project)}), then resume "
                    f"the run: fedcast federation resume {project.folder}"
                ) from None
            show(state)
            if state.phase == "done":  # FLARE takes some seconds to end a job
                return state
            if status.startswith("FINISHED"):
                state = load_state(run_folder)
                if state.phase != "done" and state.failure is None and not ended_here:
                    logs = f"the job ended early ({status}); {project.folder / 'logs'} may say why"
                    stopped = status == "FINISHED:ABORTED" or (run_folder / STOP_FILE).exists()
                    state.failure = "the run was stopped" if stopped else logs
                return state
            time.sleep(_POLL_S)


class _Lost:
    """Notices when a device that a run lost is connected again, but not in its job."""

    def __init__(self) -> None:
        self.since: dict[str, float] = {}
        self.next_look = 0.0

    def returned(self, connected: Any, state: RunState) -> bool:
        """Return whether a device has been away for a while and the server has heard of it since."""
        now = time.time()
        self.since = {name: self.since.get(name, now) for name in state.away if state.phase == "train"}
        long = {name: since for name, since in self.since.items() if now > since + _LOST_S}
        if not long or now < self.next_look:
            return False
        self.next_look = now + _LOOK_S
        heard = {client.name: client.last_connect_time or 0.0 for client in connected.get_system_info().client_info}
        # A heartbeat that was on its way when the device was lost does not count.
        return any(heard.get(name, 0.0) > since + _LOST_S / 2 for name, since in long.items())


def write_job(folder: Path, project: Project, run_folder: Path, devices: list[str], timeouts: dict[str, float]) -> Path:
    """Write a job: the controller for the server, and for devices what they expect, which is always the same."""
    if folder.exists():
        shutil.rmtree(folder)
    arguments = {"folder": str(run_folder.resolve()), "devices": list(project.devices), "timeouts": timeouts}
    server = {
        "format_version": 2,
        "workflows": [{"id": "federation", "path": CONTROLLER, "args": arguments}],
        "task_result_filters": [],
        "task_data_filters": [],
        "components": [],
    }  # fmt: skip
    meta = {
        "name": run_folder.name, "resource_spec": {}, "min_clients": 1,
        "deploy_map": {"server_app": ["server"], "device_app": devices},
    }  # fmt: skip
    files = {
        "meta.json": meta,
        "server_app/config/config_fed_server.json": server,
        "device_app/config/config_fed_client.json": DEVICE_CONFIG,
    }
    for name, content in files.items():
        write_file(folder / name, json.dumps(content, indent=1))
    return folder
