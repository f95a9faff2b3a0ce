"""Projects whose server and devices are processes of this machine, and what may happen to them."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from fedcast.errors import FedcastError
from fedcast.federation import load_state
from fedcast.federation.flare import jobs, processes

HERE = Path(__file__).parent
DESCRIBE_S = 60.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def environment(**changed: str) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(changed)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def hooked(**changed: str):
    """Start a process with the hooks of the folder `hooks`."""
    return environment(PYTHONPATH=os.pathsep.join([str(HERE / "hooks"), os.environ.get("PYTHONPATH", "")]), **changed)


def shifted_clock(folder: Path, seconds: int):
    """Start a process whose clock is off."""
    library = folder / "clock.so"
    if not library.exists():
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, HERE / "clock.c", "-ldl"], check=True)
    return environment(LD_PRELOAD=str(library), CLOCK_SHIFT_S=str(seconds))


@contextmanager
def stopped_at_the_end(project) -> Iterator[None]:
    try:
        yield
    finally:
        for name in [*project.devices, "server"]:
            processes.stop_process(project, name, kill=True)


def start(project, *names: str) -> None:
    for name in names:
        processes.start_process(project, name)


def kill(project, name: str) -> None:
    assert processes.stop_process(project, name, kill=True)


def wait_until(condition, seconds=240.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


class Background:
    """A run that is followed in a thread; `found` is its state or its error."""

    def __init__(self, project, folder, **timeouts):
        self.project, self.folder, self.found = project, folder, None
        self.timeouts = {"describe_s": DESCRIBE_S, "share_s": 60.0, "round_s": 15.0, **timeouts}
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        try:
            self.found = jobs.run_to_end(self.project, self.folder, self.timeouts, 60.0, lambda _: None)
        except FedcastError as error:
            self.found = error

    def end(self, seconds=1200):
        self.thread.join(seconds)
        assert not self.thread.is_alive()
        return self.found


def rounds_done(folder):
    return sum(key.startswith("round ") for key in load_state(folder).measured_s)


def records(folder):
    return torch.load(folder / "checkpoint.pt", weights_only=True)["records"]
