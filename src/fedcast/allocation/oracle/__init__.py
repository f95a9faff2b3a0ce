r"""Oracle: the global optimum by exhaustive search in two dimensions, for tests and for the reported gap.

Given the sharing delay t and the round delay s, every volume has a known cap,
:math:`c_m = \min(\alpha_m n_m,\; t\, r_m,\; u_m(s))`, and since expected rounds increase with the average skew the
best volumes are those of least skew:

.. math:: \Psi^* = \min_{t, s}\; t + \mathbb{E}_\beta[T(D^*(t, s); \beta)]\, s

Under weightings A and C the clusters separate, and the least cost of each up to its cap is a running minimum over a
table. Under B the average is a ratio; with Dinkelbach's :math:`\lambda` each cluster minimises
:math:`\sum_c \|n_c \delta_c + V(N)\|_1 - \lambda |C_m| N`, and :math:`D^*` is the :math:`\lambda` at which the sum
over all users is 0. Nothing is assumed convex. A grid over (t, s), and over :math:`\lambda` for B, is refined around
its best point.

A limit on the average sharing ratio, :math:`\sum_m \ell_m N_m \le A`, couples the clusters. A price p of leakage
separates them again: for given (t, s) the least skew of the priced costs, less :math:`p A`, is a lower bound at any
price (weak duality), and the largest over a grid of prices says where on (t, s) the optimum can be. There the least
skew within the limit is found, smallest bound first, until no bound is below the best delay found or `MAX_VISITS`
points have been visited. It is a dynamic programme over equal parts of the budget: the best use of b parts by the
clusters up to m follows from that of fewer parts by those before,

.. math:: F_m(b) = \min_j\; F_{m-1}(b - j) + c_m(N_m(j))

Coarse parts lose little, since a descent starts from every volume found.

With form ``law`` rounds depend on the local steps too; `fedcast.allocation.oracle.front` has what replaces the least
skew. The best volumes are then not proven to be optimal, and a lower bound of the delay is reported with them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fedcast.allocation.allocation_problem import AllocationProblem
from fedcast.allocation.engine import Solution, descend, step_at
from fedcast.allocation.methods import Method
from fedcast.allocation.oracle.cost_table import CostTable, cheapest_volumes, cluster_table, least_skew
from fedcast.allocation.oracle.front import RATIOS as WORK_RATIOS
from fedcast.allocation.oracle.front import FrontMaker, all_prices
from fedcast.errors import FedcastError
from fedcast.registry import NoOptions
from fedcast.typing import Floats, Ints

ROWS = 513
# Points of the first grid and of the refined ones in each dimension.
COARSE = 48
FINE = 17
# Cells of the grid on each side of the best one that are refined.
CELLS = 2
# Numbers in the largest temporary array, 64 MiB.
_BLOCK = 2**23
# Refinements and Dinkelbach ratios, without and with a limit.
ZOOMS, LIMITED_ZOOMS = 12, 2
RATIOS, LIMITED_RATIOS = 9, 17
PRICES = 17
# With rounds that depend on local steps: points of the first grid, refinements, and prices around the best of steps.
WORK_COARSE = 24
WORK_ZOOMS = 3
PRICE_FACTORS = np.geomspace(0.2, 5.0, 21)
# Bounds are proven to this share of the delay if so many cells of sharing delay and delay of a round suffice.
BOUND_TOLERANCE = 1e-3
CELL_PARTS = 4
MAX_CELLS = 6_000
# Largest number of points visited on one grid.
MAX_VISITS = 16
# Steps of the last descent within a limit: a price moves all volumes a little at every step.
LAST_STEPS = 30
# Descents from ratios that differ by less are assumed to end at the same ones.
_SAME_START = 0.1
# Parts of the budget in the dynamic programme.
PARTS = 256
_DINKELBACH_STEPS = 8

# Intervals of the sharing delay t and of the delay s of a round.
Window = tuple[tuple[float, float], tuple[float, float]]


def oracle(problem: AllocationProblem, options: NoOptions | None = None) -> Solution:  # noqa: ARG001
    """Return the global optimum: grids down to about 1e-6 of the range of each delay, then a descent."""
    form = problem.betas.form
    if form == "extended" and (problem.betas.betas[:, 2] != 0).any():
        raise FedcastError(
            "invalid value 'extended' for rounds.form with allocation.method = oracle: rounds depend on the shift of "
            "the overall label distribution, which couples the clusters; use method jfvo, or another form"
        )
    feasible = problem.feasible
    if np.isfinite(feasible.max_leak) and feasible.leak.any() and not feasible.leak.all():
        raise FedcastError(
            "allocation.method = oracle: it solves no limit of the average sharing ratio (allocation.max_asr) where "
            "some heads reveal samples and others do not; use method jfvo"
        )
    if problem.num_clusters == 0 or feasible.max_leak <= 0:
        x = np.zeros(problem.num_clusters)
        step = step_at(problem, x)
        return Solution(x, (step,), step.objective_s)
    table = cluster_table(problem, ROWS)
    if form == "law":
        return _optimum_with_local_work(problem, table)
    found = _free_optimum(replace(problem, feasible=replace(problem.feasible, max_leak=np.inf)), table)
    return found if problem.feasible.allows(found.x) else _limited_optimum(problem, table)


class DelayGrid(NamedTuple):
    """A grid over sharing delays and delays of a round."""

    sharing: Floats  # [G], sharing delays
    round: Floats  # [H], delays of a round
    by_round: Floats  # [H, M], the largest volumes for each delay of a round
    per_second: Floats  # [M], volume that each head sends per second

    def caps(self, i: int, j: int) -> Floats:
        """Return the largest volumes at one point, float64[M]."""
        caps: Floats = np.minimum(self.sharing[i] * self.per_second, self.by_round[j])
        return caps

    def least_skew(self, table: CostTable, ratios: Floats) -> Floats:
        """Return the least average skew at every point, float64[G, H]."""
        rows = max(1, _BLOCK // self.by_round.size)
        blocks = [self.sharing[start : start + rows, None, None] for start in range(0, len(self.sharing), rows)]
        caps = (np.minimum(block * self.per_second, self.by_round) for block in blocks)
        return np.concatenate([least_skew(table, some, ratios) for some in caps])

    def task_delay(self, problem: AllocationProblem, skew: Floats) -> Floats:
        """Return the expected delay of the task at every point with average skews float64[G, H], s."""
        # E[T] is smooth in the skew: a fine table suffices for a choice that is evaluated exactly afterwards.
        skews = np.linspace(skew.min(), skew.max(), 400) if skew.max() > skew.min() else skew.reshape(-1)[:1]
        rounds = np.array([problem.betas.expected(float(d)).rounds for d in skews])
        delay: Floats = self.sharing[:, None] + np.interp(skew, skews, rounds) * self.round
        return delay

    def around(self, i: int, j: int) -> Window:
        """Return the window around one point."""
        near_t, near_s = (grid[max(k - CELLS, 0) : k + CELLS + 1] for grid, k in ((self.sharing, i), (self.round, j)))
        return (float(near_t[0]), float(near_t[-1])), (float(near_s[0]), float(near_s[-1]))


def full_window(problem: AllocationProblem) -> Window:
    """Return the window of all delays that volumes within their bounds can have."""
    upper, delay = problem.feasible.upper, problem.feasible.delay
    longest = delay.at(upper * problem.feasible.sizes)
    return (0.0, float((upper / problem.feasible.rate).max())), (delay.floor_s, longest)


def grid_in(problem: AllocationProblem, window: Window, points: int) -> DelayGrid:
    """Return a grid with the given number of points in each dimension; an empty interval is one point."""
    feasible = problem.feasible
    sharing, rounds = (np.unique(np.linspace(*ends, points)) for ends in window)
    by_round = np.stack([np.minimum(feasible.upper * feasible.sizes, feasible.delay.caps(s)[0]) for s in rounds])
    return DelayGrid(sharing, rounds, by_round, feasible.rate * feasible.sizes)


def _free_optimum(problem: AllocationProblem, table: CostTable) -> Solution:
    """Return the optimum without a limit on the average sharing ratio, from a table of the clusters' costs."""
    window, skews = full_window(problem), (0.0, 2.0)
    best, trace = np.zeros(problem.num_clusters), []
    for zoom in range(1 + ZOOMS):
        grid = grid_in(problem, window, COARSE if zoom == 0 else FINE)
        skew = grid.least_skew(table, np.linspace(*skews, RATIOS))
        i, j = divmod(int(grid.task_delay(problem, skew).argmin()), skew.shape[1])
        found = cheapest_volumes(table, grid.caps(i, j), float(skew[i, j])) / problem.feasible.sizes
        best = problem.best_of([best, found, np.zeros_like(best)])
        trace.append(step_at(problem, best))
        near = skew[max(i - CELLS, 0) : i + CELLS + 1, max(j - CELLS, 0) : j + CELLS + 1]
        window, skews = grid.around(i, j), (float(near.min()), float(near.max()))
    # A descent from the best volumes finds those between two rows of the table.
    best = descend(problem, best).x
    return Solution(best, (*trace, step_at(problem, best)))


def _optimum_with_local_work(problem: AllocationProblem, table: CostTable) -> Solution:
    """Return the best volumes found where rounds depend on local steps too, and a bound of what may be better."""
    slopes = problem.averages.steps_gradient
    maker, window, prices = FrontMaker(problem, table), full_window(problem), all_prices(problem, table)
    ratios = maker.all_ratios
    best = descend(problem).x
    trace = [step_at(problem, best)]
    for zoom in range(1 + WORK_ZOOMS):
        grid = grid_in(problem, window, WORK_COARSE if zoom == 0 else FINE)
        caps = np.minimum(grid.sharing[:, None, None] * grid.per_second, grid.by_round).reshape(-1, len(slopes))
        rounds, ratio, price = maker.front(ratios, prices).bounds(caps, cells=False)
        values = grid.sharing[:, None] + rounds.reshape(len(grid.sharing), -1) * grid.round
        place = int(values.argmin())
        volumes = cheapest_volumes(table.priced(-price[place] * slopes), caps[place], float(ratio[place]))
        found = problem.feasible.scaled_to_limit(volumes / problem.feasible.sizes)
        best = problem.best_of([best, found, descend(problem, found).x])
        trace.append(step_at(problem, best))
        window = grid.around(*divmod(place, values.shape[1]))
        width = (ratios[1] - ratios[0]) / WORK_RATIOS
        ratios = max(ratios[0], ratio[place] - width), min(ratios[1], ratio[place] + width)
        prices = price[place] * PRICE_FACTORS
    best = descend(problem, best, LAST_STEPS).x
    trace.append(step_at(problem, best))
    return Solution(best, tuple(trace), lower_bound_s(maker, trace[-1].objective_s, prices))


def lower_bound_s(maker: FrontMaker, found_s: float, prices: Floats) -> float:
    """Return a delay that no volumes are below, by branch and bound over the sharing delay and the delay of a round.

    A cell of both has at most the volumes of its longest delays, and at least its shortest delays. Cells that cannot be
    better than `found_s` by `BOUND_TOLERANCE` are dropped, the others divided, up to `MAX_CELLS`. `prices` of local
    steps are tried beside those of all orders. It is exact to the resolution of the tables.
    """
    problem = maker.problem
    front = maker.front(maker.all_ratios, np.union1d(all_prices(problem, maker.table), prices))
    feasible, goal = problem.feasible, found_s * (1 - BOUND_TOLERANCE)
    cells, rounds = np.array([full_window(problem)]), np.ones(1)
    while True:
        cells = _divided(cells, rounds)
        ends, place = np.unique(cells[:, 1, 1], return_inverse=True)
        by_round = np.stack([np.minimum(feasible.upper * feasible.sizes, feasible.delay.caps(s)[0]) for s in ends])
        caps = np.minimum(cells[:, 0, 1:] * feasible.rate * feasible.sizes, by_round[place])
        rounds = front.bounds(caps, cells=True)[0]
        bounds = cells[:, 0, 0] + cells[:, 1, 0] * rounds
        left = bounds < goal
        if not left.any():
            return goal
        if CELL_PARTS * left.sum() > MAX_CELLS:
            return float(bounds.min())
        cells, rounds = cells[left], rounds[left]


def _divided(cells: Floats, rounds: Floats) -> Floats:
    """Return cells float64[C, 2, 2], the ends of both delays, in parts along the delay that matters more to the task.

    `rounds` float64[C] are those of each cell, with which the delay of a round counts.
    """
    widths = np.diff(cells, axis=2)[:, :, 0]
    longer = (widths[:, 1] * rounds > widths[:, 0]).astype(int)
    chosen = np.arange(len(cells))
    parts = []
    for part in range(CELL_PARTS):
        piece, low = cells.copy(), cells[chosen, longer, 0]
        piece[chosen, longer, 0] = low + widths[chosen, longer] * part / CELL_PARTS
        piece[chosen, longer, 1] = low + widths[chosen, longer] * (part + 1) / CELL_PARTS
        parts.append(piece)
    return np.concatenate(parts)


def _limited_optimum(problem: AllocationProblem, table: CostTable) -> Solution:
    """Return the optimum where the limit binds."""
    window = full_window(problem)
    # A good start saves visits.
    best = descend(problem).x
    starts, trace = [best], []
    for zoom in range(1 + LIMITED_ZOOMS):
        grid = grid_in(problem, window, COARSE if zoom == 0 else FINE)
        best, window = _visit(problem, table, grid, best, starts)
        trace.append(step_at(problem, best))
    best = descend(problem, best, LAST_STEPS).x
    return Solution(best, (*trace, step_at(problem, best)))


def skew_lower_bound(problem: AllocationProblem, table: CostTable, grid: DelayGrid) -> Floats:
    """Return a lower bound of the least average skew within the limit at every point, float64[G, H]."""
    feasible = problem.feasible
    leaks, most = feasible.leak / feasible.sizes, feasible.upper * feasible.sizes
    before = problem.averages.at(np.zeros_like(most)).skew
    # No skew is below the least one without a limit.
    least = float(least_skew(table, most, np.linspace(0.0, before, LIMITED_RATIOS)))
    ratios = np.linspace(min(least, before), before, LIMITED_RATIOS)
    # At the highest price no head gains by sharing anything. Prices are denser where they are low.
    drop = (table.costs[0] - table.costs[1:]) / np.maximum(table.volumes[1:], 1e-300)
    worth = drop.max(axis=0) + (2 * table.members if table.fractional else 0.0)
    prices = float((worth / leaks).max(initial=0.0)) * np.linspace(0, 1, PRICES) ** 2
    priced = (
        replace(table, costs=table.costs + p * leaks * table.volumes, rest=table.rest - p * feasible.max_leak)
        for p in prices
    )
    bound: Floats = np.max([grid.least_skew(some, ratios) for some in priced], axis=0)
    return bound


def _visit(
    problem: AllocationProblem, table: CostTable, grid: DelayGrid, best: Floats, starts: list[Floats]
) -> tuple[Floats, Window]:
    """Return the best ratios at the points whose bounds are below the best delay, and the window to refine.

    Start points of descents and their ends are appended to `starts`.
    """
    feasible = problem.feasible
    leaks = feasible.leak / feasible.sizes
    skew = skew_lower_bound(problem, table, grid)
    values = grid.task_delay(problem, skew)
    centre = int(values.argmin())
    for place in values.argsort(axis=None)[:MAX_VISITS]:
        if values.flat[place] >= problem.objective_s(problem.at(best)):
            break
        i, j = divmod(int(place), values.shape[1])
        volumes = least_within_budget(table, grid.caps(i, j), leaks, feasible.max_leak, float(skew[i, j]))
        found = volumes / feasible.sizes
        if min(float(np.abs(found - other).max()) for other in starts) > _SAME_START:
            starts += [found, descend(problem, found).x]
        better = problem.best_of([best, found, starts[-1]])
        if better is not best:
            best, centre = better, int(place)
    return best, grid.around(*divmod(centre, values.shape[1]))


def least_within_budget(
    table: CostTable, caps: Floats, leaks: Floats, budget: float, ratio: float, parts: int = PARTS
) -> Floats:
    """Return volumes float64[M] of least average skew, up to caps and a budget of leakage.

    `leaks` float64[M] is the leakage of one sample that the head sends, above 0; `ratio` an average skew to start from,
    used with weighting B only.
    """
    # The largest volumes that 0, 1, 2, ... parts of the budget cover, the cap last.
    per_part = budget / (parts * leaks)
    counts = np.minimum(np.ceil(caps / per_part), parts).astype(int)
    levels = [np.minimum(np.arange(n + 1) * size, cap) for n, size, cap in zip(counts, per_part, caps, strict=True)]
    found = _best_levels(table, levels, parts, ratio)
    for _ in range(_DINKELBACH_STEPS if table.fractional else 0):
        again = _best_levels(table, levels, parts, table.average(found))
        if table.average(again) >= table.average(found):
            break
        found = again
    return found


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


METHOD = Method(oracle, "exhaustive search in two dimensions: the global optimum")
