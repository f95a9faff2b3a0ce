"""Stored results as tables for people: a few rows each, numbers as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fedcast_paper.over_seeds import mean_of
from fedcast_paper.result import Columns, Result, columns_of, where
from fedcast_paper.strategy_tables import Row, algorithms_table, fig4_table, rounds_table, table2_table
from fedcast_paper.wording import ABSENT, mean_text, number, percent


def summary(name: str, result: Result) -> Columns | None:
    """The table of a result, or None where its verdicts say all."""
    make = _SUMMARIES.get(name)
    return None if make is None else columns_of(make(result))


def _by(result: Result, column: str, head: str, name: Callable[[Any], str] = str) -> list[Row]:
    """Runs by one label: skew, rounds to the target, and where they ended."""
    runs = result.tables["runs"]
    rows = []
    for value in dict.fromkeys(runs[column]):
        some = where(runs, **{column: value})
        rows.append(
            {
                head: name(value),
                "average EMD": number(mean_of(some["emd_after"]).mean, ".3f"),
                "shift": number(mean_of(some["shift"]).mean, ".3f"),
                "rounds to 95 %": mean_text(some["rounds"], ".1f"),
                "mean loss": mean_text(some["mean_loss"], ".3f"),
                "final accuracy, %": mean_text([100 * value for value in some["accuracy"]], ".2f"),
            }
        )
    return rows


def _fig1a(result: Result) -> list[Row]:
    return _by(result, "one_class_share", "one-class users", lambda share: f"{share:.0%}")


def _fig1b(result: Result) -> list[Row]:
    return _by(result, "ratio", "shared", lambda ratio: f"{ratio:.0%}")


def _fig1c(result: Result) -> list[Row]:
    return _by(result, "clusters", "clusters", lambda clusters: str(clusters or "none"))


def _fig6(result: Result) -> list[Row]:
    fits = result.tables["fits"]
    return [
        {
            "runs": fits["runs"][row],
            "target": percent(fits["target"][row]),
            "form": fits["form"][row],
            "β": fits["beta"][row],
            "NMSE": number(fits["nmse"][row], ".3f"),
            "paper's NMSE": number(fits["paper_nmse"][row], ".3f"),
            "runs that met it": f"{fits['met'][row]} of {fits['of'][row]}",
        }
        for row in range(len(fits["runs"]))
    ]


def _fig5(result: Result) -> list[Row]:
    table = result.tables["average EMD"]
    return [
        {"state": state, "average EMD": f"{emd:.3f}"} for state, emd in zip(table["state"], table["emd"], strict=True)
    ]


def _beyond_drift(result: Result) -> list[Row]:
    table = result.tables["drift"]
    epochs = sorted(set(table["epochs"]))
    rows = []
    for share in sorted(set(table["one_class_share"])):
        some = {number_of: where(table, one_class_share=share, epochs=number_of)["drift"] for number_of in epochs}
        cells = {
            f"drift, E = {count}": mean_text(values, ".3f") if values else ABSENT for count, values in some.items()
        }
        rows.append({"one-class users": f"{share:.0%}", **cells})
    return rows


def _beyond_measures(result: Result) -> list[Row]:
    table = result.tables["measures"]
    order = sorted(range(len(table["measures"])), key=lambda row: (table["runs"][row], -table["explained_unseen"][row]))
    return [
        {
            "runs": table["runs"][row],
            "measures": table["measures"][row],
            "explained": f"{table['explained'][row]:z.0%}",
            "explained on a seed not seen": f"{table['explained_unseen'][row]:z.0%}",
            "slopes": table["slopes"][row],
        }
        for row in order
    ]


_SUMMARIES: dict[str, Callable[[Result], list[Row]]] = {
    "fig1a": _fig1a,
    "fig1b": _fig1b,
    "fig1c": _fig1c,
    "fig4": fig4_table,
    "table2": table2_table,
    "fig5": _fig5,
    "fig6": _fig6,
    "beyond-rounds": rounds_table,
    "beyond-algorithms": algorithms_table,
    "beyond-drift": _beyond_drift,
    "beyond-measures": _beyond_measures,
}
