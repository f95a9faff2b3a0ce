"""Runs side by side: what each came to, means and 95 % intervals over seeds, and paired tests against FedAvg."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from fedcast.allocation import METHODS
from fedcast.clustering.rules import RULES
from fedcast.errors import FedcastError
from fedcast.runs.store import NOT_DECIDING, StoredRun
from fedcast.scenario import Scenario

LEVEL = 0.95
# Rules under which no volumes are allocated, whatever the method.
NOTHING_ALLOCATED = ("none", "central")
# What is averaged over seeds, in the order of tables.
MEASURES = (
    "emd_before", "emd_after", "rounds", "accuracy", "worst_accuracy", "total_s", "sharing_s", "download_s",
    "compute_s", "upload_s", "energy_j", "sent_bytes", "average_sharing_ratio",
)  # fmt: skip
# Of these, what means nothing unless the target was met.
_TO_TARGET = ("rounds", "total_s")
# Folders of one scenario that an error names.
_FOLDERS_NAMED = 12


@dataclass(frozen=True)
class Strategy:
    """What is compared: a clustering rule, an allocation method and an algorithm."""

    rule: str
    method: str
    algorithm: str

    @property
    def place(self) -> tuple[Any, ...]:
        """For sorting: FedAvg, what shares nothing, then rules and methods as in their tables."""
        return (
            self.rule != "none", *_place_in(RULES, self.rule), *_place_in(METHODS, self.method),
            self.algorithm != "fedavg", self.algorithm,
        )  # fmt: skip

    @property
    def is_baseline(self) -> bool:
        """Plain FedAvg, which shares nothing."""
        return self.rule == "none" and self.algorithm == "fedavg"

    @property
    def name(self) -> str:
        """A name for people; nothing is allocated where nothing is shared."""
        if self.is_baseline:
            return "FedAvg"
        words = [self.rule] if self.rule != "none" else []
        words += [self.method] if self.method != "jfvo" and self.rule not in NOTHING_ALLOCATED else []
        return " ".join([*words, *([self.algorithm] if self.algorithm != "fedavg" else [])])


@dataclass(frozen=True)
class Score:
    """One run in numbers.

    Attributes:
        strategy: what was run.
        seed: of the run.
        target: accuracy to be reached.
        reached: whether it was.
        emd_before: average EMD before sharing.
        emd_after: the same after sharing.
        rounds: first round that met the target; all rounds if none did.
        accuracy: at the end of training.
        worst_accuracy: of the worst tenth of users at the end, each on its own mix of classes.
        total_s: simulated time of sharing and of those rounds.
        sharing_s: part of it.
        download_s: part of it, as the slowest user of a round sees it.
        compute_s: part of it.
        upload_s: part of it.
        energy_j: of all users over that time.
        sent_bytes: by all users and the server over that time.
        average_sharing_ratio: the leakage.
    """

    strategy: Strategy
    seed: int
    target: float
    reached: bool
    emd_before: float
    emd_after: float
    rounds: int
    accuracy: float
    worst_accuracy: float
    total_s: float
    sharing_s: float
    download_s: float
    compute_s: float
    upload_s: float
    energy_j: float
    sent_bytes: float
    average_sharing_ratio: float


@dataclass(frozen=True)
class Interval:
    """A mean over seeds and its 95 % interval by Student's t; one seed has no interval.

    Attributes:
        mean: over seeds.
        half_width: the interval is mean ± half_width; None for a single seed.
        count: of seeds.
    """

    mean: float
    half_width: float | None
    count: int


@dataclass(frozen=True)
class PairedTest:
    """A strategy against FedAvg on the same seeds, two-sided paired t test.

    Attributes:
        difference: mean of strategy minus FedAvg, with its interval.
        p_value: None where it does not exist: one seed, or the same difference in all of them.
    """

    difference: Interval
    p_value: float | None


@dataclass(frozen=True)
class Row:
    """A strategy over its seeds.

    Attributes:
        strategy: what was compared.
        seeds: ascending.
        reached: how many seeds met the target.
        measures: by name, see `MEASURES`.
        speed_up: FedAvg's time to the target over its own, geometric mean over seeds where both met it; None: none did.
        tests: paired tests of accuracy, rounds and total_s; empty without FedAvg on the same seeds. Rounds and time are
            tested over seeds where both met the target.
    """

    strategy: Strategy
    seeds: tuple[int, ...]
    reached: int
    measures: dict[str, Interval]
    speed_up: Interval | None
    tests: dict[str, PairedTest]


def score(run: StoredRun) -> Score:
    """What a run came to, up to its target or its last round."""
    scenario, facts, history = run.scenario, run.facts, run.history
    target = scenario.rounds.target_accuracy
    met = history.rounds_to(target)
    last = history.records[-1]
    end = history.records[met] if met is not None else last
    # In rounds of all users: shorter ones, of a part of them, are taken to be split in the same way.
    rounds = (end.seconds - facts.sharing_s) / facts.round_s
    return Score(
        strategy=_strategy(scenario),
        seed=scenario.seed,
        target=target,
        reached=met is not None,
        emd_before=facts.emd_before,
        emd_after=facts.emd_after,
        rounds=end.round,
        accuracy=last.accuracy,
        worst_accuracy=last.worst_accuracy,
        total_s=end.seconds,
        sharing_s=facts.sharing_s,
        download_s=rounds * facts.download_s,
        compute_s=rounds * facts.compute_s,
        upload_s=rounds * facts.upload_s,
        energy_j=end.energy_j,
        sent_bytes=end.bytes_sent,
        average_sharing_ratio=facts.average_sharing_ratio,
    )


def _strategy(scenario: Scenario) -> Strategy:
    """What a scenario tries; where nothing is allocated, all methods are one."""
    rule, method = scenario.clustering.rule, scenario.allocation.method
    return Strategy(rule, "jfvo" if rule in NOTHING_ALLOCATED else method, scenario.training.algorithm)


def _place_in(table: Iterable[str], name: str) -> tuple[int, str]:
    """Where a name stands in a table; what is not in it comes after all, by name."""
    names = list(table)
    return names.index(name) if name in names else len(names), name


def compare(runs: Iterable[StoredRun]) -> list[Row]:
    """One row per strategy, FedAvg first; always in the same order, whatever that of the runs.

    Runs must differ in strategy and seed alone; anything else would be compared without being seen.
    """
    runs = list(runs)
    _refuse_other_differences(runs)
    scores = [score(run) for run in runs]
    strategies = sorted({one.strategy for one in scores}, key=lambda strategy: strategy.place)
    by_strategy = {strategy: _by_seed(scores, strategy) for strategy in strategies}
    baseline = next((by_strategy[strategy] for strategy in strategies if strategy.is_baseline), {})
    return [_row(strategy, by_strategy[strategy], baseline) for strategy in strategies]


def interval(values: Sequence[float]) -> Interval:
    """Mean and 95 % interval.

    Example:
        >>> found = interval([1.0, 2.0, 3.0])
        >>> found.mean, round(found.half_width, 4)
        (2.0, 2.4841)
    """
    if not len(values):
        raise FedcastError("an interval needs at least one value")
    mean = float(np.mean(values))
    if len(values) == 1:
        return Interval(mean, None, 1)
    from scipy import stats

    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return Interval(mean, float(stats.t.ppf(0.5 + LEVEL / 2, len(values) - 1)) * error, len(values))


def paired_test(values: Sequence[float], others: Sequence[float]) -> PairedTest:
    """Two-sided paired t test of values against others, seed by seed.

    Example:
        >>> round(paired_test([3.0, 4.0, 6.0], [1.0, 3.0, 3.0]).p_value, 4)
        0.0742
    """
    differences = [value - other for value, other in zip(values, others, strict=True)]
    found = interval(differences)
    if len(differences) < 2 or np.ptp(differences) == 0:
        return PairedTest(found, None)
    from scipy import stats

    return PairedTest(found, float(stats.ttest_rel(values, others).pvalue))


def comparison_table(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Rows as columns, for files: every mean with the half width of its interval, and the tests.

    Rounds and time to the target do not exist where a seed did not meet it; other sums run up to the last round there.
    """
    table: dict[str, list[Any]] = {
        "strategy": [row.strategy.name for row in rows],
        **{item.name: [getattr(row.strategy, item.name) for row in rows] for item in fields(Strategy)},
        "seeds": [len(row.seeds) for row in rows],
        "reached": [row.reached for row in rows],
    }
    for name in MEASURES:
        known = [
            row.measures[name] if name not in _TO_TARGET or row.reached == len(row.seeds) else None for row in rows
        ]
        table[name] = [found.mean if found else None for found in known]
        table[f"{name}_half_width"] = [found.half_width if found else None for found in known]
    table["speed_up"] = [row.speed_up.mean if row.speed_up else None for row in rows]
    for name in ("accuracy", "rounds", "total_s"):
        table[f"{name}_p_value"] = [row.tests[name].p_value if name in row.tests else None for row in rows]
    return table


def _by_seed(scores: Iterable[Score], strategy: Strategy) -> dict[int, Score]:
    found: dict[int, Score] = {}
    for one in sorted(scores, key=lambda one: one.seed):
        if one.strategy == strategy:
            found.setdefault(one.seed, one)
    return found


def _row(strategy: Strategy, own: dict[int, Score], baseline: dict[int, Score]) -> Row:
    pairs = [(own[seed], baseline[seed]) for seed in own if seed in baseline]
    met = [(one, other) for one, other in pairs if one.reached and other.reached]
    tests = {}
    if pairs and not strategy.is_baseline:
        tests["accuracy"] = _test("accuracy", pairs)
        if met:
            tests |= {name: _test(name, met) for name in ("rounds", "total_s")}
    return Row(
        strategy,
        tuple(own),
        sum(one.reached for one in own.values()),
        {name: interval([float(getattr(one, name)) for one in own.values()]) for name in MEASURES},
        _speed_up(met),
        tests,
    )


def _test(name: str, pairs: Sequence[tuple[Score, Score]]) -> PairedTest:
    return paired_test([getattr(one, name) for one, _ in pairs], [getattr(other, name) for _, other in pairs])


def _speed_up(met: Sequence[tuple[Score, Score]]) -> Interval | None:
    """Geometric mean; its interval is that of the logarithms, so the half width is a share of the mean."""
    both = [(one.total_s, other.total_s) for one, other in met if one.total_s > 0 and other.total_s > 0]
    if not both:
        return None
    logs = interval([math.log(other / one) for one, other in both])
    half = None if logs.half_width is None else math.exp(logs.mean) * math.sinh(logs.half_width)
    return Interval(math.exp(logs.mean), half, logs.count)


_MAY_DIFFER = {("clustering", "rule"), ("allocation", "method"), ("training", "algorithm"), *NOT_DECIDING}


def _refuse_other_differences(runs: Sequence[StoredRun]) -> None:
    if not runs:
        raise FedcastError("there are no runs to compare")
    first, *rest = (_settings(run) for run in runs)
    for run, settings in zip(runs[1:], rest, strict=True):
        for key, value in settings.items():
            if value != first[key]:
                raise FedcastError(
                    f"{run.folder}: {key} = {value}, but {runs[0].folder} has {first[key]}; "
                    f"runs that are compared may differ in rule, method, algorithm and seed alone. "
                    f"Name the folders that go together:\n" + "\n".join(_folders_that_go_together(runs))
                )


def _folders_that_go_together(runs: Sequence[StoredRun]) -> list[str]:
    """One line per scenario, ready to be passed on; long ones are cut."""
    groups: dict[str, list[str]] = {}
    for run in runs:
        groups.setdefault(json.dumps(_settings(run)), []).append(str(run.folder))
    return [
        "  " + " ".join(folders[:_FOLDERS_NAMED])
        + (f" and {len(folders) - _FOLDERS_NAMED} more" if len(folders) > _FOLDERS_NAMED else "")
        for folders in groups.values()
    ]  # fmt: skip


def _settings(run: StoredRun) -> dict[str, Any]:
    content = run.scenario.model_dump(mode="json")
    del content["seed"]
    return {
        f"{section}.{key}": value
        for section, values in content.items()
        for key, value in values.items()
        if (section, key) not in _MAY_DIFFER
    }
