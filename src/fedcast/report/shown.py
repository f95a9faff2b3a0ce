"""From runs to the numbers of figures; the page and the export draw the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcast.report.content import Content
from fedcast.report.figures.class_change import MAX_USERS, ClassChange, class_change
from fedcast.report.figures.cluster_map import ClusterMap, map_of_users
from fedcast.report.figures.delay_split import PARTS, DelaySplit, delay_split
from fedcast.report.figures.emd_change import EmdChange, emd_change
from fedcast.report.figures.leakage import LeakageCurve, leakage_curve
from fedcast.report.figures.learning import Curve, curve
from fedcast.report.figures.user_energy import UserEnergy, user_energy
from fedcast.runs.store import StoredRun


@dataclass(frozen=True)
class Measure:
    """A quantity over the course of training."""

    column: str
    title: str
    is_share: bool


@dataclass(frozen=True)
class Axis:
    """What the course is drawn against."""

    column: str
    title: str


MEASURES = (Measure("accuracy", "Test accuracy", True), Measure("test_loss", "Test loss", False))
AXES = (Axis("round", "round"), Axis("seconds", "simulated seconds"))


def curves(content: Content, measure: Measure, axis: Axis) -> list[Curve]:
    """One curve per strategy."""
    return [
        curve(
            row.strategy.name,
            content.series[row.strategy],
            [(run.history.column(axis.column), run.history.column(measure.column)) for run in content.runs_of(row)],
        )
        for row in content.rows
    ]


def time_split(content: Content) -> DelaySplit:
    """Mean over seeds, up to the target or the last round."""
    seconds = [[row.measures[f"{part}_s"].mean for part in PARTS] for row in content.rows]
    return delay_split([row.strategy.name for row in content.rows], seconds)


def leakage_curves(content: Content) -> list[LeakageCurve]:
    """One curve per run that was planned with one."""
    found = []
    for run in content.runs:
        if run.plan is None or not run.plan.leakage:
            continue
        result, points = content.scores[run], run.plan.leakage
        found.append(
            leakage_curve(
                result.strategy.name,
                content.series_of(run),
                [point.average_sharing_ratio for point in points],
                [point.delay_s for point in points],
                (result.average_sharing_ratio, result.total_s) if result.reached else None,
            )
        )
    return found


def heads_of(run: StoredRun) -> NDArray[np.int64]:
    """The head of each user, int64[K]; -1: none."""
    return np.array([-1 if head is None else head for head in run.tables["users"]["head"]], dtype=np.int64)


def cluster_map_of(run: StoredRun, max_users: int) -> ClusterMap:
    """Where users stand, and who leads them."""
    users = run.tables["users"]
    return map_of_users(np.stack([users["x_m"], users["y_m"]], axis=1), heads_of(run), users["emd_after"], max_users)


def class_change_of(run: StoredRun, max_users: int = MAX_USERS) -> ClassChange:
    """Samples of each class before and after sharing."""
    table = run.tables["classes"]
    return class_change(_columns(table, "before_"), _columns(table, "after_"), max_users)


def emd_change_of(run: StoredRun) -> EmdChange:
    """EMD of each user before and after sharing."""
    users = run.tables["users"]
    return emd_change(users["emd_before"], users["emd_after"])


def user_energy_of(run: StoredRun) -> UserEnergy:
    """Energy of each user in a round; a file of devices may give each a budget of its own."""
    devices = run.scenario.devices
    budget = devices.energy_budget_j if devices.devices_file is None else None
    return user_energy(run.tables["users"]["round_j"], budget)


def _columns(table: dict[str, list[Any]], start: str) -> NDArray[np.int64]:
    return np.stack([values for name, values in table.items() if name.startswith(start)], axis=1).astype(np.int64)
