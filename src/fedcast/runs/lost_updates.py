"""Attendance in training, by strategy: updates that counted, missed deadlines, dropouts, staleness."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fedcast.formatting import number
from fedcast.runs.comparable import gives_epochs
from fedcast.runs.seed_statistics import Interval, interval, interval_columns
from fedcast.runs.stored_run import FailedRun, RunsLike, as_runs
from fedcast.runs.strategies import Strategy, strategy_of
from fedcast.training import History

# What `History.attendance` counts over the rounds of a run, with its title.
COUNTS = {
    "updates": "updates that counted",
    "missed": "missed the deadline",
    "surplus": "in time, not needed",
    "dropped_out": "dropped out",
    "empty_rounds": "rounds without an update",
    "staleness": "mean staleness",
    "max_staleness": "largest staleness",
}


@dataclass(frozen=True)
class AttendanceRow:
    """Means over the seeds of a strategy, of counts over all rounds of a run."""

    strategy: Strategy
    seeds: int
    counts: dict[str, Interval]  #: by name, see `COUNTS`; without staleness where training is in rounds


def attendance(runs: RunsLike, failed: Iterable[FailedRun] = ()) -> list[AttendanceRow]:
    """Return a row for each strategy, as `compare` names them; none if all users took part in every round."""
    runs = as_runs(runs)
    named = gives_epochs([*runs, *failed])
    found: dict[Strategy, dict[int, dict[str, float]]] = {}
    for run in runs:
        strategy = strategy_of(run.scenario, name_epochs=named)
        found.setdefault(strategy, {}).setdefault(run.scenario.seed, run.history.attendance())
    rows = []
    for strategy, by_seed in sorted(found.items(), key=lambda item: item[0].place):
        every = list(by_seed.values())
        names = [name for name in COUNTS if any(name in counts for counts in every)]
        means = {name: interval([counts.get(name, 0.0) for counts in every]) for name in names}
        rows.append(AttendanceRow(strategy, len(every), means))
    return rows if any(row.counts for row in rows) else []


def shown_counts(rows: Iterable[AttendanceRow]) -> list[str]:
    """Return the names of the counts that are not 0 in every row."""
    every = [row.counts for row in rows]
    return [name for name in COUNTS if any(name in counts and counts[name].mean > 0 for counts in every)]


def attendance_text(history: History) -> str:
    """Return who took part in a run, for people; empty where all users took part in every round."""
    found = {name: value for name, value in history.attendance().items() if value}
    return ", ".join(f"{COUNTS[name]}: {number(value)}" for name, value in found.items())


def attendance_table(rows: Sequence[AttendanceRow]) -> dict[str, list[Any]]:
    """Return rows as columns of a table: every mean over seeds with the half width of its interval."""
    table: dict[str, list[Any]] = {
        "strategy": [row.strategy.name for row in rows],
        "seeds": [row.seeds for row in rows],
    }
    for name in COUNTS:
        table |= interval_columns(name, [row.counts.get(name) for row in rows])
    return table
