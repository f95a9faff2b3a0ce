"""Tables of runs for other programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

from fedcast.io import Column, read_table
from fedcast.report import content as contents
from fedcast.report.content import Content
from fedcast.report.figures.training import PARTS
from fedcast.runs import StoredRun, comparison_table

Table = dict[str, list[Any]]

_LEDGER = (
    Column("sample", "int", minimum=0),
    Column("sender", "int", minimum=-1),
    Column("receiver", "int", minimum=0),
)


def _of_runs(content: Content, columns_of: Callable[[StoredRun], Mapping[str, list[Any]]]) -> Table:
    """Concatenate the tables of all runs, with columns in front that name the run."""
    parts = []
    for run in content.runs:
        columns = columns_of(run)
        length = len(next(iter(columns.values())))
        named = {"strategy": content.scores[run].strategy.name, "seed": run.scenario.seed, "run": run.folder.name}
        parts.append({name: [value] * length for name, value in named.items()} | dict(columns))
    return {name: list(chain.from_iterable(part[name] for part in parts)) for name in parts[0]}


def _users_of(run: StoredRun) -> Table:
    """Return the stored table with samples as whole numbers."""
    columns = run.tables["users"]
    return columns | {name: [int(count) for count in columns[name]] for name in ("received", "sent")}


def _leakage_of(run: StoredRun) -> Table:
    # A plan without sharing has the same point at every limit.
    points = dict.fromkeys(run.plan.leakage if run.plan is not None else ())
    return {
        "average_sharing_ratio": [point.average_sharing_ratio for point in points],
        "delay_s": [point.delay_s for point in points],
    }


def _ledger_of(run: StoredRun) -> Table:
    if not run.facts.received_samples:
        return {column.name: [] for column in _LEDGER}
    table = read_table(run.folder / "ledger.csv", _LEDGER)
    return {column.name: table[column.name].tolist() for column in _LEDGER}


def _time_split(content: Content) -> Table:
    split = contents.time_split(content)
    parts = {f"{part}_s": split.seconds[:, place].tolist() for place, part in enumerate(PARTS)}
    return {"strategy": list(split.names), **parts, "total_s": split.totals.tolist()}


# One row per strategy, per round, user or head of a run, sample received, or point of delay against leakage.
TABLES: dict[str, Callable[[Content], Table]] = {
    "comparison": lambda content: comparison_table(content.rows),
    "history": lambda content: _of_runs(content, lambda run: run.history.columns()),
    "users": lambda content: _of_runs(content, _users_of),
    "heads": lambda content: _of_runs(content, lambda run: run.tables["heads"]),
    "classes": lambda content: _of_runs(content, lambda run: run.tables["classes"]),
    "ledger": lambda content: _of_runs(content, _ledger_of),
    "leakage": lambda content: _of_runs(content, _leakage_of),
    "time_split": _time_split,
}
