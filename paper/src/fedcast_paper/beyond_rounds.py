"""Beyond the paper: rounds and simulated seconds to a target, for every strategy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from fedcast.scenario import Scenario
from fedcast_paper import fig4, table2
from fedcast_paper.courses import COLOURS
from fedcast_paper.drawing import dress, new_figure
from fedcast_paper.gains import answer, rounds_test, seeds_told, sooner_verdicts
from fedcast_paper.job import Job
from fedcast_paper.measures import LEVEL
from fedcast_paper.over_seeds import mean_of
from fedcast_paper.result import Columns, Result, Verdict, columns_of, where
from fedcast_paper.settings import (
    RATIO,
    STRATEGIES,
    assumptions,
    label_skew,
    target_of,
    task,
    under_rules,
)
from fedcast_paper.trained import Trained, check_some, trained_runs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAPER = "Not in the paper, which compares accuracy at equal rounds; its aim is the delay."
# Accuracy that strategies are raced to; under Dirichlet skew all of them pass 95 % within a few rounds.
TARGETS = {"80 % one-class": 0.95, "100 % one-class": 0.95, "Dir 0.1": 0.97, "Dir 1": 0.97, "Dir 10": 0.97}

_MNIST_ALONE = "Raced on MNIST alone: on CIFAR-10 and Shakespeare there are too few seeds to tell rounds apart."


def scenarios(job: Job) -> list[Scenario]:
    """Every strategy in every setting."""
    return [run for setting in TARGETS for run in setting_scenarios(job, setting)]


def setting_scenarios(job: Job, setting: str) -> list[Scenario]:
    """Every strategy in one setting."""
    if setting.startswith("Dir"):
        return table2.cell_scenarios(job, "mnist", float(setting.split()[1]), RATIO)
    if setting == "80 % one-class":
        return fig4.panel_scenarios(job, "mnist")
    return under_rules(job, task(job, "mnist", *label_skew(1.0)), STRATEGIES, job.seeds_or(smoke=1, full=3))


def data(job: Job) -> Result:
    """One row for each setting and strategy."""
    runs = {setting: trained_runs(job, setting_scenarios(job, setting), some=False) for setting in TARGETS}
    check_some([run for found in runs.values() for run in found])
    rows = [
        _row(setting, rule, some, fig4.by_rule(found).get("none", []), target_of(job, TARGETS[setting]))
        for setting, found in runs.items()
        for rule, some in fig4.by_rule(found).items()
    ]
    table = columns_of(rows)
    return Result(
        tables={"strategies": table},
        scenario=scenarios(job)[0].model_dump(mode="json"),
        assumptions=assumptions(
            job, [run for found in runs.values() for run in found],
            time="sharing once, then download, computing and upload of the slowest user each round; frequencies by the "
            "energy budget", rounds="100, Dirichlet: 50; means over the seeds that met the target",
        ),
        verdicts=(*_daca(job, runs), *_blend(job, runs)),
        notes=(_MNIST_ALONE, *_not_shared(runs)),
    )  # fmt: skip


def _row(setting: str, rule: str, runs: list[Trained], baseline: list[Trained], target: float) -> dict[str, Any]:
    met = [run for run in runs if run.rounds_to(target) is not None]
    rounds = mean_of(run.rounds_to(target) or 0 for run in met) if met else None
    seconds = mean_of(run.seconds_to(target) or 0.0 for run in met) if met else None
    faster = speed_up(met, baseline, target)
    return {
        "setting": setting,
        "rule": rule,
        "target": target,
        "seeds": len(runs),
        "reached": len(met),
        "rounds": rounds and rounds.mean,
        "rounds_half_width": rounds and rounds.half_width,
        "seconds": seconds and seconds.mean,
        "seconds_half_width": seconds and seconds.half_width,
        "sharing_s": mean_of(run.facts["sharing_s"] for run in runs).mean,
        "speed_up": faster and faster.mean,
        "speed_up_at_least": bool(faster and faster.at_least),
        "accuracy": mean_of(run.accuracy for run in runs).mean,
        "emd_after": mean_of(run.facts["emd_after"] for run in runs).mean,
        "shift": mean_of(run.facts["shift"] for run in runs).mean,
        "received_samples": mean_of(run.facts["received_samples"] for run in runs).mean,
    }


class SpeedUp(NamedTuple):
    """How many times sooner than FedAvg; at least so many where FedAvg did not arrive on every seed."""

    mean: float
    at_least: bool


def speed_up(runs: list[Trained], baseline: list[Trained], target: float) -> SpeedUp | None:
    """FedAvg's time to the target over that of runs that met it, geometric mean over seeds that both have.

    A run of FedAvg that never met it counts with all its rounds: it would have taken longer.
    """
    others = {run.seed: run for run in baseline}
    pairs = [(run, others[run.seed]) for run in runs if run.seed in others]
    seconds = [(_seconds_spent(own, target), _seconds_spent(other, target)) for own, other in pairs]
    # A model that meets the target before the first round takes no time, of which there is no logarithm.
    logs = [math.log(other / own) for own, other in seconds if own and other]
    at_least = any(other.rounds_to(target) is None for _, other in pairs)
    return SpeedUp(math.exp(sum(logs) / len(logs)), at_least) if logs else None


def _seconds_spent(run: Trained, target: float) -> float:
    met = run.rounds_to(target)
    rounds = len(run.curve("accuracy")) - 1 if met is None else met
    return run.facts["sharing_s"] + rounds * sum(run.facts[phase] for phase in ("download_s", "compute_s", "upload_s"))


def _not_shared(runs: dict[str, list[Trained]]) -> list[str]:
    only_fedavg = [setting for setting, some in runs.items() if {run.rule for run in some} <= {"none"}]
    return [f"{setting}: of sharing strategies none was run." for setting in only_fedavg]


def _daca(job: Job, runs: dict[str, list[Trained]]) -> list[Verdict]:
    """Whether the paper's rule is sooner there than what it is compared with."""
    return [
        verdict
        for setting, some in runs.items()
        for verdict in sooner_verdicts(
            some, "daca", ("none", "scc", "cec"), target_of(job, TARGETS[setting]), f" at {setting}"
        )
    ]


def _blend(job: Job, runs: dict[str, list[Trained]]) -> list[Verdict]:
    """Whether blend is never behind another strategy by more than seeds explain, in rounds to the target."""
    behind, said = [], []
    for setting, some in runs.items():
        target = target_of(job, TARGETS[setting])
        found = {rule: rounds_test(some, "blend", rule, target) for rule in STRATEGIES if rule != "blend"}
        tests = {rule: test for rule, test in found.items() if test is not None}
        if not tests:
            continue
        best = max(tests, key=lambda rule: tests[rule].difference.mean)
        said.append(f"{setting}: {tests[best].difference.mean:+z.1f} against {STRATEGIES[best]}")
        behind += [
            f"{STRATEGIES[rule]} at {setting}"
            for rule, test in tests.items()
            if answer(test.difference.mean, test.p_value) == "yes"
        ]
    if not said:
        return []
    evidence = f"rounds of blend minus those of the best other strategy: {', '.join(said)}"
    lost = f"; behind {', '.join(behind)} (paired t test, p < {LEVEL})" if behind else ""
    return [Verdict("blend is never behind", "no" if behind else "yes", evidence + lost)]


def draw(result: Result) -> Figure:
    """Rounds above, seconds below, a bar for each strategy; none where no seed met the target."""
    table = result.tables["strategies"]
    shared = zip(table["setting"], table["rule"], strict=True)
    settings = list(dict.fromkeys(setting for setting, rule in shared if rule != "none"))
    figure = new_figure(2.7 * len(settings), 5.2)
    grid = figure.subplots(2, len(settings), squeeze=False, sharex="col")
    for column, setting in enumerate(settings):
        rows = where(table, setting=setting)
        titles = f"{setting}, {seeds_told(rows['seeds'])}", ""
        for axes, quantity, title in zip(grid[:, column], ("rounds", "seconds"), titles, strict=True):
            _draw_bars(axes, rows, quantity)
            dress(axes, title=title, y=f"{quantity} to {100 * rows['target'][0]:g} %")
        names = [STRATEGIES[rule] for rule in rows["rule"]]
        grid[1, column].set_xticks(range(len(names)), names, rotation=45, ha="right", rotation_mode="anchor")
    return figure


def _draw_bars(axes: Axes, rows: Columns, quantity: str) -> None:
    for place, rule in enumerate(rows["rule"]):
        value, width = rows[quantity][place], rows[f"{quantity}_half_width"][place]
        if value is None:
            axes.annotate("never", (place, 0), ha="center", va="bottom", fontsize=8, rotation=90)
            continue
        axes.bar(place, value, color=COLOURS[rule], width=0.7, yerr=width, error_kw={"lw": 0.8})
    axes.set_xlim(-0.6, len(rows["rule"]) - 0.4)
