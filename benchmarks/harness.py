"""Shared code of benchmarks: one pinned core, medians, peak memory, the table that is printed, the JSON written."""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import statistics
import subprocess
import textwrap
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

MIB = 2**20


@dataclass(frozen=True)
class Figure:
    """One measured number: its unit, and in one line how it came about."""

    value: float
    unit: str
    how: str


def run(
    subject: str,
    measure: Callable[[bool], Mapping[str, Figure]],
    *,
    pinned: bool = True,
    extra: argparse.ArgumentParser | None = None,
) -> None:
    """Parse the command line, measure, print a table, write the JSON.

    Args:
        subject: what the benchmark is about, for `--help`.
        measure: takes whether to be quick (all under 60 s), returns the figures by name. A figure that cannot be
            measured here is left out.
        pinned: keep the process and its children on one core.
        extra: options of this benchmark alone, to be shown and accepted; it reads them itself.
    """
    parents = [extra] if extra else []
    parser = argparse.ArgumentParser(description=f"Benchmark of {subject}.", parents=parents)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, under 60 s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file")
    options = parser.parse_args()
    if pinned:
        pin_to_one_core()
    figures = measure(options.quick)
    print(table(figures))
    if options.json:
        report = {"commit": commit(), "machine": machine(), "figures": {k: asdict(f) for k, f in figures.items()}}
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def pin_to_one_core() -> None:
    """Stay on the core that is least busy now; elsewhere than on Linux the system decides."""
    if hasattr(os, "sched_setaffinity"):
        allowed = os.sched_getaffinity(0)
        before = _busy_ticks()
        time.sleep(0.5)
        after = _busy_ticks()
        os.sched_setaffinity(0, {min(allowed, key=lambda core: after.get(core, 0) - before.get(core, 0))})


def _busy_ticks() -> dict[int, int]:
    """Time that each core has worked, in ticks of the system; its lines read `cpu0 user nice system idle iowait …`."""
    cores = {}
    for line in Path("/proc/stat").read_text(encoding="ascii").splitlines():
        name, *ticks = line.split()
        if name.startswith("cpu") and name != "cpu":
            cores[int(name[3:])] = sum(map(int, ticks)) - int(ticks[3]) - int(ticks[4])
    return cores


def seconds(action: Callable[[], object], repeats: int = 1) -> float:
    """Median wall-clock time of some calls. Warm up before: the first call counts as any other."""
    times = []
    for _ in range(repeats):
        gc.collect()
        start = time.perf_counter()
        result = action()
        times.append(time.perf_counter() - start)
        del result  # so that the next call does not find this one's memory still in use
    return statistics.median(times)


def peak_extra_mib(action: Callable[[], object]) -> float | None:
    """Return the rise of resident memory in MiB; None where the system does not tell (only Linux does)."""
    reset, status = Path("/proc/self/clear_refs"), Path("/proc/self/status")
    gc.collect()
    try:
        reset.write_text("5", encoding="ascii")  # sets the high-water mark back to what is resident now
    except OSError:
        return None
    before = _status_bytes(status, "VmRSS")
    result = action()
    peak = _status_bytes(status, "VmHWM") - before
    del result
    return peak / MIB


def _status_bytes(status: Path, name: str) -> int:
    line = next(line for line in status.read_text(encoding="ascii").splitlines() if line.startswith(name + ":"))
    return int(line.split()[1]) * 1024


def table(figures: Mapping[str, Figure]) -> str:
    """Return the figures as text: name, value, unit, and how on the lines below.

    Example:
        >>> print(table({"graph.time_s": Figure(0.123456, "s", "median of 3")}))
        graph.time_s   0.1235 s
            median of 3
    """
    width = max(map(len, figures), default=0) + 2
    lines = []
    for name, figure in figures.items():
        lines.append(f"{name:<{width}}{figure.value:>7.4g} {figure.unit}".rstrip())
        lines += textwrap.wrap(figure.how, 112, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(lines)


def commit() -> str:
    """Return the commit that is measured, with a plus if the working tree differs from it."""
    try:
        head, changes = (
            subprocess.run(
                ["git", *words], cwd=Path(__file__).parent, capture_output=True, text=True, check=True
            ).stdout
            for words in (["rev-parse", "--short=12", "HEAD"], ["status", "--porcelain"])
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head.strip() + ("+" if changes.strip() else "")


def machine() -> str:
    """Processor, cores, system and Python."""
    system = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    return f"{_processor()}, {os.cpu_count()} cores, {system}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown processor")
