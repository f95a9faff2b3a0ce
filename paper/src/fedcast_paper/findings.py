"""The findings that open the results page: sentences whose numbers come from stored results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fedcast_paper.figures.fig7a import ITERATIONS
from fedcast_paper.over_seeds import mean_of
from fedcast_paper.planning_setting import RIVALS
from fedcast_paper.reproduction_result import Columns, Result, where
from fedcast_paper.text_tables import number, percent, rows_of
from fedcast_paper.training_setting import STRATEGIES
from fedcast_paper.verdicts import listed
from fedcast_paper.volumes import PLAN, PLAN_RATE, Place


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
    """Compare the gain of DACA at a tenth and at all of a head's samples with the paper's."""
    cells, runs = (where(result.tables[name], partition="Dir 0.1") for name in ("cells", "runs"))

    def rows(dataset: str, volume: str) -> dict[str, dict[str, Any]]:
        return {row["rule"]: row for row in rows_of(where(cells, dataset=dataset, volume=volume))}

    def gain(dataset: str, volume: str) -> str:
        row = rows(dataset, volume)["daca"]
        return number(row["gain"], "+z.2f", row["gain_half_width"])

    if any("daca" not in rows(dataset, volume) for dataset in ("mnist", "cifar10") for volume in ("10 %", "all")):
        return ""
    full = rows("cifar10", "all")
    ends = [
        f"{STRATEGIES[rule]} {number(full[rule]['accuracy'], '.1f', full[rule]['half_width'])} % (paper: "
        f"{full[rule]['paper']:.1f})"
        for rule in ("none", "daca")
    ]
    rates = " The learning rates of the two columns differ." if rows("cifar10", "10 %")["daca"]["first_rate"] else ""
    return (
        "**With a tenth of a head's samples the gains are far below the paper's; with all of them CIFAR-10's mean gain "
        "is near it, MNIST's is not.** At Dir 0.1 DACA ends above FedAvg by "
        f"{gain('mnist', '10 %')} points on MNIST and {gain('cifar10', '10 %')} on CIFAR-10 with a tenth, by "
        f"{gain('mnist', 'all')} and {gain('cifar10', 'all')} with all (paper: "
        f"{rows('mnist', 'all')['daca']['paper_gain']:+.2f} and {full['daca']['paper_gain']:+.2f}).{rates} With all, "
        f"CIFAR-10 ends at {' and '.join(ends)}, {full['daca']['seeds']} seeds. DACA minus others there: "
        f"{_differences(where(runs, dataset='cifar10', volume='all'))} (table2)."
    )


def _differences(runs: Columns) -> str:
    """List the points of DACA above each other strategy that shares, on common seeds."""
    by_seed = {
        rule: dict(zip(some["seed"], some["accuracy"], strict=True))
        for rule in STRATEGIES
        if (some := where(runs, rule=rule))["seed"]
    }
    ours = by_seed.pop("daca")
    by_seed.pop("none")
    texts = []
    for rule, theirs in by_seed.items():
        mean = mean_of(100 * (ours[seed] - theirs[seed]) for seed in ours.keys() & theirs.keys())
        texts.append(f"{STRATEGIES[rule]} {number(mean.mean, '+z.2f', mean.half_width)}")
    return ", ".join(texts)


def _parts(result: Result) -> str:
    """List what part of DACA's gain is work and what part is skew if heads share all, wherever a control was run."""
    rows = [row for row in rows_of(where(result.tables["cells"], rule="daca", volume="all")) if row["work"] is not None]
    texts = [
        f"{Place(row['dataset'], row['partition'])}: work {number(row['work'], '+z.2f', row['work_half_width'])}, skew "
        f"{number(row['skew'], '+z.2f', row['skew_half_width'])} ({row['seeds']} seeds)"
        for row in rows
    ]
    if not texts:
        return ""
    return (
        "**More work alone does not explain the final gain on MNIST.** Members that receive samples also train on "
        "more. Points that as much work gains without sharing (work), and that DACA gains beyond it (skew), after the "
        f"last round, if heads share all: {'; '.join(texts)} (table2)."
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
