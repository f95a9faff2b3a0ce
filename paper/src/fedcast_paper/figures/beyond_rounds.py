"""Additional result: rounds and simulated seconds to a target accuracy, for every strategy."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fedcast.formatting import pluralize
from fedcast.report import Axis, Bars, Dots, Figure, Level, Panel, Text
from fedcast.scenario import Scenario
from fedcast_paper.figure_parts import RULE_COLOURS
from fedcast_paper.job import Job, Reproduction
from fedcast_paper.over_seeds import differences, mean_of, pairs_by_seed
from fedcast_paper.reproduction_result import Result, Verdict, columns_of
from fedcast_paper.text_tables import ABSENT, Row, number, rows_of, unbroken
from fedcast_paper.trained import Failure, Trained, check_some, failures, strategy_of, trained_runs
from fedcast_paper.training_setting import CONTROLS, STRATEGIES, assumptions, label_skew, target_of, task, under_rules
from fedcast_paper.verdicts import as_family, fewer_rounds_verdicts, seeds_range
from fedcast_paper.volume_tables import JUDGED, failure_notes
from fedcast_paper.volumes import NAMES, ONE_CLASS, PLAN, PLAN_RATE, TENTH, Place, volume_scenarios

PAPER = "Not in the paper, which compares the accuracy after equal rounds, although its aim is the delay."
WHY = (
    "Sending a tenth takes no longer than one or two rounds, so a strategy is faster mainly because it needs fewer "
    "rounds. Larger volumes save more rounds, but sending takes longer, and so does every round of more samples: if "
    "heads share all, central is faster than DACA. At Dir 0.1 few of the rounds that DACA saves are saved by the work "
    "control, about half by the epochs control; if heads share all, DACA is not measurably faster than the latter. At "
    "Dir 1 and 10 the work control saves about as many rounds as DACA, so that no effect beyond more work is measured. "
    "DACA is faster than CEC in some settings and slower in others; no difference from it in rounds is significant. A "
    "larger learning rate saves more than sharing does here. If users are nearly alike, blend shares almost nothing, "
    "and the others save a round or two."
)


class Setting(NamedTuple):
    """The skew of the users, what heads share, and the target accuracy."""

    skew: str
    volume: str
    target: float

    def __str__(self) -> str:
        """Return skew and volume in words."""
        return f"{self.skew}, {self.volume}"

    @property
    def ending(self) -> str:
        """The end of a claim on this setting."""
        return f" at {self.skew}, {JUDGED[self.volume]}"


EVERYBODY = "100 % one-class users"
# Under Dirichlet skew all strategies reach 95 % within a few rounds.
SETTINGS = (
    Setting(ONE_CLASS, TENTH, 0.95),
    Setting(EVERYBODY, TENTH, 0.95),
    Setting("Dir 0.1", TENTH, 0.97),
    Setting("Dir 0.1", "all", 0.97),
    Setting("Dir 0.1", "JFVO", 0.97),
    Setting("Dir 0.1", PLAN, 0.97),
    Setting("Dir 1", TENTH, 0.97),
    Setting("Dir 10", TENTH, 0.97),
)
# Settings side by side in the figure.
_ACROSS = 4
_MNIST_ONLY = "MNIST only, where most settings have five seeds."
SPEED_CAPTION = (
    "Speed-up over FedAvg: its simulated time to 95 % accuracy (under Dirichlet skew 97 %) divided by the strategy's, "
    "both with one local epoch and learning rate 0.05, paired by seed, as geometric mean. ≥: FedAvg did not reach the "
    "target on every seed and counts there with all its rounds, so that the mean on these seeds is larger."
)
RIVALS_CAPTION = (
    "Speed of DACA relative to the others: their time to the target divided by DACA's. Above 1 DACA is faster."
)
DETAILS = "rounds, simulated seconds and skew of every strategy"


def scenarios(job: Job) -> list[Scenario]:
    """Return runs of every strategy in every setting."""
    return [run for setting in SETTINGS for run in setting_scenarios(job, setting)]


def setting_scenarios(job: Job, setting: Setting) -> list[Scenario]:
    """Return runs of every strategy, and of the controls that are trained, in one setting."""
    if setting.skew == EVERYBODY:
        return everybody_scenarios(job)
    return volume_scenarios(job, Place("mnist", setting.skew), setting.volume)


def everybody_scenarios(job: Job) -> list[Scenario]:
    """Return runs of every strategy if all users hold one class."""
    return under_rules(job, task(job, "mnist", *label_skew(1.0)), STRATEGIES, job.seeds_or(smoke=1, full=3))


def data(job: Job) -> Result:
    """Compute a row for each setting and strategy, and one for each other strategy that DACA is compared with."""
    runs = {setting: trained_runs(job, setting_scenarios(job, setting), some=False) for setting in SETTINGS}
    failed = {setting: failures(job, setting_scenarios(job, setting)) for setting in SETTINGS}
    every = [run for found in runs.values() for run in found]
    check_some(job, every)
    rows = [row for setting in SETTINGS for row in _setting_rows(job, setting, runs, failed[setting])]
    rivals = [row for setting, found in runs.items() for row in _rival_rows(job, setting, found)]
    return Result(
        tables={"strategies": columns_of(rows), **({"rivals": columns_of(rivals)} if rivals else {})},
        scenario=scenarios(job)[0].model_dump(mode="json"),
        assumptions=assumptions(
            job, every, time="sharing once, then download, computation and upload of the slowest user in each round; "
            "frequencies from the energy budget", rounds="100, Dirichlet: 50; means over the seeds that reached the "
            "target", plan=f"FedAvg and fedcast's plan, both with learning rate {PLAN_RATE:g} and the local epochs "
            "that the law of rounds prefers (table2)",
        ),
        verdicts=as_family(_verdicts(job, runs)),
        notes=(_MNIST_ONLY, *_plan_notes(rows, rivals), *_not_shared(runs), *failure_notes(failed)),
    )  # fmt: skip


def _setting_rows(
    job: Job, setting: Setting, runs: Mapping[Setting, list[Trained]], failed: Iterable[Failure]
) -> Iterable[dict[str, Any]]:
    """Yield a row for each strategy of a setting, compared with FedAvg at the learning rate of all other settings."""
    first = next(one for one in SETTINGS if one.skew == setting.skew)
    fedavg = _of(runs[first], "none")
    lost = Counter(strategy_of(run.scenario) for run in failed)
    for rule in NAMES:
        if some := _of(runs[setting], rule):
            is_baseline = rule == "none" and setting.volume != PLAN
            row = _row(setting, rule, some, [] if is_baseline else fedavg, target_of(job, setting.target))
            yield row | {"failed": lost[rule]}


def _of(runs: Iterable[Trained], rule: str) -> list[Trained]:
    return [run for run in runs if run.rule == rule]


def _row(setting: Setting, rule: str, runs: list[Trained], baseline: list[Trained], target: float) -> dict[str, Any]:
    met = [run for run in runs if run.rounds_to(target) is not None]
    rounds = mean_of(run.rounds_to(target) or 0 for run in met) if met else None
    seconds = mean_of(run.seconds_to(target) or 0.0 for run in met) if met else None
    saved = differences(baseline, runs, lambda run: run.rounds_to(target))
    fewer = mean_of(saved) if saved else None
    return {
        "setting": str(setting),
        "volume": setting.volume,
        "rule": rule,
        "learning_rate": runs[0].scenario.training.learning_rate,
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
        **_speed_columns(speed_up(met, baseline, target)),
        "accuracy": mean_of(run.accuracy for run in runs).mean,
        "emd_after": mean_of(run.facts["emd_after"] for run in runs).mean,
        "shift": mean_of(run.facts["shift"] for run in runs).mean,
        "received_samples": mean_of(run.facts["received_samples"] for run in runs).mean,
    }


def _rival_rows(job: Job, setting: Setting, runs: Sequence[Trained]) -> Iterable[dict[str, Any]]:
    """Yield the speed of DACA relative to all others but FedAvg, and of the plan relative to FedAvg at its rate."""
    target = target_of(job, setting.target)
    own, others = ("best", ["none"]) if setting.volume == PLAN else ("daca", [rule for rule in NAMES if rule != "none"])
    met = [run for run in _of(runs, own) if run.rounds_to(target) is not None]
    for rule in others:
        if rule != own and (faster := speed_up(met, _of(runs, rule), target)):
            yield {"setting": str(setting), "of": own, "rule": rule, **_speed_columns(faster)}


def _speed_columns(found: SpeedUp | None) -> dict[str, Any]:
    return {
        "speed_up": found and found.mean,
        "speed_up_low": found and found.low,
        "speed_up_high": found and found.high,
        "speed_up_at_least": bool(found and found.at_least),
        "speed_up_seeds": found.seeds if found else 0,
    }


class SpeedUp(NamedTuple):
    """A ratio of times; a lower bound, without interval, if the slower one did not reach the target on every seed."""

    mean: float
    at_least: bool
    seeds: int
    low: float | None = None  #: lower end of the 95 % confidence interval
    high: float | None = None


def speed_up(runs: list[Trained], others: list[Trained], target: float) -> SpeedUp | None:
    """Return the time of others to the target divided by that of runs that reached it, as geometric mean over seeds.

    One of the others that never reached it counts with all its rounds, which gives a lower bound.
    """
    pairs = pairs_by_seed(runs, others)
    seconds = [(_seconds_spent(own, target), _seconds_spent(other, target)) for own, other in pairs]
    # A model that reaches the target before the first round takes no time, which has no logarithm.
    logs = [math.log(other / own) for own, other in seconds if own and other]
    at_least = any(other.rounds_to(target) is None for _, other in pairs)
    if not logs:
        return None
    log = mean_of(logs)
    if at_least or log.half_width is None:
        return SpeedUp(math.exp(log.mean), at_least, log.seeds)
    low, high = log.mean - log.half_width, log.mean + log.half_width
    return SpeedUp(math.exp(log.mean), at_least, log.seeds, math.exp(low), math.exp(high))


def _seconds_spent(run: Trained, target: float) -> float:
    met = run.rounds_to(target)
    rounds = len(run.curve("accuracy")) - 1 if met is None else met
    return run.facts["sharing_s"] + rounds * run.round_s


def _plan_notes(rows: Iterable[Mapping[str, Any]], rivals: Iterable[Mapping[str, Any]]) -> list[str]:
    """Compare FedAvg at the learning rate of the plan with FedAvg at that of all others, and the plan with it."""
    tuned = {row["setting"]: row for row in rows if row["rule"] == "none" and row["speed_up"] is not None}
    plans = [(tuned[row["setting"]], row) for row in rivals if row["of"] == "best" and row["setting"] in tuned]
    return [
        f"{plan['setting']}: FedAvg with learning rate {fedavg['learning_rate']:g} is {speed_up_text(fedavg)} times as "
        f"fast as with that of the other settings, and the plan, which minimises the time to 95 %, is "
        f"{speed_up_text(plan)} times as fast as that with the same rate ({pluralize(plan['speed_up_seeds'], 'seed')})."
        for fedavg, plan in plans
    ]


def _not_shared(runs: Mapping[Setting, Sequence[Trained]]) -> list[str]:
    only_fedavg = [setting for setting, some in runs.items() if {run.rule for run in some} <= {"none"}]
    return [f"{setting}: no sharing strategy was run." for setting in only_fedavg]


def _verdicts(job: Job, runs: Mapping[Setting, Sequence[Trained]]) -> list[Verdict]:
    """Judge whether DACA needs fewer rounds than its rivals in the paper, and whether blend needs fewer than DACA."""
    rivals = {"daca": ("none", "scc", "cec"), "blend": ("daca",)}
    return [
        verdict
        for rule, others in rivals.items()
        for setting, some in runs.items()
        if setting.volume in JUDGED
        for verdict in fewer_rounds_verdicts(some, rule, others, target_of(job, setting.target), setting.ending)
    ]


def draw(result: Result) -> Figure:
    """Draw rounds to the target and speed-up over FedAvg of each strategy, the controls left out."""
    rows = [row for row in rows_of(result.tables["strategies"]) if row["rule"] not in CONTROLS]
    settings = list(dict.fromkeys(row["setting"] for row in rows if row["rule"] != "none"))
    ends = [row[name] for row in rows for name in ("speed_up", "speed_up_low", "speed_up_high") if row[name]]
    limits = (min([1.0, *ends]) - 0.05, max([1.0, *ends]) + 0.05)
    columns = [_panels([row for row in rows if row["setting"] == setting], limits) for setting in settings]
    panels: list[list[Panel]] = []
    for first in range(0, len(columns), _ACROSS):
        panels += map(list, zip(*columns[first : first + _ACROSS], strict=True))
    return Figure(panels, width=260.0 * min(_ACROSS, len(settings)))


def _panels(rows: Sequence[Mapping[str, Any]], limits: tuple[float, float]) -> tuple[Panel, Panel]:
    """Return panels of rounds and of speed-up, which has the same limits in all settings."""
    tuned = rows[0]["volume"] == PLAN
    names = [
        f"FedAvg, {row['learning_rate']:g}" if tuned and row["rule"] == "none" else NAMES[row["rule"]] for row in rows
    ]
    x = Axis(limits=(-0.6, len(names) - 0.4), ticks=range(len(names)), tick_labels=names)
    title = f"{rows[0]['setting']}, {seeds_range(row['seeds'] for row in rows)}"
    bound = ", at least" if any(row["speed_up_at_least"] for row in rows) else ""
    rounds = Axis(f"rounds to {100 * rows[0]['target']:g} % accuracy", (0, None))
    speed = Axis(f"speed-up over FedAvg{bound}, 95 % intervals", limits)
    return Panel(_bars(rows), x, rounds, title), Panel([Level(1.0), *_dots(rows)], x, speed)


def _bars(rows: Iterable[Mapping[str, Any]]) -> list[Bars | Text]:
    """Return a bar for each strategy; a word if no seed reached the target."""
    marks: list[Bars | Text] = []
    for place, row in enumerate(rows):
        if row["rounds"] is None:
            marks.append(Text(place, 0, "never", dx=3, dy=-3, rotate=90))
            continue
        error = [row["rounds_half_width"] or 0.0]
        marks.append(Bars([place], [row["rounds"]], RULE_COLOURS[row["rule"]], width=0.7, error=error))
    return marks


def _dots(rows: Iterable[Mapping[str, Any]]) -> list[Dots]:
    """Return the speed-up of each strategy with its interval."""
    return [
        Dots(
            [place], [row["speed_up"]], RULE_COLOURS[row["rule"]], radius=2.8,
            low=[row["speed_up_low"] or row["speed_up"]], high=[row["speed_up_high"] or row["speed_up"]],
        )
        for place, row in enumerate(rows)
        if row["speed_up"] is not None
    ]  # fmt: skip


def summary(result: Result) -> dict[str, list[Row]]:
    """Return how fast every strategy is relative to FedAvg, and DACA relative to the others."""
    strategies = [row for row in rows_of(result.tables["strategies"]) if row["volume"] != PLAN]
    rivals = [row for row in rows_of(result.tables.get("rivals", {})) if row["of"] == "daca"]
    return {SPEED_CAPTION: _speed_table(strategies), RIVALS_CAPTION: _speed_table(rivals)}


def _speed_table(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return a row for each setting with a column for each strategy that has a speed-up, in two lines."""
    found = {(row["setting"], row["rule"]): row for row in rows if row["speed_up"] is not None}
    rules = [rule for rule in NAMES if any(rule == one for _, one in found)]
    table: list[Row] = []
    for setting in dict.fromkeys(setting for setting, _ in found):
        some = {rule: found[setting, rule] for rule in rules if (setting, rule) in found}
        speeds = {NAMES[rule]: _two_lines(speed_up_text(some[rule])) if rule in some else ABSENT for rule in rules}
        seeds, _, _ = seeds_range(row["speed_up_seeds"] for row in some.values()).rpartition(" ")
        table.append({"setting": setting, **speeds, "seeds": seeds})
    return table


def _two_lines(text: str) -> str:
    r"""Put an interval in parentheses on a line of its own.

    Example:
        >>> ascii(_two_lines("1.49 (1.38 to 1.61)"))
        "'1.49<br>(1.38\\xa0to\\xa01.61)'"
    """
    return unbroken(text.replace(" (", "<br>("))


def details(result: Result) -> dict[str, list[Row]]:
    """Return rounds and seconds of every strategy to the target, and how it changed the data."""
    return {DETAILS: [_time_row(row) for row in rows_of(result.tables["strategies"])]}


def _time_row(row: Mapping[str, Any]) -> Row:
    failed = f", {row['failed']} failed" if row["failed"] else ""
    return {
        "setting": f"{row['setting']}, to {row['target']:.0%}",
        "strategy": NAMES[row["rule"]],
        "reached": f"{row['reached']} of {row['seeds']}{failed}",
        "rounds": number(row["rounds"], ".1f", row["rounds_half_width"]),
        "seconds": number(row["seconds"], ".0f", row["seconds_half_width"]),
        "fewer than FedAvg with 0.05": number(row["saved_rounds"], "z.1f", row["saved_rounds_half_width"]),
        "average EMD": number(row["emd_after"], ".3f"),
        "shift": number(row["shift"], ".3f"),
        "samples received, all users": number(row["received_samples"], ",.0f"),
    }


def speed_up_text(row: Mapping[str, Any]) -> str:
    """Return the speed-up of a row with its interval, or as a lower bound."""
    if row["speed_up_at_least"]:
        return f"≥ {row['speed_up']:.2f}"
    interval = "" if row["speed_up_low"] is None else f" ({row['speed_up_low']:.2f} to {row['speed_up_high']:.2f})"
    return number(row["speed_up"], ".2f") + interval


REPRODUCTION = Reproduction(
    "rounds and seconds to a target", PAPER, WHY, data, draw, scenarios=scenarios, summary=summary, details=details
)
