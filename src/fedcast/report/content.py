"""The content of a report: runs in order, their comparison, and the numbers of all figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, zip_longest
from typing import NamedTuple

import numpy as np

from fedcast.report.drawing import Figure
from fedcast.report.figures.classes import MAX_USERS, ClassChange, class_change
from fedcast.report.figures.maps import ClusterMap, map_of_users
from fedcast.report.figures.training import PARTS, Curve, DelaySplit, LeakageCurve, curve, curves_figure, leakage_curve
from fedcast.report.figures.users import UserValues, sorted_users
from fedcast.runs import Row, Score, StoredRun, Strategy, compare, score
from fedcast.scenario import Scenario

# Limits that keep the page small: runs shown in detail, users on all their maps, users on one map.
_MAX_INSIDE = 9
_MAX_ON_MAPS = 6_000
_MAX_ON_A_MAP = 1_500


@dataclass(frozen=True, eq=False)
class Content:
    """Runs and their scores.

    Attributes:
        runs: by strategy, then by seed; each once.
        rows: one per strategy, FedAvg first.
    """

    runs: tuple[StoredRun, ...]
    rows: tuple[Row, ...]

    @property
    def scenario(self) -> Scenario:
        """Scenario of the first run; the others differ only in strategy and seed."""
        return self.runs[0].scenario

    @property
    def target(self) -> float:
        """Target accuracy."""
        return self.scenario.rounds.target_accuracy

    @property
    def seeds(self) -> list[int]:
        """Seeds of all runs, ascending."""
        return sorted({run.scenario.seed for run in self.runs})

    @cached_property
    def scores(self) -> dict[StoredRun, Score]:
        """Score of each run."""
        return {run: score(run) for run in self.runs}

    @cached_property
    def series(self) -> dict[Strategy, int]:
        """Series number of each strategy, which decides its colour; 0 is reserved for FedAvg."""
        first = 0 if self.rows[0].strategy.is_baseline else 1
        return {row.strategy: place for place, row in enumerate(self.rows, start=first)}

    @property
    def baseline(self) -> Row | None:
        """The row of FedAvg, if it is among the strategies."""
        return self.rows[0] if self.rows[0].strategy.is_baseline else None

    @property
    def best(self) -> Row:
        """The strategy that reaches the target in most of its seeds, then fastest; if none does, the most accurate."""
        if any(row.reached for row in self.rows):
            return min(self.rows, key=lambda row: (-row.reached / len(row.seeds), row.measures["total_s"].mean))
        return max(self.rows, key=lambda row: row.measures["accuracy"].mean)

    @property
    def inside(self) -> tuple[StoredRun, ...]:
        """Runs shown in detail: every strategy's first seed, then further seeds, as far as there is room."""
        turns = zip_longest(*(self.runs_of(row) for row in self.rows))
        chosen = set(islice((run for turn in turns for run in turn if run is not None), _MAX_INSIDE))
        return tuple(run for run in self.runs if run in chosen)

    @property
    def first_inside(self) -> StoredRun:
        """The run shown in detail at first: of the best strategy that shares, if there is one."""
        sharing = [run for run in self.inside if run.facts.received_samples > 0] or self.inside
        best = [run for run in sharing if self.scores[run].strategy == self.best.strategy]
        return (best or sharing)[0]

    @property
    def users_on_map(self) -> int:
        """Largest number of users on a map."""
        return min(_MAX_ON_A_MAP, _MAX_ON_MAPS // len(self.inside))

    def runs_of(self, row: Row) -> list[StoredRun]:
        """Return the runs of a strategy, by seed."""
        return [run for run in self.runs if self.scores[run].strategy == row.strategy]

    def series_of(self, run: StoredRun) -> int:
        """Return the series number of a run's strategy."""
        return self.series[self.scores[run].strategy]

    def name_of(self, run: StoredRun) -> str:
        """Return strategy and seed of a run."""
        return f"{self.scores[run].strategy.name}, seed {run.scenario.seed}"


def gather(runs: Sequence[StoredRun]) -> Content:
    """Order and compare runs; one that is given twice counts once."""
    rows = compare(runs)
    places = {row.strategy: place for place, row in enumerate(rows)}
    found: dict[tuple[int, int], StoredRun] = {}
    for run in runs:
        found.setdefault((places[score(run).strategy], run.scenario.seed), run)
    return Content(tuple(found[key] for key in sorted(found)), tuple(rows))


class Measure(NamedTuple):
    """A quantity during training."""

    column: str
    title: str
    is_share: bool


class Axis(NamedTuple):
    """The x axis of learning curves."""

    column: str
    title: str


MEASURES = (Measure("accuracy", "Test accuracy", True), Measure("test_loss", "Test loss", False))
AXES = (Axis("round", "round"), Axis("seconds", "simulated seconds"))


def curves(content: Content, measure: Measure, axis: Axis) -> list[Curve]:
    """Return one learning curve per strategy."""
    found = []
    for row in content.rows:
        histories = [run.history for run in content.runs_of(row)]
        courses = [(history.column(axis.column), history.column(measure.column)) for history in histories]
        found.append(curve(row.strategy.name, content.series[row.strategy], courses))
    return found


def learning_figure(content: Content, measure: Measure, axis: Axis) -> tuple[list[Curve], Figure]:
    """Return the learning curves, and the figure that shows them."""
    lines = curves(content, measure, axis)
    target = content.target if measure.column == "accuracy" else None
    return lines, curves_figure(lines, measure.title, axis.title, target=target, is_share=measure.is_share)


def time_split(content: Content) -> DelaySplit:
    """Return the parts of the delay, mean over seeds, up to the target or the last round."""
    seconds = np.array([[row.measures[f"{part}_s"].mean for part in PARTS] for row in content.rows])
    return DelaySplit([row.strategy.name for row in content.rows], seconds)


def leakage_curves(content: Content) -> list[LeakageCurve]:
    """Return one curve for each run whose plan has one."""
    found = []
    for run in content.runs:
        result, points = content.scores[run], run.plan.leakage if run.plan is not None else ()
        measured = (run.facts.average_sharing_ratio, result.total_s) if result.reached else None
        if points:
            ratios, delays = zip(*((point.average_sharing_ratio, point.delay_s) for point in points), strict=True)
            found.append(leakage_curve(result.strategy.name, content.series_of(run), ratios, delays, measured))
    return found


def cluster_map_of(run: StoredRun, max_users: int) -> ClusterMap:
    """Return positions and clusters of users."""
    users = run.tables["users"]
    heads = [-1 if head is None else head for head in users["head"]]
    return map_of_users(np.stack([users["x_m"], users["y_m"]], axis=1), heads, max_users)


def class_change_of(run: StoredRun, max_users: int | None = None) -> ClassChange:
    """Return the samples of each class before and after sharing."""
    table = run.tables["classes"]
    before, after = (
        np.stack([values for name, values in table.items() if name.startswith(start)], axis=1).astype(np.int64)
        for start in ("before_", "after_")
    )
    return class_change(before, after, max_users or MAX_USERS)


def emd_change_of(run: StoredRun) -> UserValues:
    """Return the EMD of each user before and after sharing."""
    return sorted_users(run.tables["users"]["emd_before"], run.tables["users"]["emd_after"])


def user_energy_of(run: StoredRun) -> UserValues:
    """Return the energy of each user in a round; 0: the user does not train."""
    return sorted_users(run.tables["users"]["round_j"])


def energy_budget_of(run: StoredRun) -> float | None:
    """Return the budget of every user in a round; None: with a file of devices, users have budgets of their own."""
    devices = run.scenario.devices
    return devices.energy_budget_j if devices.devices_file is None else None
