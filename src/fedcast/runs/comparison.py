"""Comparison of runs: scores, means and 95 % confidence intervals over seeds, paired tests against FedAvg."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from fedcast.cost import Delay, Metrics
from fedcast.formatting import html_columns, pluralize
from fedcast.io import data_frame
from fedcast.runs.comparable import cell, check_comparable, decides, gives_epochs, setting
from fedcast.runs.seed_statistics import (
    Interval,
    PairedTest,
    interval,
    interval_columns,
    interval_of_differences,
    paired_test,
)
from fedcast.runs.stored_run import FailedRun, RunsLike, StoredRun, as_runs
from fedcast.runs.strategies import Strategy, strategy_of
from fedcast.runs.user_accuracy import FINE_TUNED, fine_tuned_measures

if TYPE_CHECKING:
    import pandas

# What is averaged over seeds, in the order of the columns of tables.
MEASURES = (
    "emd_before", "emd_after", "local_epochs", "rounds", "accuracy", "user_accuracy", "worst_accuracy", "total_s",
    "sharing_s", "download_s", "compute_s", "upload_s", "energy_j", "sent_bytes", "average_sharing_ratio",
)  # fmt: skip
# Of these, what is undefined unless the target was reached.
TO_TARGET = ("rounds", "total_s")
# What is summed up to the target: where it was not reached, means are lower bounds without an interval.
SUMS = (*TO_TARGET, "download_s", "compute_s", "upload_s", "energy_j", "sent_bytes")


@dataclass(frozen=True)
class Score:
    """The result of one run up to its target accuracy, or up to its last round if it did not reach it."""

    strategy: Strategy
    seed: int
    target: float  #: accuracy to be reached
    reached: bool  #: whether it was
    local_epochs: int  #: of a round
    rounds: int  #: first round that reached the target; all rounds if none did
    accuracy: float  #: after the last round
    user_accuracy: float  #: the same, mean over users, each on its own label distribution
    worst_accuracy: float  #: the same, mean over the worst tenth of users
    total_s: float  #: simulated time of sharing and of those rounds
    energy_j: float  #: energy of all users up to then
    sent_bytes: float  #: bytes sent up to then
    delay: Delay  #: how that time is split, as the critical user of a round sees it
    facts: Metrics  #: what was known before training
    fine_tuned: Mapping[str, float] = field(default_factory=dict)  #: of `FINE_TUNED`, if users fine-tuned the model

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of its measures: `MEASURES`, and `FINE_TUNED` if users fine-tuned the model."""
        return (*MEASURES, *self.fine_tuned)

    def measure(self, name: str) -> float:
        """Return one of its measures."""
        if name in self.fine_tuned:
            return self.fine_tuned[name]
        holder = next(holder for holder in (self, self.delay, self.facts) if hasattr(holder, name))
        return float(getattr(holder, name))


@dataclass(frozen=True)
class Row:
    """A strategy over its seeds.

    Speed-up and tests of rounds and time are over seeds where the strategy and FedAvg both reached the target.
    """

    strategy: Strategy
    seeds: tuple[int, ...]  #: ascending
    reached: int  #: how many seeds reached the target
    measures: dict[str, Interval]  #: by name, see `MEASURES`; also `FINE_TUNED` if users fine-tuned the model
    speed_up: Interval | None  #: FedAvg's time to the target over its own, geometric mean; None without such seeds
    tests: dict[str, PairedTest]  #: of accuracy, rounds and total_s; empty without FedAvg on the same seeds
    failed: int = 0  #: how many more seeds failed; nothing else here counts them
    settings: Mapping[str, Any] = field(default_factory=dict)  #: values of the parameters that were tuned

    @property
    def is_censored(self) -> bool:
        """Return whether some seeds did not reach the target: means of sums up to it are lower bounds."""
        return self.reached < len(self.seeds)

    @property
    def speed_up_seeds(self) -> str | None:
        """Return how many seeds the speed-up is over; None if it is over all of them."""
        if self.speed_up is None or self.speed_up.count == len(self.seeds):
            return None
        return f"{self.speed_up.count} of {pluralize(len(self.seeds), 'seed')}"

    def speed_up_text(self) -> str:
        """Return the speed-up for people: with its interval, and the number of its seeds if these are not all."""
        if self.speed_up is None:
            return ""
        return self.speed_up.text() + (f" ({self.speed_up_seeds})" if self.speed_up_seeds else "")

    def is_bound(self, name: str) -> bool:
        """Return whether the mean of a measure is a lower bound."""
        return self.is_censored and name in SUMS

    def known(self, name: str) -> Interval | None:
        """Return a measure, without an interval where its mean is a lower bound; None: it has no such measure."""
        found = self.measures.get(name)
        return replace(found, half_width=None) if found is not None and self.is_bound(name) else found

    def text(self, name: str, unit: str) -> str:
        """Return a measure for people: with its interval, or after > where it is a lower bound."""
        found = self.known(name)
        return "" if found is None else f"{'> ' if self.is_bound(name) else ''}{found.text(unit)}"


def score(run: StoredRun, *, name_epochs: bool = False, target: float | None = None) -> Score:
    """Return the result of a run up to a target, by default its own, or its last round.

    With `name_epochs` local epochs that the run gives as a number are part of its strategy.
    """
    scenario, facts, history = run.scenario, run.facts, run.history
    target = scenario.rounds.target_accuracy if target is None else target
    met = history.rounds_to(target)
    last = history.records[-1]
    end = history.records[met] if met is not None else last
    # Time as a number of rounds of all users: rounds with fewer users are shorter, and assumed to be split likewise.
    rounds = (end.seconds - facts.sharing_s) / facts.round_s
    return Score(
        strategy=strategy_of(scenario, name_epochs=name_epochs),
        seed=scenario.seed,
        target=target,
        reached=met is not None,
        local_epochs=scenario.training.epoch_choices[0] if run.plan is None else run.plan.local_epochs,
        rounds=end.round,
        accuracy=last.accuracy,
        user_accuracy=last.user_accuracy,
        worst_accuracy=last.worst_accuracy,
        total_s=end.seconds,
        energy_j=end.energy_j,
        sent_bytes=end.bytes_sent,
        delay=facts.delay_of(rounds),
        facts=facts,
        fine_tuned=fine_tuned_measures(run),
    )


# Title and unit of the measures that a notebook shows.
_SHORT_COLUMNS = {
    "rounds": ("rounds", ""), "total_s": ("time", "s"), "accuracy": ("accuracy", "%"), "emd_after": ("EMD after", ""),
}  # fmt: skip


class Comparison(list[Row]):
    """The rows of a comparison, FedAvg first."""

    def __repr__(self) -> str:
        seeds = len({seed for row in self for seed in row.seeds})
        return f"Comparison({', '.join(row.strategy.name for row in self)}; {pluralize(seeds, 'seed')})"

    def _repr_html_(self) -> str:
        """Return the most important columns as a table for notebooks."""
        columns = {
            "strategy": [row.strategy.name for row in self],
            "reached": [f"{row.reached} of {len(row.seeds)}" for row in self],
            **{title: [row.text(name, unit) for row in self] for name, (title, unit) in _SHORT_COLUMNS.items()},
            "speed-up": [row.speed_up_text() for row in self],
        }
        return html_columns(columns, zip(*columns.values(), strict=True))

    def to_pandas(self) -> pandas.DataFrame:
        """Return `comparison_table` as a data frame, with one row per strategy."""
        return data_frame(comparison_table(self)).set_index("strategy")


def compare(
    runs: RunsLike,
    failed: Iterable[FailedRun] = (),
    tuned: Collection[str] = (),
    target: float | None = None,
) -> Comparison:
    """Return one row per strategy, FedAvg first; the order does not depend on that of the runs.

    Runs may differ only in strategy and seed, and in settings that were `tuned` for each strategy, by dotted key; any
    other difference is an error (see `facets`). Runs that `failed` are counted; a strategy of which all runs failed has
    no row. Rounds, time, energy and bytes are those to `target`, by default that of the scenario. Runs may be given as
    paths of their folders, too.
    """
    runs, failed = as_runs(runs), list(failed)
    named = gives_epochs([*runs, *failed])
    scores = scores_of(runs, name_epochs=named, tuned=tuned, target=target)
    failures = Counter(strategy_of(one.scenario, name_epochs=named) for one in failed)
    baseline = next((by_seed for strategy, by_seed in scores.items() if strategy.is_baseline), {})
    rows = [_row(strategy, by_seed, baseline) for strategy, by_seed in scores.items()]
    chosen = {strategy_of(run.scenario, name_epochs=named): run.scenario for run in runs}
    settings = {one: {key: setting(of, key) for key in tuned if decides(of, key)} for one, of in chosen.items()}
    return Comparison(replace(row, failed=failures[row.strategy], settings=settings[row.strategy]) for row in rows)


def scores_of(
    runs: Iterable[StoredRun],
    *,
    name_epochs: bool = False,
    tuned: Collection[str] = (),
    target: float | None = None,
) -> dict[Strategy, dict[int, Score]]:
    """Return scores by strategy, FedAvg first, and by seed, ascending; raise an error if runs are not comparable."""
    runs = list(runs)
    check_comparable(runs, tuned)
    scores: dict[Strategy, dict[int, Score]] = {}
    named = name_epochs or gives_epochs(runs)
    found = [score(run, name_epochs=named, target=target) for run in runs]
    for one in sorted(found, key=lambda one: (one.strategy.place, one.seed)):
        scores.setdefault(one.strategy, {}).setdefault(one.seed, one)
    return scores


def comparison_table(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Return rows as columns of a table: every mean with the half width of its interval, and p-values.

    Rounds and time to the target are None where a seed did not reach it; other sums are then over all rounds of that
    seed, lower bounds without an interval.
    """
    table: dict[str, list[Any]] = {
        "strategy": [row.strategy.name for row in rows],
        **{item.name: [getattr(row.strategy, item.name) for row in rows] for item in fields(Strategy)},
        "seeds": [len(row.seeds) for row in rows],
        "reached": [row.reached for row in rows],
        "failed": [row.failed for row in rows],
    }
    for name in (*MEASURES, *(name for name in FINE_TUNED if any(name in row.measures for row in rows))):
        known = [None if name in TO_TARGET and row.is_censored else row.known(name) for row in rows]
        table |= interval_columns(name, known)
    table |= interval_columns("speed_up", [row.speed_up for row in rows])
    for name in ("accuracy", *TO_TARGET):
        table[f"{name}_p_value"] = [row.tests[name].p_value if name in row.tests else None for row in rows]
    return table


def targets_table(
    runs: Iterable[StoredRun], targets: Iterable[float], failed: Iterable[FailedRun] = (), tuned: Collection[str] = ()
) -> dict[str, list[Any]]:
    """Return one row per target and strategy: how many seeds reached it, rounds and time to it, speed-up over FedAvg.

    Where some seeds did not reach a target, `censored` is true, and rounds and time are lower bounds of the mean: those
    seeds count with all their rounds.
    """
    runs, failed = list(runs), list(failed)
    found = [(target, row) for target in targets for row in compare(runs, failed, tuned, target)]
    columns: dict[str, list[Any]] = {
        "target": [target for target, _ in found],
        "strategy": [row.strategy.name for _, row in found],
        "seeds": [len(row.seeds) for _, row in found],
        "reached": [row.reached for _, row in found],
        "censored": [row.is_censored for _, row in found],
    }
    for name in TO_TARGET:
        columns |= interval_columns(name, [row.known(name) for _, row in found])
    return columns | interval_columns("speed_up", [row.speed_up for _, row in found])


def runs_table(
    runs: Iterable[StoredRun], failed: Iterable[FailedRun] = (), varied: Iterable[str] = ()
) -> dict[str, list[Any]]:
    """Return one row per run, by strategy and seed: its result, or the reason why it failed.

    Rounds and time to the target are None where it was not reached. Parameters that `varied`, by dotted key, have a
    column each; None: it decides nothing in this run. Where users were lost or updates are stale, columns say how many.
    """
    runs, failed, varied = list(runs), list(failed), list(varied)
    named = gives_epochs([*runs, *failed])
    scores = {run.folder: score(run, name_epochs=named) for run in runs}
    both: list[StoredRun | FailedRun] = [*runs, *failed]
    everyone = {one.folder: one for one in both}
    strategies = {folder: strategy_of(one.scenario, name_epochs=named) for folder, one in everyone.items()}
    rows: list[dict[str, Any]] = []
    for folder in sorted(everyone, key=lambda folder: (strategies[folder].place, everyone[folder].scenario.seed)):
        one = everyone[folder]
        row = {key: cell(setting(one.scenario, key)) for key in varied if decides(one.scenario, key)}
        row |= {"strategy": strategies[folder].name, "seed": one.scenario.seed, "run": folder.name}
        if isinstance(one, FailedRun):
            row |= {"status": "failed", "reason": one.reason}
        else:
            found = scores[folder]
            row |= {"status": "finished", "reached": found.reached, **one.history.attendance()}
            row |= {name: found.measure(name) for name in found.names if found.reached or name not in TO_TARGET}
        rows.append(row)
    counted = dict.fromkeys(name for run in runs for name in run.history.attendance())
    results = ("strategy", "seed", "status", "reason", "reached", *_names(any, scores.values()), *counted, "run")
    return {name: [row.get(name) for row in rows] for name in (*varied, *results)}


def _row(strategy: Strategy, own: dict[int, Score], baseline: dict[int, Score]) -> Row:
    pairs = [(own[seed], baseline[seed]) for seed in own if seed in baseline]
    met = [(one, other) for one, other in pairs if one.reached and other.reached]
    tested = {} if strategy.is_baseline else {"accuracy": pairs, **dict.fromkeys(TO_TARGET, met)}
    tests = {
        name: paired_test(*zip(*((one.measure(name), other.measure(name)) for one, other in both), strict=True))
        for name, both in tested.items()
        if both
    }
    return Row(
        strategy,
        tuple(own),
        sum(one.reached for one in own.values()),
        {name: interval([one.measure(name) for one in own.values()]) for name in _names(all, own.values())},
        _speed_up(met),
        tests,
    )


def _names(which: Callable[[Iterable[bool]], bool], scores: Collection[Score]) -> list[str]:
    """Return the measures that any, or all, of the scores have, in order."""
    return [name for name in (*MEASURES, *FINE_TUNED) if name in MEASURES or which(name in one.names for one in scores)]


def _speed_up(met: Sequence[tuple[Score, Score]]) -> Interval | None:
    """Return the geometric mean; its interval is computed from that of the logarithms."""
    both = [(one.total_s, other.total_s) for one, other in met if one.total_s > 0 and other.total_s > 0]
    if not both:
        return None
    logs = interval_of_differences([math.log(other / one) for one, other in both], 1.0)
    half = None if logs.half_width is None else math.exp(logs.mean) * math.sinh(logs.half_width)
    return Interval(math.exp(logs.mean), half, logs.count)
