"""Federated training: seconds per round of our engines against a plain PyTorch loop, and against other frameworks.

W1: MNIST CNN, batch 10, 10 of 100 users a round.  W2: MNIST CNN, batch 32, all 100 users.  W3: digits MLP, batch 10,
all 100 users, 5 epochs.  W4: VGG-16, batch 32, 50 users (GPU only).  Inputs are made up: the work is the same. Each way
trains in a process of its own (`benchmarks/others/`), from the same weights and samples, in turns.

pfl-research and Flower are measured where they are installed, which need not be here: make a virtual environment for
each, `pip install "pfl[pytorch]==0.6.*"` and `pip install "flwr[simulation]==1.41.*"`, and pass its interpreter. With
--quick they train W3 alone, since Flower needs 20 s to begin.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import fedcast
from fedcast.training import build_model
from harness import Figure, run
from others.workloads import WORKLOADS, Workload

# Rounds of milliseconds are trained some at a time: after another way's turn, or after a wait, a round finds the caches
# cold and the core asleep, which in training, where round follows round, it would not. All ways get as many.
_ROUNDS_PER_TURN = {"w3": 5}

# Not kept on the one core, as all others are: its processes never rest, and would disturb the others there.
_MANY_PROCESSES = ("flower",)

_HERE = Path(__file__).parent.resolve()
_OURS = ("stacked", "compiled")


@dataclass
class Way:
    """A process that trains one workload in one way, a round whenever it is asked to.

    Attributes:
        name: of the way.
        process: which answers on standard output.
        log: where its standard error goes.
        seconds: of every round but the first.
        first_s: the first, which may compile or start workers.
        losses: of every round.
        summary: what it said at the end.
    """

    name: str
    process: subprocess.Popen[str]
    log: Path
    seconds: list[float] = field(default_factory=list)
    first_s: float = 0.0
    losses: list[float] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)

    @property
    def round_s(self) -> float:
        """Median seconds of a round."""
        return statistics.median(self.seconds)

    def answer(self) -> dict[str, Any]:
        """Return the next line of the process."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended early:\n" + self.log.read_text(encoding="utf-8")[-3000:])
        return json.loads(line)  # type: ignore[no-any-return]

    def train(self, rounds: int = 1) -> None:
        """Some rounds, one right after the other."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{rounds}\n")
        self.process.stdin.flush()
        for _ in range(rounds):
            answer = self.answer()
            if self.losses:
                self.seconds.append(answer["seconds"])
            else:
                self.first_s = answer["seconds"]
            self.losses.append(answer["loss"])

    def finish(self) -> None:
        """Wait for the end."""
        self.summary = self.answer()
        self.process.wait()

    def end(self) -> None:
        """Also after an error: with nobody to take turns with a process ends by itself, and takes its workers along."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def told(self, work: Workload) -> str:
        """In one phrase."""
        memory = [f"{self.summary['peak_mib']:.0f} MiB"] if self.summary["peak_mib"] else []
        if "peak_gpu_mib" in self.summary:
            memory.append(f"{self.summary['peak_gpu_mib']:.0f} MiB of the GPU")
        peak = f", peak {' and '.join(memory)}" if memory else ""
        return (
            f"{self.name} {self.round_s:.4g} s ({min(self.seconds):.3g}–{max(self.seconds):.3g}), "
            f"{work.samples / self.round_s:.4g} samples/s{peak}, first round {self.first_s:.3g} s"
        )


def start_way(name: str, command: list[str], work: Workload, folder: Path, rounds: int, stack: ExitStack) -> Way:
    """Start a process and let it train its first round, while no other trains."""
    log = folder / f"{name}.log"
    home = [str(Path(fedcast.__file__).parents[1])] if command[0] == sys.executable else []  # installed or not
    path = os.pathsep.join(filter(None, [str(_HERE), *home, os.environ.get("PYTHONPATH")]))
    process = subprocess.Popen(
        [*command, work.name, str(folder / "model.pt"), "--rounds", str(rounds), "--in-turns"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stack.enter_context(log.open("w", encoding="utf-8")),
        text=True, env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    if name in _MANY_PROCESSES and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(process.pid, range(os.cpu_count() or 1))
    way = Way(name, process, log)
    stack.callback(way.end)
    way.answer()
    way.train()
    return way


def in_turns(work: Workload, commands: dict[str, list[str]], repeats: int) -> dict[str, Way]:
    """Train some rounds of each way after another until each has its repeats and a first one that is not counted."""
    per_turn = _ROUNDS_PER_TURN.get(work.name, 1)
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        folder = Path(place)
        torch.save(build_model(work.model, work.shape, 10, seed=0), folder / "model.pt")
        ways = {name: start_way(name, command, work, folder, 1 + repeats, stack) for name, command in commands.items()}
        for _ in range(repeats // per_turn):
            for way in ways.values():
                way.train(per_turn)
        for way in ways.values():
            way.finish()
    return ways


def check_same_training(work: Workload, ways: dict[str, Way]) -> float:
    """Same data, and the same loss in every round but for the order of batches; the widest gap to the loop."""
    data = {name: way.summary["data"] for name, way in ways.items()}
    if len(set(data.values())) > 1:
        raise AssertionError(f"{work.name}: the ways train on different data: {data}")
    expected = ways["loop"].losses
    gaps = {
        name: max(abs(one - other) for one, other in zip(way.losses, expected, strict=True))
        for name, way in ways.items()
    }
    if max(gaps.values()) > work.loss_tolerance:
        losses = {name: way.losses for name, way in ways.items()}
        raise AssertionError(f"{work.name}: the ways do not reach the same loss: {losses}")
    return max(gaps.values())


def measure_workload(work: Workload, repeats: int, others: dict[str, str], *, compiled: bool) -> dict[str, Figure]:
    own = [sys.executable, "-m", "others.own_rounds"]
    commands = {name: [*own, name] for name in ("loop", *_OURS) if compiled or name != "compiled"}
    commands |= {name: [python, "-m", f"others.{name}_rounds"] for name, python in others.items()}
    ways = in_turns(work, commands, repeats)
    gap = check_same_training(work, ways)
    best = min((ways[name] for name in _OURS if name in ways), key=lambda way: way.round_s)
    losses = ways["loop"].losses
    how = (
        f"seconds per round, median of {repeats} in turns after a first: "
        + "; ".join(ways[name].told(work) for name in ("loop", *_OURS) if name in ways)
        + f"; best: {best.name}; loss {losses[0]:.3f} to {losses[-1]:.3f}, "
        + f"all ways within {gap:.2g} of the loop's in every round (allowed: {work.loss_tolerance})"
    )
    device = "one GPU" if torch.cuda.is_available() else "one core"
    figures = {
        f"training.{work.name}_ratio_loop": Figure(ways["loop"].round_s / best.round_s, "", how),
        f"training.{work.name}_sps": Figure(work.samples / best.round_s, "samples/s", f"best engine, {device}"),
    }
    for name in others:
        cores = ", on all cores" if name in _MANY_PROCESSES else ""
        how = f"{ways[name].summary['version']}{cores}: {ways[name].told(work)}; ours ({best.told(work)})"
        figures[f"training.{work.name}_ratio_{name}"] = Figure(ways[name].round_s / best.round_s, "", how)
    return figures


def measure(quick: bool, others: dict[str, str]) -> dict[str, Figure]:
    if torch.cuda.is_available():
        repeats = 2 if quick else 5
        figures = measure_workload(WORKLOADS["gpu_w1"], repeats, {}, compiled=not quick)
        return figures | measure_workload(WORKLOADS["gpu_w4"], repeats, {}, compiled=not quick)
    torch.set_num_threads(1)
    figures = measure_workload(WORKLOADS["w3"], 10 if quick else 60, others, compiled=True)
    figures |= measure_workload(WORKLOADS["w1"], 2 if quick else 7, {} if quick else others, compiled=not quick)
    if not quick:
        figures |= measure_workload(WORKLOADS["w2"], 3, others, compiled=True)
    return figures


def main() -> None:
    extra = argparse.ArgumentParser(add_help=False)
    for name, title in {"pfl": "pfl-research", "flower": "Flower"}.items():
        extra.add_argument(f"--{name}", metavar="PYTHON", help=f"interpreter of an environment with {title}")
    options, _ = extra.parse_known_args()
    others = {name: python for name, python in vars(options).items() if python}
    run("training", lambda quick: measure(quick, others), extra=extra)


if __name__ == "__main__":
    main()
