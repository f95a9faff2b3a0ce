"""Additional result: rounds and simulated seconds to a target accuracy, for every strategy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from fedcast.report import Axis, Bars, Figure, Panel, Text
from fedcast.scenario import Scenario
from fedcast_paper.figure_parts import RULE_COLOURS
from fedcast_paper.job import Job, Reproduction
from fedcast_paper.over_seeds import differences, mean_of
from fedcast_paper.reproduction_result import Columns, Result, Verdict, columns_of, where
from fedcast_paper.text_tables import Row, number, rows_of
from fedcast_paper.trained import Trained, check_some, strategy_of, trained_runs
from fedcast_paper.training_setting import (
    STRATEGIES,
    assumptions,
    label_skew,
    target_of,
    task,
    under_rules,
)
from fedcast_paper.verdicts import (
    as_family,
    fewer_rounds_verdicts,
    seeds_range,
)
from fedcast_paper.volumes import ONE_CLASS, Place, strategy_scenarios, volume_scenarios

PAPER = "Not in the paper, which compares the accuracy after equal rounds, although its aim is the delay."
WHY = (
    "Heads share a tenth unless all, or JFVO's volumes, are named. Sending a tenth takes no longer than one or two "
    "rounds, so a strategy is faster mainly because it needs fewer rounds. Larger volumes save more rounds, but "
    "sending takes longer, and so does every round of more samples. If users are nearly alike, blend shares almost "
    "nothing, and the others need a round or two less."
)
# Dirichlet skew at other volumes than a tenth, by setting.
_VOLUMES = {"Dir 0.1, JFVO": "JFVO", "Dir 0.1, all": "all"}
# Target accuracies; under Dirichlet skew all strategies reach 95 % within a few rounds.
TARGETS = {
    "80 % one-class": 0.95, "100 % one-class": 0.95, "Dir 0.1": 0.97, **dict.fromkeys(_VOLUMES, 0.97), "Dir 1": 0.97,
    "Dir 10": 0.97,
}  # fmt: skip

# Settings side by side in the figure.
_ACROSS = 4
_MNIST_ONLY = "MNIST only: on CIFAR-10 and Shakespeare there are too few seeds to compare rounds."


def scenarios(job: Job) -> list[Scenario]:
    """Return runs of every strategy in every setting."""
    return [run for setting in TARGETS for run in setting_scenarios(job, setting)]


def setting_scenarios(job: Job, setting: str) -> list[Scenario]:
    """Return runs of every strategy in one setting."""
    if setting in _VOLUMES:
        place = Place("mnist", setting.partition(",")[0])
        return [run for run in volume_scenarios(job, place, _VOLUMES[setting]) if strategy_of(run) in STRATEGIES]
    if setting.startswith("Dir"):
        return strategy_scenarios(job, Place("mnist", setting))
    if setting == "80 % one-class":
        return strategy_scenarios(job, Place("mnist", ONE_CLASS))
    return under_rules(job, task(job, "mnist", *label_skew(1.0)), STRATEGIES, job.seeds_or(smoke=1, full=3))


def _by_rule(runs: list[Trained]) -> dict[str, list[Trained]]:
    """Return the runs of each strategy, in the order of `STRATEGIES`."""
    found = {rule: [run for run in runs if run.rule == rule] for rule in STRATEGIES}
    return {rule: some for rule, some in found.items() if some}


def data(job: Job) -> Result:
    """Compute a row for each setting and strategy."""
    runs = {setting: trained_runs(job, setting_scenarios(job, setting), some=False) for setting in TARGETS}
    check_some(job, [run for found in runs.values() for run in found])
    rows = [
        _row(setting, rule, some, _by_rule(found).get("none", []), target_of(job, TARGETS[setting]))
        for setting, found in runs.items()
        for rule, some in _by_rule(found).items()
    ]
    table = columns_of(rows)
    return Result(
        tables={"strategies": table},
        scenario=scenarios(job)[0].model_dump(mode="json"),
        assumptions=assumptions(
            job, [run for found in runs.values() for run in found],
            time="sharing once, then download, computation and upload of the slowest user in each round; frequencies "
            "from the energy budget", rounds="100, Dirichlet: 50; means over the seeds that reached the target",
        ),
        verdicts=as_family(_verdicts(job, runs)),
        notes=(_MNIST_ONLY, *_not_shared(runs)),
    )  # fmt: skip


def _row(setting: str, rule: str, runs: list[Trained], baseline: list[Trained], target: float) -> dict[str, Any]:
    met = [run for run in runs if run.rounds_to(target) is not None]
    rounds = mean_of(run.rounds_to(target) or 0 for run in met) if met else None
    seconds = mean_of(run.seconds_to(target) or 0.0 for run in met) if met else None
    faster = speed_up(met, baseline, target)
    saved = differences(baseline, runs, lambda run: run.rounds_to(target)) if rule != "none" else []
    fewer = mean_of(saved) if saved else None
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
        "saved_rounds": fewer and fewer.mean,
        "saved_rounds_half_width": fewer and fewer.half_width,
        "sharing_s": mean_of(run.facts["sharing_s"] for run in runs).mean,
        "speed_up": faster and faster.mean,
        "speed_up_low": faster and faster.low,
        "speed_up_high": faster and faster.high,
        "speed_up_at_least": bool(faster and faster.at_least),
        "accuracy": mean_of(run.accuracy for run in runs).mean,
        "emd_after": mean_of(run.facts["emd_after"] for run in runs).mean,
        "shift": mean_of(run.facts["shift"] for run in runs).mean,
        "received_samples": mean_of(run.facts["received_samples"] for run in runs).mean,
    }


class SpeedUp(NamedTuple):
    """Speed-up over FedAvg; a lower bound, without interval, if FedAvg did not reach the target on every seed."""

    mean: float
    at_least: bool
    low: float | None = None  #: lower end of the 95 % confidence interval
    high: float | None = None


def speed_up(runs: list[Trained], baseline: list[Trained], target: float) -> SpeedUp | None:
    """Return the time of FedAvg to the target divided by that of runs that reached it, as geometric mean over seeds.

    A run of FedAvg that never reached it counts with all its rounds, which gives a lower bound.
    """
    others = {run.seed: run for run in baseline}
    pairs = [(run, others[run.seed]) for run in runs if run.seed in others]
    seconds = [(_seconds_spent(own, target), _seconds_spent(other, target)) for own, other in pairs]
    # A model that reaches the target before the first round takes no time, which has no logarithm.
    logs = [math.log(other / own) for own, other in seconds if own and other]
    at_least = any(other.rounds_to(target) is None for _, other in pairs)
    if not logs:
        return None
    log = mean_of(logs)
    if at_least or log.half_width is None:
        return SpeedUp(math.exp(log.mean), at_least)
    low, high = log.mean - log.half_width, log.mean + log.half_width
    return SpeedUp(math.exp(log.mean), at_least, math.exp(low), math.exp(high))


def _seconds_spent(run: Trained, target: float) -> float:
    met = run.rounds_to(target)
    rounds = len(run.curve("accuracy")) - 1 if met is None else met
    return run.facts["sharing_s"] + rounds * run.round_s


def _not_shared(runs: dict[str, list[Trained]]) -> list[str]:
    only_fedavg = [setting for setting, some in runs.items() if {run.rule for run in some} <= {"none"}]
    return [f"{setting}: no sharing strategy was run." for setting in only_fedavg]


def _verdicts(job: Job, runs: dict[str, list[Trained]]) -> list[Verdict]:
    """Judge whether DACA needs fewer rounds than its rivals in the paper, and whether blend needs fewer than DACA."""
    rivals = {"daca": ("none", "scc", "cec"), "blend": ("daca",)}
    return [
        verdict
        for rule, others in rivals.items()
        for setting, some in runs.items()
        for verdict in fewer_rounds_verdicts(some, rule, others, target_of(job, TARGETS[setting]), f" at {setting}")
    ]


def draw(result: Result) -> Figure:
    """Draw rounds and seconds to the target, a bar for each strategy; no bar if no seed reached it."""
    table = result.tables["strategies"]
    settings = list(dict.fromkeys(row["setting"] for row in rows_of(table) if row["rule"] != "none"))
    rows: list[list[Panel]] = []
    for first in range(0, len(settings), _ACROSS):
        columns = [_panels(where(table, setting=setting)) for setting in settings[first : first + _ACROSS]]
        rows += map(list, zip(*columns, strict=True))
    return Figure(rows, width=240.0 * min(_ACROSS, len(settings)))


def _panels(rows: Columns) -> list[Panel]:
    names = [STRATEGIES[rule] for rule in rows["rule"]]
    limits = (-0.6, len(names) - 0.4)
    panels = []
    for quantity in ("rounds", "seconds"):
        x = Axis(limits=limits, ticks=range(len(names)), tick_labels=names)
        title = f"{rows['setting'][0]}, {seeds_range(rows['seeds'])}" if quantity == "rounds" else ""
        y = Axis(f"{quantity} to {100 * rows['target'][0]:g} %", (0, None))
        panels.append(Panel(_bars(rows, quantity), x, y, title))
    return panels


def _bars(rows: Columns, quantity: str) -> list[Bars | Text]:
    marks: list[Bars | Text] = []
    for place, row in enumerate(rows_of(rows)):
        if row[quantity] is None:
            marks.append(Text(place, 0, "never", dx=3, dy=-3, rotate=90))
            continue
        error = [row[f"{quantity}_half_width"] or 0.0]
        marks.append(Bars([place], [row[quantity]], RULE_COLOURS[row["rule"]], width=0.7, error=error))
    return marks


def summary(result: Result) -> list[Row]:
    """Return rounds and seconds of every strategy to the target, and how it changed the data."""
    return [
        {
            "setting": f"{row['setting']}, to {row['target']:.0%}",
            "strategy": STRATEGIES[row["rule"]],
            "reached": f"{row['reached']} of {row['seeds']}",
            "rounds": number(row["rounds"], ".1f", row["rounds_half_width"]),
            "seconds": number(row["seconds"], ".0f", row["seconds_half_width"]),
            "fewer than FedAvg": number(row["saved_rounds"], "z.1f", row["saved_rounds_half_width"]),
            "speed-up over FedAvg": speed_up_text(row),
            "average EMD": number(row["emd_after"], ".3f"),
            "shift": number(row["shift"], ".3f"),
            "samples received, all users": number(row["received_samples"], ",.0f"),
        }
        for row in rows_of(result.tables["strategies"])
    ]


def speed_up_text(row: Mapping[str, Any]) -> str:
    """Return the speed-up of a row with its interval, or as a lower bound."""
    if row["speed_up_at_least"]:
        return f"> {row['speed_up']:.2f}"
    interval = "" if row["speed_up_low"] is None else f" ({row['speed_up_low']:.2f} to {row['speed_up_high']:.2f})"
    return number(row["speed_up"], ".2f") + interval


REPRODUCTION = Reproduction(
    "rounds and seconds to a target", PAPER, WHY, data, draw, scenarios=scenarios, summary=summary
)
