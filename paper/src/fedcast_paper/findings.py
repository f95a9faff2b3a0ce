"""The findings that open the results page: sentences whose numbers come from stored results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fedcast_paper.over_seeds import mean_of
from fedcast_paper.planning_setting import METHODS, RIVALS
from fedcast_paper.reproduction_result import Columns, Result, where
from fedcast_paper.text_tables import number, rows_of
from fedcast_paper.training_setting import STRATEGIES


def findings(stored: Mapping[str, Result]) -> list[str]:
    """Return a sentence for each finding whose result is stored."""
    return [text(stored[name]) for name, text in _FINDINGS.items() if name in stored]


def _skew(result: Result) -> str:
    runs = result.tables["runs"]
    rounds = {share: where(runs, one_class_share=share)["rounds"] for share in (0.0, 0.8)}
    alike, skewed = (mean_of(some).mean for some in rounds.values())
    return (
        f"**Skew costs rounds.** FedAvg on MNIST needs {alike:.0f} rounds to 95 % if users are alike and {skewed:.0f} "
        "if 80 % of them hold one class (fig1a)."
    )


def _sharing(result: Result) -> str:
    rows = where(result.tables["strategies"], setting="80 % one-class")
    speed = {row["rule"]: row["speed_up"] for row in rows_of(rows)}
    best = max((rule for rule in speed if rule != "none"), key=lambda rule: speed[rule])
    return (
        f"**Sharing a tenth of a head's samples saves rounds.** There, with one local epoch, DACA is "
        f"{speed['daca']:.2f} times faster than FedAvg in simulated time, {STRATEGIES[best]} {speed[best]:.2f} times "
        "(beyond-rounds). More local epochs and a tuned learning rate save as many rounds without sharing; "
        "`studies/preset` measures what sharing still gains against them."
    )


def _accuracy(result: Result) -> str:
    def gain(dataset: str) -> str:
        row = next(rows_of(where(result.tables["cells"], dataset=dataset, alpha=0.1, ratio=0.1, rule="daca")))
        return f"{number(row['gain'], '+z.2f', row['gain_half_width'])} (paper: {row['paper_gain']:+.2f})"

    return (
        "**It changes the final accuracy little.** A tenth of a head's samples, Dir 0.1: DACA minus FedAvg is "
        f"{gain('mnist')} points on MNIST and {gain('cifar10')} on CIFAR-10 (table2)."
    )


def _volume(result: Result) -> str:
    cells = where(result.tables["cells"], dataset="cifar10", partition="Dir 0.1", volume="all")
    rows = {row["rule"]: row for row in rows_of(cells)}
    fedavg, daca = rows["none"], rows["daca"]
    ours, theirs = (
        sorted((row for row in rows.values() if row["paper"] is not None), key=lambda row: -row[of])
        for of in ("accuracy", "paper")
    )
    return (
        f"**The paper's gains need heads that share all they hold.** Then FedAvg ends at {fedavg['accuracy']:.1f} and "
        f"DACA at {daca['accuracy']:.1f} % on CIFAR-10 at Dir 0.1 (paper: {fedavg['paper']:.1f} and "
        f"{daca['paper']:.1f}), {daca['seeds']} seeds. Of the {daca['gain']:.1f} points {daca['work']:.1f} come from "
        f"more local work and {daca['skew']:.1f} from less skew. The order, uncertain with so "
        "few seeds, is "
        f"{_ordered(ours, 'accuracy')} (paper: {_ordered(theirs, 'paper')}; table2-volumes)."
    )


def _ordered(rows: Sequence[dict[str, Any]], of: str) -> str:
    return ", ".join(f"{STRATEGIES[row['rule']]} {row[of]:.1f}" for row in rows)


def _methods(result: Result) -> str:
    end = result.tables["end"]
    delays = {method: mean_of(where(end, method=method)["delay_s"]).mean for method in ("jfvo", *RIVALS)}
    widest = max(abs(delay / delays["jfvo"] - 1) for delay in delays.values())
    steps = ", ".join(f"{METHODS[method]} {mean_of(_iterations(end, method)).mean:.0f}" for method in delays)
    return (
        f"**JFVO, SMM and SAA find the same delay**, within {100 * widest:.2g} %; they differ in how fast they come "
        f"within 1 % of it (iterations: {steps}; fig7a)."
    )


def _iterations(end: Columns, method: str) -> list[float]:
    return [float(value) for value in where(end, method=method)["iterations"]]


_FINDINGS: dict[str, Callable[[Result], str]] = {
    "fig1a": _skew,
    "beyond-rounds": _sharing,
    "table2": _accuracy,
    "table2-volumes": _volume,
    "fig7a": _methods,
}
