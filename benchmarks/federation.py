"""A federation of processes on this machine: sharing, overhead of a round, memory; loopback, TLS on.

The full run repeats the small task with 30 devices.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil

from fedcast import load_scenario
from fedcast.data import Dataset, dataset_from_arrays
from fedcast.federation import (
    Project,
    RunState,
    follow_job,
    load_or_create_keys,
    make_project,
    start_process,
    start_run,
    stop_process,
    submit_job,
    wait_for_devices,
    write_samples,
)
from fedcast.federation.flare.processes import running_processes
from fedcast.scenario import Scenario
from harness import MIB, Figure, run

_CLASSES, _SIDE = 4, 28
_RECORD_BYTES = _SIDE * _SIDE + 8
_SHARED_BYTES = 8 * 10**6
_ROUNDS = 10


def samples(count: int, classes: int, seed: int) -> Dataset:
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % classes
    inputs = rng.integers(0, 256, (count, 1, _SIDE, _SIDE), dtype=np.uint8)
    last = np.array([_CLASSES - 1])  # so that all devices agree on the number of classes
    return dataset_from_arrays(inputs, labels, inputs[:1], last)


def make_devices(folder: Path, count: int, shared: int, port: int) -> tuple[Project, Scenario]:
    """Write a project whose first device holds all classes and is trusted by two others, of one class each."""
    project = make_project(folder, [f"site-{user:02d}" for user in range(count)], port=port)
    known = {}
    for user, name in enumerate(project.devices):
        own = project.own_files(name)
        write_samples(own / "data", samples(shared, _CLASSES, 0) if user == 0 else samples(60, 1, user))
        (own / "consent.toml").write_text('kinds = ["raw"]\nmax_ratio = 1.0\n')
        known[name] = load_or_create_keys(own / "keys.pem").public.fingerprint
    head, *members = project.devices[:3]
    for name in project.devices:
        trusted = members if name == head else [head] if name in members else []
        tables = [f'[{other}]\nfingerprint = "{known[other]}"\nrate_bps = 1e8\n' for other in trusted]
        (project.own_files(name) / "trust.toml").write_text("".join(tables))
    held = samples(400, _CLASSES, 999)
    images, labels = np.asarray(held.inputs), held.labels
    np.savez(folder / "test.npz", inputs=images, labels=labels, test_inputs=images, test_labels=labels)
    scenario = load_scenario(
        base="default",
        overrides={
            "data.dataset": "file", "data.file": str(folder / "test.npz"), "data.num_users": count,
            "training.model": "mlp", "training.model_weights": 25_252, "training.rounds": _ROUNDS,
            "training.batch_size": 50, "training.local_epochs": 1, "clustering.rule": "daca",
            "allocation.method": "fixed", "allocation.max_sharing_ratio": 1.0,
            "allocation.fixed.ratio": 1.0, "devices.energy_budget_j": 1e6, "cellular.snr_db": 20.0,
        },
    )  # fmt: skip
    return project, scenario


@contextmanager
def started(project: Project) -> Iterator[float]:
    """Start all processes; yield the seconds until all devices were connected."""
    begun = time.monotonic()
    try:
        for name in ["server", *project.devices]:
            start_process(project, name)
        found = wait_for_devices(project, list(project.devices), 300)
        assert len(found) == len(project.devices), found
        yield time.monotonic() - begun
    finally:
        for name in [*project.devices, "server"]:
            stop_process(project, name, kill=True)


class Watch:
    """Samples the memory and the CPU seconds of each device, all its processes together.

    Memory is proportional (PSS): what processes share, such as the code of PyTorch, is divided among them.
    """

    def __init__(self, project: Project) -> None:
        pids = running_processes(project)
        self.roots = [psutil.Process(pids[name]) for name in project.devices]
        self.peaks = [0.0] * len(self.roots)
        self.cpu_s: dict[int, float] = {}
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()

    def _watch(self) -> None:
        while not self.ended.wait(2.0):
            for place, root in enumerate(self.roots):
                total = 0.0
                for process in [root, *root.children(recursive=True)]:
                    try:
                        total += process.memory_full_info().pss / MIB
                        times = process.cpu_times()
                    except psutil.Error:
                        continue
                    self.cpu_s[process.pid] = times.user + times.system
                self.peaks[place] = max(self.peaks[place], total)

    def end(self) -> tuple[float, float]:
        """Return the median over devices of the peaks, MiB, and CPU seconds per device."""
        self.ended.set()
        self.thread.join()
        return statistics.median(self.peaks), sum(self.cpu_s.values()) / len(self.roots)


class Run(NamedTuple):
    """State of the server at the end, seconds of the whole job, memory (MiB) and CPU seconds per device."""

    state: RunState
    took_s: float
    mib: float
    cpu_s: float


def one_run(project: Project, scenario: Scenario) -> Run:
    folder = project.folder / "runs" / f"{time.time_ns()}"
    start_run(folder, scenario)
    watch, begun = Watch(project), time.monotonic()
    job = submit_job(project, folder, list(project.devices), {"describe_s": 300.0})
    state = follow_job(project, job, folder, lambda _: None)
    took = time.monotonic() - begun
    found = Run(state, took, *watch.end())
    if state.phase != "done" or state.missing:
        raise SystemExit(f"the run failed: {state.failure} {state.missing}")
    return found


def overheads(state: RunState) -> list[float]:
    """Seconds of rounds beyond the training of the slowest device, without the first, which loads models."""
    return [seconds - state.training_s[name] for name, seconds in state.measured_s.items() if name in state.training_s][
        1:
    ]


def measure(quick: bool) -> dict[str, Figure]:
    figures = {}
    with tempfile.TemporaryDirectory() as place:
        shared = _SHARED_BYTES // _RECORD_BYTES
        project, scenario = make_devices(Path(place) / "six", 6, shared, 18_320)
        with started(project) as up_s:
            # The server keeps no samples, so that a second run sends all of them again.
            runs = [one_run(project, scenario) for _ in range(1 if quick else 3)]
        head = project.devices[0]
        shares = [one.state.shared[head]["seconds"] for one in runs]
        sizes = {(answer["count"], len(answer["delivered"])) for one in runs for answer in one.state.shared.values()}
        assert sizes == {(shared, 2)}, sizes
        how = f"{shared * _RECORD_BYTES / 1e6:.1f} MB from a head to two members, drawn, encrypted, sent by way of the "
        how += f"server, checked, stored and acknowledged; median of {len(runs)}"
        figures["federation.share_8mb_s"] = Figure(statistics.median(shares), "s", how)
        beyond = [value for one in runs for value in overheads(one.state)]
        how = f"round of six devices minus the slowest device's training, mlp, median of {len(beyond)}"
        figures["federation.round_overhead_s"] = Figure(statistics.median(beyond), "s", how)
        how = f"submit to end: describe, plan, share, {_ROUNDS} rounds; {up_s:.1f} s before that to start all processes"
        figures["federation.job_s"] = Figure(statistics.median([one.took_s for one in runs]), "s", how)
        how = "peak proportional memory (PSS) of a device's processes, median of six devices"
        figures["federation.device_mib"] = Figure(statistics.median([one.mib for one in runs]), "MiB", how)
        if not quick:
            project, scenario = make_devices(Path(place) / "many", 30, 600, 18_321)
            with started(project) as up_s:
                large = one_run(project, scenario)
            how = (
                f"the same with 30 devices, {len(large.state.devices)} described; {up_s:.0f} s before that to start all"
            )
            figures["federation.job_30_s"] = Figure(large.took_s, "s", how)
            how = f"round of 30 devices minus the slowest device's training, median of {_ROUNDS - 1}"
            figures["federation.round_overhead_30_s"] = Figure(statistics.median(overheads(large.state)), "s", how)
            figures |= _limits(large)
    return figures


def _limits(large: Run) -> dict[str, Figure]:
    """Return what a device of 30 needs, and how many this machine has memory for."""
    memory = psutil.virtual_memory().total / MIB
    how = "the same of 30 devices, which share more"
    cpu = "CPU seconds of a device: most of it imports FLARE and PyTorch, on all cores at once when a job starts"
    room = f"devices that {memory / 1024:.0f} GiB of memory hold; {psutil.cpu_count()} cores start one in "
    room += f"{large.cpu_s / (psutil.cpu_count() or 1):.1f} s, which must stay within the time-out of the first phase"
    return {
        "federation.device_30_mib": Figure(large.mib, "MiB", how),
        "federation.device_30_cpu_s": Figure(large.cpu_s, "s", cpu),
        "federation.devices_in_memory": Figure(float(memory // large.mib), "", room),
    }


if __name__ == "__main__":
    run("a federation of processes", measure, pinned=False)
