"""The content of a report: runs in order, their comparison, and the numbers of all figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice, zip_longest
from typing import Any, get_args

import numpy as np

from fedcast.errors import FedcastError
from fedcast.plan import places_known
from fedcast.report.colours import NUM_COLOURS
from fedcast.report.drawing import Dots, Figure, Line
from fedcast.report.figures.maps import ClusterMap, map_of_users, schematic_map
from fedcast.report.figures.training import (
    MAX_POINTS,
    PARTS,
    Bands,
    curves_figure,
    delay_figure,
    leakage_curve,
    learning_curve,
    users_curve,
    users_figure,
)
from fedcast.report.figures.users import MAX_COLUMNS, ClassChange, UserValues, class_change, sorted_users
from fedcast.runs import (
    AttendanceRow,
    FailedRun,
    Gain,
    Row,
    Score,
    StoredRun,
    Strategy,
    attendance,
    compare,
    decides,
    facet_name,
    facets,
    gains,
    gives_epochs,
    score,
    setting,
    strategy_of,
    user_scores,
)
from fedcast.scenario import Scenario
from fedcast.typing import Floats

# Columns of a history that are drawn, with their titles.
MEASURES = {"accuracy": "Test accuracy", "test_loss": "Test loss"}
# Accuracies of users that are drawn, with their titles.
USER_SCORES = {
    "own_accuracy": "Accuracy of users, own labels",
    "fine_tuned_own_accuracy": "Accuracy of users, own labels, after fine-tuning",
    "fine_tuned_accuracy": "Accuracy of users, all labels, after fine-tuning",
}
# Limits that keep the page small: runs shown in detail, users on all their maps, users on one map, points of the
# learning curves of a measure in all facets, and the fewest of one.
MAX_INSIDE = 9
_MAX_ON_MAPS = 6_000
_MAX_ON_A_MAP = 1_500
_ALL_POINTS = 3_000
_MIN_POINTS = 15


@dataclass(frozen=True, eq=False)
class Content:
    """Runs and their scores."""

    runs: Sequence[StoredRun]  #: by strategy, then by seed; each once
    rows: Sequence[Row]  #: one per strategy, FedAvg first
    scores: Mapping[StoredRun, Score]
    failed: Sequence[FailedRun] = ()  #: runs without a result
    tuned: Sequence[str] = ()  #: keys of settings that were tuned for each strategy
    facet: Mapping[str, Any] = field(default_factory=dict)  #: what makes these runs differ from those of other facets
    num_facets: int = 1
    all_strategies: Sequence[Strategy] = ()  #: of all facets; empty: those of the rows
    targets: Sequence[float] = ()  #: further accuracies to which rounds and time are shown
    bands: Bands = "interval"  #: of learning curves

    @property
    def name(self) -> str:
        """Name of the facet."""
        return facet_name(self.facet)

    @property
    def scenario(self) -> Scenario:
        """Scenario of the first run; the others differ only in strategy and seed."""
        return self.runs[0].scenario

    @property
    def on_devices(self) -> bool:
        """Return whether all runs were trained on real devices, so that there are measured seconds."""
        return all(run.measured_s for run in self.runs)

    @property
    def clock(self) -> str:
        """Return what the seconds of histories are: those of devices and links as the scenario describes them."""
        return "planned" if self.on_devices else "simulated"

    @property
    def axes(self) -> dict[str, str]:
        """Columns of a history that curves are drawn against, with their titles."""
        return {"round": "round", "seconds": f"{self.clock} seconds"}

    def measured_s(self, row: Row) -> float:
        """Return the seconds of sharing and of the rounds up to the target, or the last, measured on devices."""
        totals = []
        for run in self.runs_of(row):
            rounds = (run.measured_s.get(f"round {place}", 0.0) for place in range(1, self.scores[run].rounds + 1))
            totals.append(run.measured_s.get("share", 0.0) + sum(rounds))
        return float(np.mean(totals))

    @property
    def target(self) -> float:
        """Target accuracy."""
        return self.scenario.rounds.target_accuracy

    @cached_property
    def to_targets(self) -> dict[float, Sequence[Row]]:
        """The comparison to each target, ascending; empty if there is only that of the scenario."""
        targets = sorted({*self.targets, self.target}) if set(self.targets) - {self.target} else []
        return {target: compare(self.runs, self.failed, self.tuned, target) for target in targets}

    @property
    def seeds(self) -> list[int]:
        """Seeds of all runs, ascending."""
        return sorted({run.scenario.seed for run in self.runs})

    @cached_property
    def series(self) -> dict[Strategy, int]:
        """Series number of each strategy, which decides its colour and dashes; 0 is reserved for FedAvg.

        Strategies that differ in the kind of sharing alone have one colour with different dashes, if there are enough.
        """
        strategies = list(self.all_strategies) or [row.strategy for row in self.rows]
        first = int(not any(one.is_baseline for one in strategies))
        plans = list(dict.fromkeys(replace(one, sharing="raw") for one in strategies))
        kinds = list(dict.fromkeys(one.sharing for one in strategies))
        if first + len(plans) - 1 > NUM_COLOURS:
            return {one: place for place, one in enumerate(strategies, first)}
        places = [(plans.index(replace(one, sharing="raw")), kinds.index(one.sharing)) for one in strategies]
        return {one: first + plan + NUM_COLOURS * kind for one, (plan, kind) in zip(strategies, places, strict=True)}

    @cached_property
    def attendance(self) -> list[AttendanceRow]:
        """Return the attendance by strategy; empty where all users took part in every round."""
        return attendance(self.runs, self.failed)

    @cached_property
    def gains(self) -> list[Gain]:
        """Parts of the gain of each strategy that has a control."""
        return gains(self.runs, self.tuned)

    @property
    def baseline(self) -> Row | None:
        """The row of FedAvg, if it is among the strategies."""
        return self.rows[0] if self.rows[0].strategy.is_baseline else None

    @property
    def best(self) -> Row:
        """The strategy that reaches the target in most of its seeds, then fastest; if none does, the most accurate."""
        return min(self.rows, key=self._merit)

    @property
    def best_rows(self) -> list[Row]:
        """The best strategy, and others that are exactly as good."""
        return [row for row in self.rows if self._merit(row) == self._merit(self.best)]

    def _merit(self, row: Row) -> tuple[float, float]:
        """Return a sort key, lower is better."""
        if any(one.reached for one in self.rows):
            return -row.reached / len(row.seeds), row.measures["total_s"].mean
        return 0.0, -row.measures["accuracy"].mean

    @property
    def inside(self) -> list[StoredRun]:
        """Runs shown in detail: every strategy's first seed, then further seeds, as far as there is room."""
        turns, room = zip_longest(*(self.runs_of(row) for row in self.rows)), max(1, MAX_INSIDE // self.num_facets)
        chosen = set(islice((run for turn in turns for run in turn if run is not None), room))
        return [run for run in self.runs if run in chosen]

    def runs_of(self, row: Row) -> list[StoredRun]:
        """Return the runs of a strategy, by seed."""
        return [run for run in self.runs if self.scores[run].strategy == row.strategy]

    def name_of(self, run: StoredRun) -> str:
        """Return strategy and seed of a run."""
        name = f"{self.scores[run].strategy.name}, seed {run.scenario.seed}"
        return f"{name}, {self.name}" if self.name else name


def gather_facets(
    runs: Sequence[StoredRun],
    failed: Sequence[FailedRun] = (),
    tuned: Sequence[str] = (),
    targets: Sequence[float] = (),
    bands: Bands = "interval",
) -> list[Content]:
    """Order and compare runs, those that can be compared in one content each; there is at least one run."""
    if bands not in get_args(Bands):
        raise FedcastError(f"invalid value {bands!r} for bands: expected {' or '.join(get_args(Bands))}")
    for target in targets:
        if not 0 < target < 1:
            raise FedcastError(f"invalid value {target!r} for targets: expected an accuracy between 0 and 1")
    groups = facets(runs, failed, tuned)
    found = [gather(group.runs, group.failed, tuned) for group in groups if group.runs or len(groups) == 1]
    shown = [group for group in groups if group.runs]
    # Failures of facets without a run are kept with the first facet; their scenarios say what they are.
    lost = [one for group in groups if not group.runs for one in group.failed]
    strategies = sorted({row.strategy for one in found for row in one.rows}, key=lambda one: one.place)
    return [
        replace(
            content,
            failed=[*content.failed, *(lost if not place else [])],
            facet=group.values,
            num_facets=len(shown),
            all_strategies=strategies,
            targets=targets,
            bands=bands,
        )
        for place, (content, group) in enumerate(zip(found, shown, strict=True))
    ]


def failures(contents: Sequence[Content]) -> list[tuple[str, str, list[int], str]]:
    """Return facet, strategy, seeds and reason of the runs that failed, in the order of strategies."""
    failed = list({one.folder: one for content in contents for one in content.failed}.values())
    named = gives_epochs([*(run for content in contents for run in content.runs), *failed])
    groups: dict[tuple[str, Strategy, str], list[int]] = {}
    keys = [*contents[0].facet, *contents[0].tuned]
    for one in failed:
        facet = facet_name({key: setting(one.scenario, key) for key in keys if decides(one.scenario, key)})
        strategy = strategy_of(one.scenario, name_epochs=named)
        groups.setdefault((facet, strategy, one.reason), []).append(one.scenario.seed)
    ordered = sorted(groups, key=lambda key: (key[0], key[1].place, key[2]))
    return [(key[0], key[1].name, sorted(groups[key]), key[2]) for key in ordered]


def gather(runs: Sequence[StoredRun], failed: Sequence[FailedRun] = (), tuned: Sequence[str] = ()) -> Content:
    """Order and compare runs; one that is given twice counts once."""
    failed = list({one.folder: one for one in failed}.values())
    rows, named = compare(runs, failed, tuned), gives_epochs([*runs, *failed])
    scores = {run: score(run, name_epochs=named) for run in runs}
    places = {row.strategy: place for place, row in enumerate(rows)}
    # Of equal ones the first is kept: later entries of a dictionary replace earlier ones.
    found = {(places[scores[run].strategy], run.scenario.seed): run for run in reversed(runs)}
    return Content([found[key] for key in sorted(found)], rows, scores, failed, tuned)


def learning_figure(content: Content, measure: str, axis: str) -> Figure:
    """Draw one learning curve per strategy: of a column of `MEASURES` against one of `Content.axes`."""
    lines = []
    for row in content.rows:
        histories = [run.history for run in content.runs_of(row)]
        courses = [(history.column(axis), history.column(measure)) for history in histories]
        # Many curves have fewer points each, so that the page stays small.
        most = min(MAX_POINTS, max(_MIN_POINTS, _ALL_POINTS // (content.num_facets * len(content.rows))))
        name, series = row.strategy.name, content.series[row.strategy]
        lines.append(learning_curve(name, series, courses, most, content.bands))
    is_share = measure == "accuracy"
    target = content.target if is_share else None
    return curves_figure(lines, MEASURES[measure], content.axes[axis], target=target, is_share=is_share)


def user_figures(content: Content) -> dict[str, Figure]:
    """Draw the accuracy of users, one curve per strategy, by column of `fedcast.runs.user_scores`; none if unknown."""
    found, most = {}, max(21, 101 // content.num_facets)
    tables = {run: user_scores(run) for run in content.runs}
    for column, title in USER_SCORES.items():
        values = {run: [value for value in table.get(column, []) if value is not None] for run, table in tables.items()}
        rows = [row for row in content.rows if all(values[run] for run in content.runs_of(row))]
        lines = [
            users_curve(
                row.strategy.name,
                content.series[row.strategy],
                [values[run] for run in content.runs_of(row)],
                most,
                content.bands,
            )
            for row in rows
        ]
        if lines:
            found[column] = users_figure(lines, title)
    return found


def time_split(content: Content) -> tuple[list[str], Floats]:
    """Return strategies, and the parts of their delays, mean over seeds, up to the target or the last round."""
    seconds = np.array([[row.measures[f"{part}_s"].mean for part in PARTS] for row in content.rows])
    return [row.strategy.name for row in content.rows], seconds


def split_figure(content: Content) -> Figure:
    """Draw `time_split`; totals of strategies that missed the target in some seeds are lower bounds."""
    bounds = {row.strategy.name for row in content.rows if row.is_censored}
    return delay_figure(*time_split(content), x_label=content.axes["seconds"], bounds=bounds)


def leakage_curves(content: Content) -> list[Line | Dots]:
    """Return one curve for each strategy whose plans have one, and what was measured if all seeds met the target.

    They are means over seeds, see `_mean_leakage`.
    """
    marks: list[Line | Dots] = []
    for row in content.rows:
        plans = [run.plan.leakage for run in content.runs_of(row) if run.plan is not None and run.plan.leakage]
        if plans:
            points = _mean_leakage([[(at.average_sharing_ratio, at.delay_s) for at in each] for each in plans])
            means = [row.measures[name].mean for name in ("average_sharing_ratio", "total_s")]
            measured = (means[0], means[1]) if row.reached == len(row.seeds) else None
            if measured is None and not points[:, 0].any():
                continue  # without sharing: the first point of every other curve, which would hide it
            marks += leakage_curve(
                row.strategy.name, content.series[row.strategy], points[:, 0], points[:, 1], measured
            )
    return marks


def _mean_leakage(curves: Sequence[Sequence[tuple[float, float]]]) -> Floats:
    """Return the mean curve of (average sharing ratio, seconds), float64[P, 2], over the plans of all seeds.

    Ratios are taken as parts of the largest of each plan, those of the plan with most points; other plans are
    interpolated there. One that shares nothing takes the same time at every part.

    Example:
        >>> plans = [[(0.0, 9.0), (0.1, 7.0), (0.2, 6.0)], [(0.0, 5.0), (0.4, 3.0)], [(0.0, 4.0)]]
        >>> _mean_leakage(plans).round(9).tolist()
        [[0.0, 6.0], [0.1, 5.0], [0.2, 4.333333333]]
    """
    found = [np.array(sorted(curve), dtype=np.float64) for curve in curves]
    longest = max(found, key=len)[:, 0]
    parts = longest / (longest[-1] or 1.0)
    ratios = [parts * curve[-1, 0] for curve in found]
    seconds = [np.interp(at, *curve.T) for at, curve in zip(ratios, found, strict=True)]
    return np.stack([np.mean(ratios, axis=0), np.mean(seconds, axis=0)], axis=1)


def cluster_map_of(content: Content, run: StoredRun) -> ClusterMap:
    """Return positions and clusters of users, as many as there is room for on the maps of all runs."""
    users, max_users = (
        run.tables["users"],
        min(_MAX_ON_A_MAP, _MAX_ON_MAPS // len(content.inside) // content.num_facets),
    )
    heads = [-1 if head is None else head for head in users["head"]]
    if len(heads) <= max_users and not places_known(run.scenario):
        return schematic_map(heads, user_names(run))
    return map_of_users(np.stack([users["x_m"], users["y_m"]], axis=1), heads, max_users)


def user_names(run: StoredRun) -> list[str]:
    """Return the names of the users of a run; empty: they have none."""
    return [] if run.plan is None or run.plan.names is None else [str(name) for name in run.plan.names]


def class_change_of(run: StoredRun, max_users: int | None = None) -> ClassChange:
    """Return the samples of each class before and after sharing."""
    table = run.tables["classes"]
    before, after = (
        np.stack([values for name, values in table.items() if name.startswith(start)], axis=1).astype(np.int64)
        for start in ("before_", "after_")
    )
    return class_change(before, after, max_users or MAX_COLUMNS)


def emd_change_of(run: StoredRun) -> UserValues:
    """Return the EMD of each user before and after sharing."""
    return sorted_users(run.tables["users"]["emd_before"], run.tables["users"]["emd_after"])


def user_energy_of(run: StoredRun) -> tuple[UserValues, float | None]:
    """Return the energy of each user in a round (0: the user does not train), and the budget of every user.

    The budget is None with a file of devices: users then have budgets of their own.
    """
    devices = run.scenario.devices
    budget_j = devices.energy_budget_j if devices.devices_file is None else None
    return sorted_users(run.tables["users"]["round_j"]), budget_j
