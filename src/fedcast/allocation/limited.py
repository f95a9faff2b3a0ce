r"""The global optimum under a limit on the average sharing ratio, :math:`\sum_m \ell_m N_m \le A`.

The limit couples the clusters. A price p of leakage separates them again: for given delays (t, s) the least skew of the
priced costs, less :math:`p A`, is a bound from below at any price (weak duality), and the largest over a grid of prices
says where on (t, s) the optimum can be. There the least skew within the limit is found by dynamic programming
(`fedcast.allocation.budget`), best bound first, until no bound is below the best delay found or `VISITS` points have
been looked at. Costs need not be convex: two ways to spend a budget can differ by less than a cell of the grid, so that
each is followed down by a descent.
"""

from __future__ import annotations

import numpy as np

from fedcast.allocation.budget import least_within_budget
from fedcast.allocation.delays import Delays, Window, delay_of_task, delays_in, least_skew, whole_window
from fedcast.allocation.engine import Found, Step, better_of
from fedcast.allocation.problem import AllocationProblem
from fedcast.allocation.saa import closed_in_on
from fedcast.allocation.tables import Table
from fedcast.typing import Floats

COARSE = 48
FINE = 17
ZOOMS = 2
RATIOS = 17
PRICES = 17
# Points of one grid that are looked at, at most.
VISITS = 16
# Of the last descent: a price moves all volumes a little at every step.
LAST_STEPS = 30
# Ratios that differ by less are taken to lead a descent to the same end.
_ALIKE = 0.1


def limited_optimum(problem: AllocationProblem, table: Table) -> Found:
    """The optimum where the limit binds, from a table of the clusters' costs."""
    window = whole_window(problem)
    # A good start spares visits.
    best = closed_in_on(problem, problem.start())
    followed, trace = [best], []
    for zoom in range(1 + ZOOMS):
        delays = delays_in(problem, window, COARSE if zoom == 0 else FINE)
        skew = skew_from_below(problem, table, delays)
        best, window = _visit(problem, table, delays, skew, best, followed)
        trace.append(Step(problem.objective_s(problem.at(best)), 0.0))
    best = closed_in_on(problem, best, LAST_STEPS)
    return Found(best, (*trace, Step(problem.objective_s(problem.at(best)), 0.0)), best)


def skew_from_below(problem: AllocationProblem, table: Table, delays: Delays) -> Floats:
    """A bound of the least average skew within the limit at every point, float64[G, H]."""
    feasible = problem.feasible
    leaks, most = feasible.leak / feasible.sizes, feasible.upper * feasible.sizes
    before = problem.averages.at(np.zeros_like(most)).skew
    # No answer is below the least skew without any limit.
    least = float(least_skew(table, most, np.linspace(0.0, before, RATIOS)))
    ratios = np.linspace(min(least, before), before, RATIOS)
    # Closer together where they are low: the highest of all holds back even the best head.
    prices = _highest_price(table, leaks) * np.linspace(0, 1, PRICES) ** 2
    bounds = [delays.least_skew(table.priced(p * leaks, p * feasible.max_leak), ratios) for p in prices]
    bound: Floats = np.max(bounds, axis=0)
    return bound


def _highest_price(table: Table, leaks: Floats) -> float:
    """A price of leakage at which no head gains by sharing anything."""
    drop = (table.costs[0] - table.costs[1:]) / np.maximum(table.volumes[1:], 1e-300)
    worth = drop.max(axis=0) + (2 * table.members if table.fractional else 0.0)
    return float((worth / leaks).max(initial=0.0))


def _visit(
    problem: AllocationProblem,
    table: Table,
    delays: Delays,
    skew: Floats,
    best: Floats,
    followed: list[Floats],
) -> tuple[Floats, Window]:
    """The best ratios at the points whose bounds promise any better, and the window around the most promising."""
    feasible = problem.feasible
    leaks = feasible.leak / feasible.sizes
    values = delay_of_task(problem, delays, skew)
    centre = int(values.argmin())
    for place in values.argsort(axis=None)[:VISITS]:
        if values.flat[place] >= problem.objective_s(problem.at(best)):
            break
        i, j = np.unravel_index(int(place), values.shape)
        volumes = least_within_budget(table, delays.caps(int(i), int(j)), leaks, feasible.max_leak, float(skew[i, j]))
        found = volumes / feasible.sizes
        if min(float(np.abs(found - other).max()) for other in followed) > _ALIKE:
            followed += [found, closed_in_on(problem, found)]
        better = better_of(problem, [best, found, followed[-1]])
        if better is not best:
            best, centre = better, int(place)
    i, j = np.unravel_index(centre, values.shape)
    return best, delays.around(int(i), int(j))
