"""Tables of the clusters' costs over all volumes, and the least average skew in them; nothing need be convex."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedcast.allocation.allocation_problem import AllocationProblem
from fedcast.typing import Floats, Ints


@dataclass(frozen=True, eq=False)
class CostTable:
    """The cost of each cluster at evenly spaced volumes."""

    volumes: Floats  # [G, M]
    costs: Floats  # [G, M], what the cluster adds to the numerator of the average skew
    members: Floats  # [M], number of members, times the worth of what they receive
    rest: float  # what the other users add to the numerator
    total: float  # denominator without sharing
    fractional: bool  # whether the denominator grows with sharing (weighting B)

    def running_least(self, ratio: float) -> tuple[Floats, Floats, Ints]:
        """Return costs at a Dinkelbach ratio, their running minimum by volume, and the row of it, [G, M] each."""
        priced = self.costs - ratio * self.members * self.volumes if self.fractional else self.costs
        least = np.minimum.accumulate(priced, axis=0)
        places = np.where(priced <= least, np.arange(len(priced))[:, None], 0)
        return priced, least, np.maximum.accumulate(places, axis=0)

    def priced(self, price: Floats) -> CostTable:
        """Return the table with a price per sample of each cluster's volume, float64[M], added to the costs."""
        return replace(self, costs=self.costs + price * self.volumes)

    def cost_of(self, cluster: int, volumes: Floats, ratio: float) -> Floats:
        """Return costs of one cluster at volumes float64[L] and a Dinkelbach ratio, interpolated between rows."""
        costs: Floats = np.interp(volumes, self.volumes[:, cluster], self.costs[:, cluster])
        return costs - ratio * self.members[cluster] * volumes if self.fractional else costs

    def average(self, volumes: Floats) -> float:
        """Return the average skew at volumes float64[M]."""
        costs = sum(float(self.cost_of(m, volume, 0.0)) for m, volume in enumerate(volumes))
        return (self.rest + costs) / (self.total + (float(self.members @ volumes) if self.fractional else 0.0))

    def places(self, caps: Floats) -> tuple[Ints, Floats]:
        """Return the row at or below caps[..., M], and the position of the cap between it and the next row."""
        where = caps / np.maximum(self.volumes[1], 1e-300)
        row = np.minimum(where.astype(np.int64), len(self.volumes) - 2)
        return row, where - row


def cluster_table(problem: AllocationProblem, rows: int) -> CostTable:
    """Return the costs of each cluster at `rows` volumes from 0 to its largest."""
    averages, most = problem.averages, problem.feasible.upper * problem.feasible.sizes
    volumes = np.linspace(0.0, most, rows)
    costs = np.stack([averages.at(row).costs for row in volumes])
    fractional = averages.weighting == "B"
    total = averages.held if fractional else averages.total
    return CostTable(volumes, costs, averages.worth * averages.members_of, averages.rest, total, fractional)


def cheapest_volumes(table: CostTable, caps: Floats, ratio: float) -> Floats:
    """Return the cheapest volume of each cluster up to its cap, float64[M]."""
    priced, least, places = table.running_least(ratio)
    row, part = table.places(caps)
    clusters = np.arange(len(caps))
    at_cap = priced[row, clusters] * (1 - part) + priced[row + 1, clusters] * part
    in_table = table.volumes[places[row, clusters], clusters]
    return np.where(at_cap < least[row, clusters], caps, in_table)


def least_skew(table: CostTable, caps: Floats, ratios: Floats) -> Floats:
    """Return the least average skew with volumes up to caps[..., M], float64[...].

    `ratios` are ascending Dinkelbach ratios around the answer; ignored unless weighting is B.
    """
    if not table.fractional:
        return least_sums(table, caps, 0.0) / table.total
    sums = [least_sums(table, caps, float(ratio)) for ratio in ratios]
    if ratios[-1] <= ratios[0]:
        return np.full(sums[0].shape, ratios[0])
    # The sums are concave and decrease with the ratio: interpolate where they cross 0.
    falling = np.stack(sums)
    right = np.clip((falling > 0).sum(axis=0), 1, len(ratios) - 1)
    above, below = (np.take_along_axis(falling, place[None], axis=0)[0] for place in (right - 1, right))
    left_ratio, width = ratios[right - 1], ratios[right] - ratios[right - 1]
    root: Floats = left_ratio + width * above / np.maximum(above - below, 1e-300)
    return root


def least_sums(table: CostTable, caps: Floats, ratio: float) -> Floats:
    """Return the least of numerator - ratio x denominator of the average skew with volumes up to caps[..., M]."""
    row, part = table.places(caps)
    clusters = np.arange(caps.shape[-1])
    priced, least, _ = table.running_least(ratio)
    at_cap = priced[row, clusters] * (1 - part) + priced[row + 1, clusters] * part
    sums: Floats = table.rest + np.minimum(least[row, clusters], at_cap).sum(axis=-1) - ratio * table.total
    return sums
