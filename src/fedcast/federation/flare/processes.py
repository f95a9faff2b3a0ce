"""The processes of a local trial: the server and the devices of a project on this machine."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from typing import Any

from fedcast.errors import FedcastError
from fedcast.federation.flare.kits import Project
from fedcast.federation.flare.names import SERVER
from fedcast.io import write_file
from fedcast.text_files import parse_json, read_text

_PROCESSES = "processes.json"
_STOP_S = 10.0
# Processes that this one started; they outlive it, and while it lives it must not warn that they still run.
_children: dict[int, subprocess.Popen[bytes]] = {}


def start_process(project: Project, name: str) -> int:
    """Start the server or a device in the background, if it does not run; return the id of its process."""
    known = _known(project)
    if name in known and _alive(known[name]):
        return int(known[name]["pid"])
    if name == SERVER:
        _check_port(project.port)
    kind, folder = ("server", project.server) if name == SERVER else ("device", project.kit(name))
    command = [sys.executable, "-m", "fedcast.federation.flare.start", kind, str(folder)]
    log = project.folder / "logs" / f"{name}.log"
    log.parent.mkdir(exist_ok=True)
    # Many devices on one machine: one thread each.
    environment = {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    with log.open("ab") as stream:
        process = subprocess.Popen(
            command, stdout=stream, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment,
            start_new_session=True,
        )  # fmt: skip
    _children[process.pid] = process
    known[name] = {"pid": process.pid, "folder": str(folder)}
    write_file(project.folder / _PROCESSES, json.dumps(known))
    return process.pid


def _check_port(port: int) -> None:
    """Raise an error if something listens at the port: two servers would share it, and each get some of the devices."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
    except OSError:
        return
    raise FedcastError(
        f"port {port} is in use on this machine: stop what listens there, as `fedcast federation down` stops another "
        "project, or make the project with another port (init --port)"
    )


def stop_process(project: Project, name: str, *, kill: bool = False) -> bool:
    """Stop the server or a device and all processes that it started; return whether it ran."""
    import psutil

    known = _known(project)
    entry = known.pop(name, None)
    write_file(project.folder / _PROCESSES, json.dumps(known))
    if entry is None or not _alive(entry):
        return False
    main = psutil.Process(entry["pid"])
    end_processes([main, *main.children(recursive=True)], kill=kill)
    if (child := _children.pop(main.pid, None)) is not None:
        child.wait(_STOP_S)
    return True


def end_processes(processes: list[Any], *, kill: bool = False) -> None:
    """End processes (of psutil), by force if they do not end by themselves."""
    import psutil

    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill() if kill else process.terminate()
    _, alive = psutil.wait_procs(processes, _STOP_S)
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(alive, _STOP_S)


def running_processes(project: Project) -> dict[str, int]:
    """Return the ids of the processes that run, by name."""
    return {name: int(entry["pid"]) for name, entry in _known(project).items() if _alive(entry)}


def _known(project: Project) -> dict[str, dict[str, Any]]:
    path = project.folder / _PROCESSES
    try:
        content: dict[str, dict[str, Any]] = parse_json(read_text(path), str(path))
    except FileNotFoundError:
        return {}
    return content


def _alive(entry: dict[str, Any]) -> bool:
    """Return whether a process is the one that was started: its number may be another's by now."""
    import psutil

    try:
        process = psutil.Process(entry["pid"])
        return process.status() != psutil.STATUS_ZOMBIE and entry["folder"] in " ".join(process.cmdline())
    except psutil.Error:
        return False
