"""The findings that open the results page: sentences whose numbers come from stored results."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fedcast_paper.figures.fig7a import ITERATIONS
from fedcast_paper.over_seeds import mean_of
from fedcast_paper.planning_setting import RIVALS
from fedcast_paper.reproduction_result import Columns, Result, columns_of, where
from fedcast_paper.text_tables import ABSENT, markdown_table, number, percent, rows_of, unbroken
from fedcast_paper.training_setting import DATASETS, STRATEGIES
from fedcast_paper.verdicts import listed
from fedcast_paper.volumes import PLAN, PLAN_RATE

# The volumes that findings name.
_SHARED = {"10 %": "a tenth", "all": "all", "JFVO": "JFVO"}
# The strategies of the paper that share, with which it compares DACA.
_OTHERS = ("scc", "cec", "central")


def findings(stored: Mapping[str, Result]) -> list[str]:
    """Return a few sentences for each finding whose result is stored and has what the finding compares."""
    return [found for name, text in _FINDINGS if name in stored and (found := text(stored[name]))]


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
    speed = {row["rule"]: row["speed_up"] for row in rows_of(rows) if row["rule"] != "none"}
    best = sorted(speed, key=lambda rule: -speed[rule])
    against = "DACA needs fewer rounds than FedAvg at Dir"
    dirichlet = [verdict.holds for verdict in result.verdicts if verdict.claim.startswith(against)]
    return (
        "**Sharing a tenth of a head's samples saves rounds if most users hold one class.** On MNIST with 80 % "
        "one-class users and one local epoch it is faster than FedAvg in simulated time by a factor of "
        f"{', '.join(f'{speed[rule]:.2f} ({STRATEGIES[rule]})' for rule in best)}. Under Dirichlet skew DACA's saving "
        f"of rounds is significant in {dirichlet.count('yes')} of {len(dirichlet)} settings (beyond-rounds). More "
        "local epochs and a tuned learning rate save more rounds without sharing; `studies/preset` measures what "
        "sharing still gains against them."
    )


def _volumes(result: Result) -> str:
    """Compare the gain of DACA at several volumes with the paper's, and with that of other strategies."""
    cells, runs = (where(result.tables[name], partition="Dir 0.1") for name in ("cells", "runs"))
    daca = {(row["dataset"], row["volume"]): row for row in rows_of(where(cells, rule="daca"))}
    datasets = ("mnist", "cifar10")
    if not {(dataset, volume) for dataset in datasets for volume in _SHARED} <= daca.keys():
        return ""
    rates = " With a tenth CIFAR-10 has another learning rate." if daca["cifar10", "10 %"]["first_rate"] else ""
    rows = [
        row
        for dataset in datasets
        for row in _gain_rows(DATASETS[dataset], where(cells, dataset=dataset), where(runs, dataset=dataset))
    ]
    table = textwrap.indent(markdown_table(columns_of(rows)), "  ")
    return (
        "**With a tenth of a head's samples the gains are far below the paper's; with all of them, or with JFVO's "
        "volumes, CIFAR-10's mean gain over three seeds is near it, but its interval contains 0; MNIST's is not near "
        f"it.** {_cifar10(where(runs, dataset='cifar10', volume='JFVO'), daca['cifar10', 'JFVO'])}{rates} Points at "
        f"Dir 0.1 after the last round (table2; the strategies share different amounts):\n\n{table}"
    )


def _cifar10(runs: Columns, daca: Mapping[str, Any]) -> str:
    """Say between which accuracies the seeds of CIFAR-10 end with JFVO's volumes, and what DACA gains on each."""
    ends = []
    for rule, text in (("none", "FedAvg"), ("daca", "DACA with JFVO's volumes")):
        found = [100 * accuracy for accuracy in where(runs, rule=rule)["accuracy"]]
        ends.append(f"{text} between {min(found):.1f} and {max(found):.1f} %")
    gains = ", ".join(f"{gain:+.1f}" for gain in _above(runs, "daca", "none"))
    return (
        f"CIFAR-10 ends with {', '.join(ends)} (paper: {daca['paper'] - daca['paper_gain']:.1f} and "
        f"{daca['paper']:.1f}); by seed DACA gains {gains}."
    )


def _gain_rows(dataset: str, cells: Columns, runs: Columns) -> Iterator[dict[str, str]]:
    """Yield DACA's gain, its parts, and DACA against others: a row for each volume, and one of the paper."""
    for volume, shared in _SHARED.items():
        (row,) = rows_of(where(cells, volume=volume, rule="daca"))
        parts = [number(row[part], "+z.2f", row[f"{part}_half_width"]) for part in ("gain", "work", "skew")]
        others = [_difference(where(runs, volume=volume), rule) for rule in _OTHERS]
        yield _gain_row(f"{dataset}, {shared}", *parts, *others, f"{row['average_sharing_ratio']:.2f}")
    printed = {row["rule"]: row["paper"] for row in rows_of(where(cells, volume="all"))}
    gain, *others = (number(printed["daca"] - printed[rule], "+z.2f") for rule in ("none", *_OTHERS))
    yield _gain_row(f"{dataset}, the paper", gain, ABSENT, ABSENT, *others, ABSENT)


def _gain_row(*texts: str) -> dict[str, str]:
    against = (f"DACA − {STRATEGIES[rule]}" for rule in _OTHERS)
    names = ("shared", "DACA − FedAvg", "of it by more work", "beyond more work", *against, "average sharing ratio")
    return dict(zip(names, map(unbroken, texts), strict=True))


def _difference(runs: Columns, rule: str) -> str:
    """Return the points of DACA above another strategy, on common seeds."""
    points = _above(runs, "daca", rule)
    mean = mean_of(points) if points else None
    return number(mean and mean.mean, "+z.2f", mean and mean.half_width)


def _above(runs: Columns, rule: str, other: str) -> list[float]:
    """Return the points of one strategy above another on each seed that both have."""
    ones, others = (
        dict(zip(some["seed"], some["accuracy"], strict=True)) for some in (where(runs, rule=r) for r in (rule, other))
    )
    return [100 * (ones[seed] - others[seed]) for seed in sorted(ones.keys() & others.keys())]


def _parts(result: Result) -> str:
    """Say what the work control shows of DACA's gain on MNIST if heads share all."""
    rows = where(result.tables["cells"], dataset="mnist", partition="Dir 0.1", rule="daca", volume="all")
    if not rows["rule"] or rows["work"][0] is None:
        return ""
    (row,) = rows_of(rows)
    return (
        "**More work alone does not explain the final gain on MNIST.** Members that receive samples also train on "
        "more. As much work on their own samples (the work control) gains "
        f"{number(row['work'], '+z.2f', row['work_half_width'])} points at Dir 0.1 if heads share all ({row['seeds']} "
        "seeds). On CIFAR-10 neither part is settled: the intervals of both contain 0."
    )


def _tuned(result: Result) -> str:
    """Compare FedAvg at the learning rate of the plan with the plan, and with the best strategy if heads share all."""
    cells = where(result.tables["cells"], dataset="mnist", partition="Dir 0.1")
    planned = {row["rule"]: row for row in rows_of(where(cells, volume=PLAN))}
    full = [row for row in rows_of(where(cells, volume="all")) if row["rule"] in STRATEGIES]
    if "best" not in planned or not full:
        return ""
    best, fedavg, plan = max(full, key=lambda row: row["accuracy"]), planned["none"], planned["best"]
    return (
        "**A larger learning rate gains as much as sharing everything.** On MNIST at Dir 0.1 FedAvg ends at "
        f"{number(fedavg['accuracy'], '.2f', fedavg['half_width'])} % with learning rate {PLAN_RATE:g} and its best "
        f"number of local epochs ({fedavg['local_epochs']:.1f} on average); with 0.05 and one local epoch, the best "
        f"strategy that shares all ends at {best['accuracy']:.2f} % ({STRATEGIES[best['rule']]}). At the larger rate "
        f"fedcast's plan adds {number(plan['gain'], '+z.2f', plan['gain_half_width'])} points ({plan['seeds']} seeds) "
        f"at an average sharing ratio of {plan['average_sharing_ratio']:.2f} (table2)."
    )


def _methods(result: Result) -> str:
    end = result.tables["end"]
    delays = {method: mean_of(where(end, method=method)["delay_s"]).mean for method in ("jfvo", *RIVALS)}
    widest = max(abs(delay / delays["jfvo"] - 1) for delay in delays.values())
    steps = []
    for near, column in ITERATIONS.items():
        means = {method: mean_of(map(float, where(end, method=method)[column])).mean for method in delays}
        steps.append(f"{percent(near)}: {listed(means, '.0f')}")
    return (
        f"**JFVO, SMM and SAA find the same delay**, within {100 * widest:.2g} % on average; they differ in the "
        f"iterations after which they stay close to it (within {'; within '.join(steps)}; fig7a)."
    )


_FINDINGS: tuple[tuple[str, Callable[[Result], str]], ...] = (
    ("fig1a", _skew),
    ("beyond-rounds", _sharing),
    ("table2", _volumes),
    ("table2", _parts),
    ("table2", _tuned),
    ("fig7a", _methods),
)
