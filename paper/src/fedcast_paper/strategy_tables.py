"""Tables for people on results that compare strategies: numbers as text, the paper's beside ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fedcast.formatting import pluralize
from fedcast_paper.over_seeds import LAST_ROUNDS
from fedcast_paper.result import Columns, Result, where
from fedcast_paper.settings import DATASETS, STRATEGIES
from fedcast_paper.wording import ABSENT, number

Row = dict[str, str]
_LATE = f"mean of the last {LAST_ROUNDS} rounds"
_RECEIVED = "samples received"
_ENOUGH_SEEDS = 5


def fig4_table(result: Result) -> list[Row]:
    """Where every strategy ended on every dataset, and what was shared for it."""
    from fedcast_paper.fig4 import PANELS

    ends = result.tables["ends"]
    rows = []
    for panel in dict.fromkeys(ends["panel"]):
        some = where(ends, panel=panel)
        size = f"{some['rounds'][0]} rounds, {pluralize(max(some['seeds']), 'seed')}"
        lines = {
            f"{PANELS[panel]} ({size})": _with_seeds(
                some, lambda row: _percent(row["accuracy"], row["accuracy_half_width"])
            )
        }
        if _few(some["seeds"]):
            lines[_LATE] = _by_strategy(some, lambda row: _percent(row["late_accuracy"]))
        if any(some["noisy_accuracy"]):
            noisy = _by_strategy(some, lambda row: _percent(row["noisy_accuracy"], row["noisy_accuracy_half_width"]))
            lines["tested with the users' noise"] = noisy
        lines[_RECEIVED] = _received(some)
        rows += [{"accuracy, %": head, **cells} for head, cells in lines.items()]
    return rows


def table2_table(result: Result) -> list[Row]:
    """Ours, the paper's and the difference in every setting; the paper's also where ours was not run."""
    cells = result.tables["cells"]
    rows = []
    for dataset, alpha, ratio in dict.fromkeys(zip(cells["dataset"], cells["alpha"], cells["ratio"], strict=True)):
        lines = _table2_lines(where(cells, dataset=dataset, alpha=alpha, ratio=ratio))
        heads = [f"{DATASETS[dataset]}, Dir {alpha:g}, {ratio:.0%} shared", *[""] * (len(lines) - 1)]
        rows += [
            {"accuracy, %": head, "whose": whose, **texts}
            for head, (whose, texts) in zip(heads, lines.items(), strict=True)
        ]
    return rows


def _table2_lines(cells: Columns) -> dict[str, Row]:
    if not any(cells["seeds"]):
        return {"paper; ours not run": _by_strategy(cells, lambda row: number(row["paper"], ".2f"))}
    seeds = pluralize(max(cells["seeds"]), "seed")
    lines = {f"ours, {seeds}": _with_seeds(cells, lambda row: number(row["accuracy"], ".2f", row["half_width"]))}
    if _few(cells["seeds"]):
        lines[f"ours, {_LATE}"] = _by_strategy(cells, lambda row: number(row["late_accuracy"], ".2f"))
    if any(cells["paper"]):
        lines["paper"] = _by_strategy(cells, lambda row: number(row["paper"], ".2f"))
        lines["difference"] = _by_strategy(cells, lambda row: number(row["difference"], "+z.2f"))
    gains = _by_strategy(cells, lambda row: number(row["gain"], "+z.2f", row["gain_half_width"]))
    lines["ours over FedAvg, seed by seed"] = gains
    if any(cells["paper"]):
        lines["paper over FedAvg"] = _by_strategy(cells, lambda row: number(row["paper_gain"], "+z.2f"))
    lines[_RECEIVED] = _received(cells)
    return lines


def rounds_table(result: Result) -> list[Row]:
    """How soon every strategy met the target, and what it changed in the data."""
    return [
        {
            "setting": f"{row['setting']}, to {row['target']:.0%}",
            "strategy": STRATEGIES[row["rule"]],
            "reached": f"{row['reached']} of {row['seeds']}",
            "rounds": number(row["rounds"], ".1f", row["rounds_half_width"]),
            "seconds": number(row["seconds"], ".0f", row["seconds_half_width"]),
            "times sooner than FedAvg": ("> " if row["speed_up_at_least"] else "") + number(row["speed_up"], ".2f"),
            "average EMD": number(row["emd_after"], ".3f"),
            "shift": number(row["shift"], ".3f"),
            _RECEIVED: number(row["received_samples"], ",.0f"),
        }
        for row in _rows_of(result.tables["strategies"])
    ]


def algorithms_table(result: Result) -> list[Row]:
    """Rounds and final accuracy of every algorithm with and without sharing."""
    from fedcast_paper.beyond_algorithms import ALGORITHMS

    return [
        {
            "algorithm": ALGORITHMS[row["algorithm"]].name,
            "sharing": "none" if row["rule"] == "none" else STRATEGIES[row["rule"]],
            "rounds to 95 %": number(row["rounds"], ".1f") if row["reached"] else "never",
            "reached": f"{row['reached']} of {row['seeds']}",
            "final accuracy, %": _percent(row["accuracy"], row["accuracy_half_width"]),
        }
        for row in _rows_of(result.tables["ends"])
    ]


def _few(seeds: Sequence[int]) -> bool:
    """Whether single rounds still show in a mean over seeds."""
    return 0 < max(seeds) < _ENOUGH_SEEDS


def _received(rows: Columns) -> Row:
    """What sharing came to under each strategy, all users together."""
    return _by_strategy(rows, lambda row: number(row["received_samples"], ",.0f"))


def _with_seeds(rows: Columns, text: Callable[[dict[str, Any]], str]) -> Row:
    """A text for each strategy, and its seeds where they are fewer than those of others."""
    most = max(rows["seeds"])

    def told(row: dict[str, Any]) -> str:
        return text(row) + (f" ({pluralize(row['seeds'], 'seed')})" if 0 < row["seeds"] < most else "")

    return _by_strategy(rows, told)


def _by_strategy(rows: Columns, text: Callable[[dict[str, Any]], str]) -> Row:
    found = {row["rule"]: text(row) for row in _rows_of(rows)}
    return {name: found.get(rule, ABSENT) for rule, name in STRATEGIES.items()}


def _percent(share: float | None, half_width: float | None = None) -> str:
    if share is None:
        return ABSENT
    return number(100 * share, ".2f", None if half_width is None else 100 * half_width)


def _rows_of(columns: Columns) -> Iterator[dict[str, Any]]:
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, values, strict=True))
