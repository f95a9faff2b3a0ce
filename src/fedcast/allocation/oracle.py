r"""The global optimum by exhaustive search in two dimensions, for tests and for the reported gap.

Given the sharing delay t and the round delay s, every volume has a known cap,
:math:`c_m = \min(\alpha_m n_m,\; t\, r_m,\; u_m(s))`, and since expected rounds rise with the average skew the best
volumes are those of least skew:

.. math:: \Psi^* = \min_{t, s}\; t + \mathbb{E}_\beta[T(D^*(t, s); \beta)]\, s

Under weightings A and C the clusters separate, and the least cost of each up to its cap is a running minimum over a
table. Under B the average is a ratio; with Dinkelbach's :math:`\lambda` each cluster minimises
:math:`\sum_c \|n_c \delta_c + V(N)\|_1 - \lambda |C_m| N`, and :math:`D^*` is the :math:`\lambda` at which the sum over
all users is 0. Nothing is assumed convex. A grid over (t, s), and over :math:`\lambda` for B, is refined around its
best point.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedcast.allocation.engine import Found, Step, better_of, search
from fedcast.allocation.problem import AllocationProblem
from fedcast.allocation.schedules import Schedule, always
from fedcast.allocation.tables import Table, cheapest_volumes, cluster_table
from fedcast.errors import FedcastError
from fedcast.heterogeneity import Floats

ROWS = 513
COARSE = 48
FINE = 17
ZOOMS = 12
RATIOS = 9
CLOSING_STEPS = 10
# Refinement looks at so many cells of the grid on each side of the best one.
_CELLS = 2
# Numbers in the largest temporary array, 64 MiB.
_BLOCK = 2**23


class Window(NamedTuple):
    """A rectangle of (t, s), and an interval of the average skew."""

    sharing: tuple[float, float]
    round: tuple[float, float]
    skew: tuple[float, float]


def oracle(problem: AllocationProblem) -> Found:
    """The global optimum: grids down to about 1e-6 of the range of each delay, then a descent.

    It takes no limit on the average sharing ratio and no rounds model that looks at the shift of the mixture: both
    couple the clusters.
    """
    _refuse_coupled(problem)
    if problem.num_clusters == 0:
        x = np.zeros(0)
        return Found(x, (Step(problem.objective_s(problem.at(x)), 0.0),), x)
    table = cluster_table(problem, ROWS)
    delay, upper = problem.feasible.delay, problem.feasible.upper
    window = Window(
        (0.0, float((upper / problem.feasible.rate).max())),
        (delay.floor_s, delay.at(upper * problem.feasible.sizes)),
        (0.0, 2.0),
    )
    best, trace = np.zeros(problem.num_clusters), []
    for zoom in range(1 + ZOOMS):
        found, window = _look(problem, table, window, COARSE if zoom == 0 else FINE)
        best = better_of(problem, [best, found, np.zeros_like(best)])
        trace.append(Step(problem.objective_s(problem.at(best)), 0.0))
    # Volumes between two rows of the tables are left to a descent from the best ones.
    closed = search(problem, Schedule(always, always), lambda _: problem.betas, start=best, steps=CLOSING_STEPS).x
    trace.append(Step(problem.objective_s(problem.at(closed)), 0.0))
    return Found(closed, tuple(trace), closed)


def _refuse_coupled(problem: AllocationProblem) -> None:
    if problem.settings.max_asr is not None:
        raise FedcastError(
            f"allocation.max_asr: {problem.settings.max_asr} couples the clusters, which the oracle cannot take; use "
            f"method saa, or leave the limit out"
        )
    if problem.betas.form == "extended" and (problem.betas.betas[:, 2] != 0).any():
        raise FedcastError(
            "rounds.form: 'extended' looks at the shift of the mixture, which couples the clusters; the oracle cannot "
            "take it: use method saa, or form paper or theory"
        )


def _look(problem: AllocationProblem, table: Table, window: Window, points: int) -> tuple[Floats, Window]:
    """The best volumes on a grid over a window, and the window around them to look at next."""
    sharing, rounds = np.linspace(*window.sharing, points), np.linspace(*window.round, points)
    feasible = problem.feasible
    by_round = np.stack([np.minimum(feasible.upper * feasible.sizes, feasible.delay.caps(s)[0]) for s in rounds])
    per_second = feasible.rate * feasible.sizes
    ratios = np.linspace(*window.skew, RATIOS) if table.fractional else np.zeros(1)
    skew = np.empty((points, points))
    rows = max(1, _BLOCK // (points * problem.num_clusters))
    for start in range(0, points, rows):
        caps = np.minimum(sharing[start : start + rows, None, None] * per_second, by_round)
        skew[start : start + rows] = least_skew(table, caps, ratios)
    values = sharing[:, None] + _expected_rounds(problem, skew) * rounds
    i, j = np.unravel_index(int(values.argmin()), values.shape)
    volumes = cheapest_volumes(table, np.minimum(sharing[i] * per_second, by_round[j]), float(skew[i, j]))
    near = skew[max(i - _CELLS, 0) : i + _CELLS + 1, max(j - _CELLS, 0) : j + _CELLS + 1]
    around = Window(_around(sharing, int(i)), _around(rounds, int(j)), (float(near.min()), float(near.max())))
    return volumes / feasible.sizes, around


def _around(grid: Floats, place: int) -> tuple[float, float]:
    return float(grid[max(place - _CELLS, 0)]), float(grid[min(place + _CELLS, len(grid) - 1)])


def _expected_rounds(problem: AllocationProblem, skew: Floats) -> Floats:
    # E[T] is smooth in the skew: a fine table is exact enough for a choice that is evaluated exactly afterwards.
    grid = np.linspace(skew.min(), skew.max(), 400) if skew.max() > skew.min() else skew.reshape(-1)[:1]
    rounds = np.array([problem.betas.expected(float(d))[0] for d in grid])
    expected: Floats = np.interp(skew, grid, rounds)
    return expected


def least_skew(table: Table, caps: Floats, ratios: Floats) -> Floats:
    """The least average skew with volumes up to caps[..., M], float64[...].

    Args:
        table: costs of the clusters.
        caps: float64[..., M].
        ratios: float64[R], ascending Dinkelbach ratios around the answer; ignored where the average is no ratio.
    """
    row, part = table.places(caps)
    clusters = np.arange(caps.shape[-1])
    sums = []
    for ratio in ratios:
        priced, least, _ = table.running_least(float(ratio))
        at_cap = priced[row, clusters] * (1 - part) + priced[row + 1, clusters] * part
        cheapest = np.minimum(least[row, clusters], at_cap).sum(axis=-1)
        sums.append(table.rest + cheapest - (ratio * table.total if table.fractional else 0.0))
    if not table.fractional:
        average: Floats = sums[0] / table.total
        return average
    return _falling_root(ratios, np.stack(sums))


def _falling_root(ratios: Floats, sums: Floats) -> Floats:
    """Where sums[R, ...], concave and falling in the ratios, cross 0; straight lines between and beyond."""
    if ratios[-1] <= ratios[0]:
        return np.full(sums.shape[1:], ratios[0])
    right = np.clip((sums > 0).sum(axis=0), 1, len(ratios) - 1)
    above, below = (np.take_along_axis(sums, place[None], axis=0)[0] for place in (right - 1, right))
    left_ratio, width = ratios[right - 1], ratios[right] - ratios[right - 1]
    root: Floats = left_ratio + width * above / np.maximum(above - below, 1e-300)
    return root
