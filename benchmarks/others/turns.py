"""Let programs that train rounds take turns, and report their times; needs the standard library alone."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from others.workloads import WORKLOADS, Workload, checksum


@dataclass
class Turns:
    """One program's rounds: waits until some may start, times each, tells its loss, and at the end sums up.

    Every answer is one line of JSON on standard output; what frameworks print goes to standard error.

    Attributes:
        work: what is trained.
        model: file with the untrained model.
        rounds: how many rounds.
        waits: whether to wait for a line on standard input, how many rounds it may train, whenever those are done.
        way: which way of several the program knows, if it knows several.
    """

    work: Workload
    model: Path
    rounds: int
    waits: bool
    way: str = ""
    seconds: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    peak_mib: float | None = None
    _started: float = 0.0
    _of_turn: int = 0

    def __post_init__(self) -> None:
        self._answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)

    def ready(self) -> None:
        """Everything that is not a round's work is done."""
        self._answer({"ready": True})

    def start(self) -> None:
        """Wait for the turn; the clock runs from here."""
        if self.waits and not self._of_turn:
            line = sys.stdin.readline()
            if not line:
                raise SystemExit("nobody is left to take turns with")
            self._of_turn = int(line)
        self._of_turn -= self.waits
        self._started = time.perf_counter()

    def stop(self, loss: float) -> None:
        """End a round: the server has its new weights."""
        self.seconds.append(time.perf_counter() - self._started)
        self.losses.append(loss)
        self._answer({"seconds": self.seconds[-1], "loss": loss})

    def finish(self, **more: Any) -> None:
        """Sum up."""
        summary = {
            "workload": self.work.name,
            "data": checksum(self.work),
            "first_s": self.seconds[0],
            "round_s": statistics.median(self.seconds[1:] or self.seconds),
            "losses": self.losses,
            "peak_mib": self.peak_mib,
        }
        self._answer(summary | more)

    def note_peak(self) -> None:
        """Read the peak of memory now, while all processes that take part are still there."""
        self.peak_mib = peak_mib()

    def _answer(self, values: dict[str, Any]) -> None:
        print(json.dumps(values), file=self._answers, flush=True)


def from_command_line(*ways: str) -> Turns:
    """Parse the arguments."""
    parser = argparse.ArgumentParser()
    if ways:
        parser.add_argument("way", choices=ways)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("model", type=Path, help="the untrained model, as torch.save wrote it")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--in-turns", action="store_true", help="wait for lines on standard input: how many rounds next"
    )
    options = parser.parse_args()
    way = options.way if ways else ""
    return Turns(WORKLOADS[options.workload], options.model, options.rounds, options.in_turns, way)


def peak_mib() -> float | None:
    """Sum of the peaks of resident memory of this process and those it started; None if the system does not tell."""
    try:
        family = [os.getpid()]
        for process in family:
            family += _children(process)
        return sum(map(_peak_kib, family)) / 1024
    except OSError:
        return None


def _children(process: int) -> list[int]:
    threads = Path(f"/proc/{process}/task").iterdir()
    return [int(child) for thread in threads for child in (thread / "children").read_text(encoding="ascii").split()]


def _peak_kib(process: int) -> int:
    lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)
