r"""The global optimum under a limit on the average sharing ratio, :math:`\sum_m \ell_m N_m \le A`.

The limit couples the clusters. A price p of leakage separates them again: for given delays (t, s) the least skew of the
priced costs, less :math:`p A`, is a lower bound at any price (weak duality), and the largest over a grid of prices says
where on (t, s) the optimum can be. There the least skew within the limit is found by dynamic programming, smallest
bound first, until no bound is below the best delay found or `MAX_VISITS` points have been visited. Costs need not be
convex: two ways to spend a budget can differ by less than a cell of the grid, so that a descent starts from each.

The dynamic programme divides the budget into equal parts; a volume takes as many as cover its leakage; the best use of
b parts by the clusters up to m follows from that of fewer parts by those before:

.. math:: F_m(b) = \min_j\; F_{m-1}(b - j) + c_m(N_m(j))

This is O(parts x levels) over all clusters together, where a cluster has no more levels than parts. A coarse budget
loses little, since a descent starts from every volume found.
"""

from __future__ import annotations

import numpy as np

from fedcast.allocation.allocation_problem import AllocationProblem
from fedcast.allocation.engine import Solution, Step, descend
from fedcast.allocation.oracle.cost_table import CostTable
from fedcast.allocation.oracle.delay_grid import DelayGrid, Window, full_window, grid_in, least_skew, task_delay
from fedcast.typing import Floats, Ints

COARSE = 48
FINE = 17
ZOOMS = 2
RATIOS = 17
PRICES = 17
# Largest number of points visited on one grid.
MAX_VISITS = 16
# Steps of the last descent: a price moves all volumes a little at every step.
LAST_STEPS = 30
# Descents from ratios that differ by less are assumed to end at the same ones.
_SAME_START = 0.1
# Parts of the budget in the dynamic programme.
PARTS = 256
_DINKELBACH_STEPS = 8


def limited_optimum(problem: AllocationProblem, table: CostTable) -> Solution:
    """Return the optimum where the limit binds, from a table of the clusters' costs."""
    window = full_window(problem)
    # A good start saves visits.
    best = descend(problem, problem.start())
    starts, trace = [best], []
    for zoom in range(1 + ZOOMS):
        grid = grid_in(problem, window, COARSE if zoom == 0 else FINE)
        skew = skew_lower_bound(problem, table, grid)
        best, window = _visit(problem, table, grid, skew, best, starts)
        trace.append(Step(problem.objective_s(problem.at(best)), 0.0))
    best = descend(problem, best, LAST_STEPS)
    return Solution(best, (*trace, Step(problem.objective_s(problem.at(best)), 0.0)))


def skew_lower_bound(problem: AllocationProblem, table: CostTable, grid: DelayGrid) -> Floats:
    """Return a lower bound of the least average skew within the limit at every point, float64[G, H]."""
    feasible = problem.feasible
    leaks, most = feasible.leak / feasible.sizes, feasible.upper * feasible.sizes
    before = problem.averages.at(np.zeros_like(most)).skew
    # No skew is below the least one without a limit.
    least = float(least_skew(table, most, np.linspace(0.0, before, RATIOS)))
    ratios = np.linspace(min(least, before), before, RATIOS)
    # Denser at low prices: at the highest even the best head shares nothing.
    prices = _highest_price(table, leaks) * np.linspace(0, 1, PRICES) ** 2
    bounds = [grid.least_skew(table.priced(p * leaks, p * feasible.max_leak), ratios) for p in prices]
    bound: Floats = np.max(bounds, axis=0)
    return bound


def _highest_price(table: CostTable, leaks: Floats) -> float:
    """Return a price of leakage at which no head gains by sharing anything."""
    drop = (table.costs[0] - table.costs[1:]) / np.maximum(table.volumes[1:], 1e-300)
    worth = drop.max(axis=0) + (2 * table.members if table.fractional else 0.0)
    return float((worth / leaks).max(initial=0.0))


def _visit(
    problem: AllocationProblem,
    table: CostTable,
    grid: DelayGrid,
    skew: Floats,
    best: Floats,
    starts: list[Floats],
) -> tuple[Floats, Window]:
    """Return the best ratios at the points whose bounds are below the best delay, and the window to refine.

    Start points of descents and their ends are appended to `starts`.
    """
    feasible = problem.feasible
    leaks = feasible.leak / feasible.sizes
    values = task_delay(problem, grid, skew)
    centre = int(values.argmin())
    for place in values.argsort(axis=None)[:MAX_VISITS]:
        if values.flat[place] >= problem.objective_s(problem.at(best)):
            break
        i, j = np.unravel_index(int(place), values.shape)
        volumes = least_within_budget(table, grid.caps(int(i), int(j)), leaks, feasible.max_leak, float(skew[i, j]))
        found = volumes / feasible.sizes
        if min(float(np.abs(found - other).max()) for other in starts) > _SAME_START:
            starts += [found, descend(problem, found)]
        better = problem.best_of([best, found, starts[-1]])
        if better is not best:
            best, centre = better, int(place)
    i, j = np.unravel_index(centre, values.shape)
    return best, grid.around(int(i), int(j))


def least_within_budget(
    table: CostTable, caps: Floats, leaks: Floats, budget: float, ratio: float, parts: int = PARTS
) -> Floats:
    """Return volumes float64[M] of least average skew, up to caps and a budget of leakage.

    `leaks` float64[M] is the leakage of one sample that the head sends, above 0; `ratio` an average skew to start from,
    used with weighting B only.

    Example:
        >>> volumes = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
        >>> falling = CostTable(volumes, np.array([[9.0, 9.0], [8.0, 6.0], [7.0, 6.0]]), np.ones(2), 0.0, 1.0, False)
        >>> least_within_budget(falling, np.full(2, 2.0), np.ones(2), 2.0, 0.0).tolist()
        [1.0, 1.0]
    """
    levels = [_levels(cap, leak, budget, parts) for cap, leak in zip(caps, leaks, strict=True)]
    found = _best_levels(table, levels, parts, ratio)
    for _ in range(_DINKELBACH_STEPS if table.fractional else 0):
        again = _best_levels(table, levels, parts, table.average(found))
        if table.average(again) >= table.average(found):
            break
        found = again
    return found


def _levels(cap: float, leak: float, budget: float, parts: int) -> Floats:
    """Return the largest volumes that 0, 1, 2, ... parts of the budget cover, the cap last."""
    per_part = budget / (parts * leak)
    count = int(min(np.ceil(cap / per_part), parts))
    volumes: Floats = np.minimum(np.arange(count + 1) * per_part, cap)
    return volumes


def _best_levels(table: CostTable, levels: list[Floats], parts: int, ratio: float) -> Floats:
    """Return the volumes of least total cost at a Dinkelbach ratio that take at most all parts."""
    best, choices = np.zeros(parts + 1), []
    for cluster, volumes in enumerate(levels):
        best, choice = _with_cluster(best, table.cost_of(cluster, volumes, ratio))
        choices.append(choice)
    found, left = np.zeros(len(levels)), parts
    for cluster in reversed(range(len(levels))):
        level = int(choices[cluster][left])
        found[cluster] = levels[cluster][level]
        left -= level
    return found


def _with_cluster(best: Floats, costs: Floats) -> tuple[Floats, Ints]:
    """Return the least costs with b parts after adding a cluster, and the level that it takes, [parts + 1] each."""
    most = len(costs) - 1
    padded = np.concatenate([np.full(most, np.inf), best])
    # Row b: least cost of the others with b, b - 1, ..., b - most parts.
    others = np.lib.stride_tricks.sliding_window_view(padded, most + 1)[:, ::-1]
    totals = others + costs
    choice = totals.argmin(axis=1)
    return totals[np.arange(len(best)), choice], choice
