r"""The least average skew within a budget of leakage, by dynamic programming.

A limit on the average sharing ratio, :math:`\sum_m \ell_m N_m \le A`, couples the clusters, and costs need not be
convex, so that a price of leakage alone can miss the optimum. The budget is cut into equal parts; a volume takes as
many as cover what it leaks; and the best use of b parts by the clusters up to m follows from that of fewer parts by
those before:

.. math:: F_m(b) = \min_j\; F_{m-1}(b - j) + c_m(N_m(j))

This is O(parts x levels) over all clusters together, where a cluster has no more levels than parts. A coarse budget
costs little, since every volume found is fed to a descent.
"""

from __future__ import annotations

import numpy as np

from fedcast.allocation.tables import Table
from fedcast.typing import Floats, Ints

PARTS = 256
_DINKELBACH = 8


def least_within_budget(
    table: Table, caps: Floats, leaks: Floats, budget: float, ratio: float, parts: int = PARTS
) -> Floats:
    """Volumes float64[M] of least average skew, up to caps and a budget of leakage.

    Args:
        table: costs of the clusters.
        caps: float64[M], largest volumes.
        leaks: float64[M], leakage of a sample that the head sends, above 0.
        budget: of all leakage, above 0.
        ratio: average skew to start from; only where the average is a ratio of two sums.
        parts: of the budget.

    Example:
        >>> volumes = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
        >>> falling = Table(volumes, np.array([[9.0, 9.0], [8.0, 6.0], [7.0, 6.0]]), np.ones(2), 0.0, 1.0, False)
        >>> least_within_budget(falling, np.full(2, 2.0), np.ones(2), 2.0, 0.0).tolist()
        [1.0, 1.0]
    """
    levels = [_levels(cap, leak, budget, parts) for cap, leak in zip(caps, leaks, strict=True)]
    found = _best_levels(table, levels, parts, ratio)
    for _ in range(_DINKELBACH if table.fractional else 0):
        again = _best_levels(table, levels, parts, table.average(found))
        if table.average(again) >= table.average(found):
            break
        found = again
    return found


def _levels(cap: float, leak: float, budget: float, parts: int) -> Floats:
    """The largest volumes that 0, 1, 2, ... parts of the budget cover, the cap last."""
    per_part = budget / (parts * leak)
    count = int(min(np.ceil(cap / per_part), parts))
    volumes: Floats = np.minimum(np.arange(count + 1) * per_part, cap)
    return volumes


def _best_levels(table: Table, levels: list[Floats], parts: int, ratio: float) -> Floats:
    """The volumes of least total cost at a Dinkelbach ratio that take no more than all parts."""
    best, choices = np.zeros(parts + 1), []
    for cluster, volumes in enumerate(levels):
        best, choice = _with_another(best, table.cost_of(cluster, volumes, ratio))
        choices.append(choice)
    found, left = np.zeros(len(levels)), parts
    for cluster in reversed(range(len(levels))):
        level = int(choices[cluster][left])
        found[cluster] = levels[cluster][level]
        left -= level
    return found


def _with_another(best: Floats, costs: Floats) -> tuple[Floats, Ints]:
    """Least costs with b parts once another cluster joins, and the level that it takes, [parts + 1] each."""
    most = len(costs) - 1
    padded = np.concatenate([np.full(most, np.inf), best])
    # Row b: what the others need with b, b - 1, ..., b - most parts.
    others = np.lib.stride_tricks.sliding_window_view(padded, most + 1)[:, ::-1]
    totals = others + costs
    choice = totals.argmin(axis=1)
    return totals[np.arange(len(best)), choice], choice
