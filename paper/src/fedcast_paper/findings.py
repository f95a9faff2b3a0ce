"""The findings that open the results page: sentences whose numbers come from stored results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fedcast_paper.over_seeds import mean_of
from fedcast_paper.planning_setting import METHODS, RIVALS
from fedcast_paper.reproduction_result import Columns, Result, where
from fedcast_paper.text_tables import number, rows_of
from fedcast_paper.training_setting import STRATEGIES
from fedcast_paper.volumes import Place


def findings(stored: Mapping[str, Result]) -> list[str]:
    """Return a few sentences for each finding whose result is stored."""
    return [text(stored[name]) for name, text in _FINDINGS if name in stored]


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


def _volumes(result: Result) -> str:
    """Compare the gain of DACA at a tenth and at all of a head's samples, with its parts."""
    cells = result.tables["cells"]

    def rows(dataset: str, volume: str) -> dict[str, dict[str, Any]]:
        some = where(cells, dataset=dataset, partition="Dir 0.1", volume=volume)
        return {row["rule"]: row for row in rows_of(some)}

    def gain(dataset: str, volume: str) -> str:
        row = rows(dataset, volume)["daca"]
        return number(row["gain"], "+z.2f", row["gain_half_width"])

    full = rows("cifar10", "all")
    fedavg, daca = full["none"], full["daca"]
    ours, theirs = (
        sorted((row for row in full.values() if row["paper"] is not None), key=lambda row: -row[of])
        for of in ("accuracy", "paper")
    )
    return (
        "**A tenth of a head's samples changes the final accuracy little; the paper's gains need heads that share all "
        f"they hold.** At Dir 0.1 DACA ends above FedAvg by {gain('mnist', '10 %')} points on MNIST and "
        f"{gain('cifar10', '10 %')} on CIFAR-10 with a tenth, by {gain('mnist', 'all')} and {gain('cifar10', 'all')} "
        f"with all (paper: {rows('mnist', 'all')['daca']['paper_gain']:+.2f} and {daca['paper_gain']:+.2f}). CIFAR-10 "
        f"then ends where the paper has it: FedAvg {fedavg['accuracy']:.1f}, DACA {daca['accuracy']:.1f} % (paper: "
        f"{fedavg['paper']:.1f} and {daca['paper']:.1f}; {daca['seeds']} seeds). The order, uncertain with so few "
        f"seeds, is {_ordered(ours, 'accuracy')} (paper: {_ordered(theirs, 'paper')}; table2)."
    )


def _parts(result: Result) -> str:
    """List what part of DACA's gain is work and what part is skew, wherever a control was run at all volumes."""
    rows = [row for row in rows_of(where(result.tables["cells"], rule="daca", volume="all")) if row["work"] is not None]
    texts = [
        f"{Place(row['dataset'], row['partition'])}: work {number(row['work'], '+z.2f', row['work_half_width'])}, skew "
        f"{number(row['skew'], '+z.2f', row['skew_half_width'])}"
        for row in rows
    ]
    return (
        "**Work and skew are parts of the gain.** Members do not only get less skew, they also train on more samples. "
        "Points that as much work gains without sharing (work), and that DACA gains beyond it (skew), if heads share "
        f"all: {'; '.join(texts)} (table2)."
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


_FINDINGS: tuple[tuple[str, Callable[[Result], str]], ...] = (
    ("fig1a", _skew),
    ("beyond-rounds", _sharing),
    ("table2", _volumes),
    ("table2", _parts),
    ("fig7a", _methods),
)
