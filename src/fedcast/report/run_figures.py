"""Figures of the runs of a report, and the numbers that they are drawn from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedcast.plan import places_known
from fedcast.report.content import Content
from fedcast.report.drawing import Dots, Figure, Line
from fedcast.report.figures.maps import ClusterMap, map_of_users, schematic_map
from fedcast.report.figures.training import (
    MAX_POINTS,
    PARTS,
    curves_figure,
    delay_figure,
    leakage_curve,
    learning_curve,
    users_curve,
    users_figure,
)
from fedcast.report.figures.users import MAX_COLUMNS, ClassChange, UserValues, class_change, sorted_users
from fedcast.runs import StoredRun, user_scores
from fedcast.typing import Floats

# Columns of a history that are drawn, with their titles.
MEASURES = {"accuracy": "Test accuracy", "test_loss": "Test loss"}
# Accuracies of users that are drawn, with their titles.
USER_SCORES = {
    "own_accuracy": "Accuracy of users, own labels",
    "fine_tuned_own_accuracy": "Accuracy of users, own labels, after fine-tuning",
    "fine_tuned_accuracy": "Accuracy of users, all labels, after fine-tuning",
}
# Limits that keep the page small: users on all maps, users on one map, points of the learning curves of a measure in
# all facets, and the fewest of one.
_MAX_ON_MAPS = 6_000
_MAX_ON_A_MAP = 1_500
_ALL_POINTS = 3_000
_MIN_POINTS = 15


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
