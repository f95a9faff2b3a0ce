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


def comparison(content: Content) -> Table:
    """Return one row per strategy: means, half widths, tests."""
    return comparison_table(content.rows)


def time_split(content: Content) -> Table:
    """Return one row per strategy: the parts of its delay."""
    split = contents.time_split(content)
    parts = {f"{part}_s": split.seconds[:, place].tolist() for place, part in enumerate(PARTS)}
    return {"strategy": list(split.names), **parts, "total_s": split.totals.tolist()}


def leakage(content: Content) -> Table:
    """Return one row per point of a plan's curve of delay against leakage."""
    return _of_runs(content, _leakage_of)


def history(content: Content) -> Table:
    """Return one row per round of a run."""
    return _of_runs(content, lambda run: run.history.columns())


def users(content: Content) -> Table:
    """Return one row per user of a run."""
    return _of_runs(content, _users_of)


def heads(content: Content) -> Table:
    """Return one row per head of a run."""
    return _of_runs(content, lambda run: run.tables["heads"])


def classes(content: Content) -> Table:
    """Return one row per user of a run: samples of each class before and after sharing."""
    return _of_runs(content, lambda run: run.tables["classes"])


def ledger(content: Content) -> Table:
    """Return one row per sample that another user received; a sender of -1 is the server."""
    return _of_runs(content, _ledger_of)


TABLES: dict[str, Callable[[Content], Table]] = {
    "comparison": comparison,
    "history": history,
    "users": users,
    "heads": heads,
    "classes": classes,
    "ledger": ledger,
    "leakage": leakage,
    "time_split": time_split,
}


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
