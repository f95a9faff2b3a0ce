"""Stored results as tables for people: a few rows each, numbers as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fedcast.study.reproduce.gains import seed_count
from fedcast.study.reproduce.over_seeds import mean_of
from fedcast.study.reproduce.result import Columns, Result, columns_of, where
from fedcast.study.reproduce.settings import DATASETS, STRATEGIES

Row = dict[str, str]
ABSENT = "–"


def summary(name: str, result: Result) -> Columns | None:
    """The table of a result, or None where its verdicts say all."""
    make = _SUMMARIES.get(name)
    return None if make is None else columns_of(make(result))


def number(value: float | None, form: str, half_width: float | None = None) -> str:
    """A number with its interval, or a dash.

    Example:
        >>> number(97.418, ".2f", 0.111), number(None, ".2f")
        ('97.42 ± 0.11', '–')
    """
    if value is None:
        return ABSENT
    return f"{value:{form}}" + ("" if half_width is None else f" ± {half_width:{form.lstrip('+')}}")


def mean_text(values: Sequence[float | None], form: str) -> str:
    """The mean of the values that are there, with its interval, and how many are not.

    Example:
        >>> mean_text([30.0, 32.0, None], ".1f")
        '31.0 ± 12.7 (1 of 3 never)'
    """
    known = [value for value in values if value is not None]
    if not known:
        return "never"
    mean = mean_of(known)
    missing = f" ({len(values) - len(known)} of {len(values)} never)" if len(known) < len(values) else ""
    return number(mean.mean, form, mean.half_width) + missing


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


def _fig4(result: Result) -> list[Row]:
    from fedcast.study.reproduce.fig4 import PANELS

    ends = result.tables["ends"]
    rows = []
    for panel in dict.fromkeys(ends["panel"]):
        some = where(ends, panel=panel)
        cells = zip(some["rule"], some["accuracy"], some["accuracy_half_width"], strict=True)
        found = {rule: number(100 * mean, ".2f", width and 100 * width) for rule, mean, width in cells}
        size = f"{some['rounds'][0]} rounds, {seed_count(max(some['seeds']))}"
        rows.append({"accuracy, %": f"{PANELS[panel]} ({size})", **_strategies(found)})
        rows.append({"accuracy, %": "samples received", **_volumes(some)})
    return rows


def _table2(result: Result) -> list[Row]:
    cells = result.tables["cells"]
    rows = []
    for dataset, alpha, ratio in dict.fromkeys(zip(cells["dataset"], cells["alpha"], cells["ratio"], strict=True)):
        some = where(cells, dataset=dataset, alpha=alpha, ratio=ratio)
        ours = zip(some["rule"], some["accuracy"], some["half_width"], strict=True)
        setting = f"{DATASETS[dataset]}, Dir {alpha:g}, {ratio:.0%}"
        rows.append(
            {"accuracy, %": setting, "whose": f"ours, {seed_count(max(some['seeds']))}"}
            | _strategies({rule: number(mean, ".2f", width) for rule, mean, width in ours})
        )
        if any(some["paper"]):
            for whose, column, form in (("paper", "paper", ".2f"), ("difference", "difference", "+.2f")):
                found = dict(zip(some["rule"], some[column], strict=True))
                texts = {rule: number(value, form) for rule, value in found.items()}
                rows.append({"accuracy, %": "", "whose": whose} | _strategies(texts))
        rows.append({"accuracy, %": "", "whose": "samples received"} | _volumes(some))
    return rows


def _volumes(rows: Columns) -> Row:
    """What sharing came to under each strategy, all users together."""
    received = zip(rows["rule"], rows["received_samples"], strict=True)
    return _strategies({rule: number(samples, ",.0f") for rule, samples in received})


def _strategies(found: dict[str, str]) -> Row:
    return {name: found.get(rule, ABSENT) for rule, name in STRATEGIES.items()}


def _fig6(result: Result) -> list[Row]:
    fits = result.tables["fits"]
    return [
        {
            "runs": fits["runs"][row],
            "target": f"{fits['target'][row]:g}",
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


def _beyond_rounds(result: Result) -> list[Row]:
    table = result.tables["strategies"]
    rows = [{name: column[row] for name, column in table.items()} for row in range(len(table["rule"]))]
    return [
        {
            "setting": f"{row['setting']}, to {row['target']:.0%}",
            "strategy": STRATEGIES[row["rule"]],
            "reached": f"{row['reached']} of {row['seeds']}",
            "rounds": number(row["rounds"], ".1f", row["rounds_half_width"]),
            "seconds": number(row["seconds"], ".0f", row["seconds_half_width"]),
            "times sooner than FedAvg": number(row["speed_up"], ".2f"),
            "average EMD": number(row["emd_after"], ".3f"),
            "shift": number(row["shift"], ".3f"),
            "samples received": number(row["received_samples"], ",.0f"),
        }
        for row in rows
    ]


def _beyond_algorithms(result: Result) -> list[Row]:
    from fedcast.study.reproduce.beyond_algorithms import ALGORITHMS

    ends = result.tables["ends"]
    rows = [{name: column[row] for name, column in ends.items()} for row in range(len(ends["rule"]))]
    return [
        {
            "algorithm": ALGORITHMS[row["algorithm"]],
            "sharing": "none" if row["rule"] == "none" else STRATEGIES[row["rule"]],
            "rounds to 95 %": number(row["rounds"], ".1f") if row["reached"] else "never",
            "reached": f"{row['reached']} of {row['seeds']}",
            "final accuracy, %": number(
                100 * row["accuracy"], ".2f", row["accuracy_half_width"] and 100 * row["accuracy_half_width"]
            ),
        }
        for row in rows
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
            "explained": f"{table['explained'][row]:.0%}",
            "explained on a seed not seen": f"{table['explained_unseen'][row]:.0%}",
            "slopes": table["slopes"][row],
        }
        for row in order
    ]


_SUMMARIES: dict[str, Callable[[Result], list[Row]]] = {
    "fig1a": _fig1a,
    "fig1b": _fig1b,
    "fig1c": _fig1c,
    "fig4": _fig4,
    "table2": _table2,
    "fig5": _fig5,
    "fig6": _fig6,
    "beyond-rounds": _beyond_rounds,
    "beyond-algorithms": _beyond_algorithms,
    "beyond-drift": _beyond_drift,
    "beyond-measures": _beyond_measures,
}
