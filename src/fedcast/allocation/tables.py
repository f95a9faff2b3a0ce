"""Costs of clusters in tables: for whatever must look at all volumes at once, since costs need not be convex."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedcast.allocation.problem import AllocationProblem
from fedcast.typing import Floats, Ints


@dataclass(frozen=True, eq=False)
class Table:
    """Costs of each cluster at evenly spaced volumes.

    Attributes:
        volumes: float64[G, M].
        costs: float64[G, M], what the cluster adds to the numerator of the average skew.
        members: float64[M].
        rest: numerator of the other users.
        total: denominator without sharing.
        fractional: whether the denominator grows with sharing (weighting B).
    """

    volumes: Floats
    costs: Floats
    members: Floats
    rest: float
    total: float
    fractional: bool

    def running_least(self, ratio: float) -> tuple[Floats, Floats, Ints]:
        """Costs at this Dinkelbach ratio, their running minimum by volume, and where it is attained; [G, M] each."""
        priced = self.costs - ratio * self.members * self.volumes if self.fractional else self.costs
        least = np.minimum.accumulate(priced, axis=0)
        places = np.where(priced <= least, np.arange(len(priced))[:, None], 0)
        return priced, least, np.maximum.accumulate(places, axis=0)

    def priced(self, per_sample: Floats, refund: float) -> Table:
        """The same table when a sample that a head sends costs float64[M] more, and all together get a refund."""
        return replace(self, costs=self.costs + per_sample * self.volumes, rest=self.rest - refund)

    def cost_of(self, cluster: int, volumes: Floats, ratio: float) -> Floats:
        """Costs of one cluster at volumes float64[L] and this Dinkelbach ratio, straight lines between rows."""
        costs: Floats = np.interp(volumes, self.volumes[:, cluster], self.costs[:, cluster])
        return costs - ratio * self.members[cluster] * volumes if self.fractional else costs

    def average(self, volumes: Floats) -> float:
        """Average skew at volumes float64[M]."""
        costs = sum(float(self.cost_of(m, volume, 0.0)) for m, volume in enumerate(volumes))
        return (self.rest + costs) / (self.total + (float(self.members @ volumes) if self.fractional else 0.0))

    def places(self, caps: Floats) -> tuple[Ints, Floats]:
        """Row of the table at or below caps[..., M], and how far the cap is on the way to the next row."""
        spacing = np.maximum(self.volumes[1], 1e-300)
        where = caps / spacing
        row = np.minimum(where.astype(np.int64), len(self.volumes) - 2)
        return row, where - row


def cluster_table(problem: AllocationProblem, rows: int) -> Table:
    """Costs of each cluster at `rows` volumes from 0 to the largest it may send."""
    averages, most = problem.averages, problem.feasible.upper * problem.feasible.sizes
    volumes = np.linspace(0.0, most, rows)
    costs = np.stack([averages.at(row).costs for row in volumes])
    fractional = averages.weighting == "B"
    total = averages.held if fractional else averages.total
    return Table(volumes, costs, averages.members_of, averages.rest, total, fractional)


def cheapest_volumes(table: Table, caps: Floats, ratio: float) -> Floats:
    """The cheapest volume of each cluster up to its cap, float64[M]."""
    priced, least, places = table.running_least(ratio)
    row, part = table.places(caps)
    clusters = np.arange(len(caps))
    at_cap = priced[row, clusters] * (1 - part) + priced[row + 1, clusters] * part
    in_table = table.volumes[places[row, clusters], clusters]
    return np.where(at_cap < least[row, clusters], caps, in_table)


def less_skewed(problem: AllocationProblem, x: Floats, rows: int) -> Floats:
    """Ratios of least average skew among those that take no longer to share and to train a round than x does.

    It leaves a cluster's local optimum for its global one, to the resolution of a table.
    """
    feasible, point = problem.feasible, problem.at(x)
    in_time = np.minimum(point.sharing_s * feasible.rate * feasible.sizes, feasible.delay.caps(point.round_s)[0])
    caps = np.minimum(feasible.upper * feasible.sizes, in_time)
    return cheapest_volumes(cluster_table(problem, rows), caps, point.skewness.skew) / feasible.sizes
