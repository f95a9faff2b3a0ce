r"""Oracle: the global optimum by exhaustive search in two dimensions, for tests and for the reported gap.

Given the sharing delay t and the round delay s, every volume has a known cap,
:math:`c_m = \min(\alpha_m n_m,\; t\, r_m,\; u_m(s))`, and since expected rounds increase with the average skew the
best volumes are those of least skew:

.. math:: \Psi^* = \min_{t, s}\; t + \mathbb{E}_\beta[T(D^*(t, s); \beta)]\, s

Under weightings A and C the clusters separate, and the least cost of each up to its cap is a running minimum over a
table. Under B the average is a ratio; with Dinkelbach's :math:`\lambda` each cluster minimises
:math:`\sum_c \|n_c \delta_c + V(N)\|_1 - \lambda |C_m| N`, and :math:`D^*` is the :math:`\lambda` at which the sum
over all users is 0. Nothing is assumed convex. A grid over (t, s), and over :math:`\lambda` for B, is refined around
its best point. A limit on the average sharing ratio is treated in `fedcast.allocation.oracle.limited`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedcast.allocation.allocation_problem import AllocationProblem
from fedcast.allocation.engine import Solution, Step, descend
from fedcast.allocation.methods import Method
from fedcast.allocation.oracle.cost_table import cheapest_volumes, cluster_table
from fedcast.allocation.oracle.delay_grid import CELLS, full_window, grid_in, task_delay
from fedcast.allocation.oracle.limited import limited_optimum
from fedcast.errors import FedcastError
from fedcast.registry import NoOptions

ROWS = 513
COARSE = 48
FINE = 17
ZOOMS = 12
RATIOS = 9


def oracle(problem: AllocationProblem, options: NoOptions | None = None) -> Solution:  # noqa: ARG001
    """Return the global optimum: grids down to about 1e-6 of the range of each delay, then a descent.

    Rounds models that depend on the shift of the overall label distribution are not supported: with it no price makes
    the clusters separate.
    """
    _check_no_shift(problem)
    if problem.num_clusters == 0 or problem.feasible.max_leak <= 0:
        x = np.zeros(problem.num_clusters)
        return Solution(x, (Step(problem.objective_s(problem.at(x)), 0.0),))
    found = _optimum_without_limit(replace(problem, feasible=replace(problem.feasible, max_leak=np.inf)))
    return found if problem.feasible.allows(found.x) else limited_optimum(problem, cluster_table(problem, ROWS))


def _check_no_shift(problem: AllocationProblem) -> None:
    if problem.betas.form == "extended" and (problem.betas.betas[:, 2] != 0).any():
        raise FedcastError(
            "invalid value 'extended' for rounds.form with allocation.method = oracle: rounds depend on the shift of "
            "the overall label distribution, which couples the clusters; use method jfvo, or form paper or theory"
        )


def _optimum_without_limit(problem: AllocationProblem) -> Solution:
    """Return the optimum without a limit on the average sharing ratio."""
    table = cluster_table(problem, ROWS)
    window, skews = full_window(problem), (0.0, 2.0)
    best, trace = np.zeros(problem.num_clusters), []
    for zoom in range(1 + ZOOMS):
        grid = grid_in(problem, window, COARSE if zoom == 0 else FINE)
        skew = grid.least_skew(table, np.linspace(*skews, RATIOS))
        i, j = (int(k) for k in np.unravel_index(task_delay(problem, grid, skew).argmin(), skew.shape))
        found = cheapest_volumes(table, grid.caps(i, j), float(skew[i, j])) / problem.feasible.sizes
        best = problem.best_of([best, found, np.zeros_like(best)])
        trace.append(Step(problem.objective_s(problem.at(best)), 0.0))
        near = skew[max(i - CELLS, 0) : i + CELLS + 1, max(j - CELLS, 0) : j + CELLS + 1]
        window, skews = grid.around(i, j), (float(near.min()), float(near.max()))
    # A descent from the best volumes finds those between two rows of the table.
    best = descend(problem, best)
    trace.append(Step(problem.objective_s(problem.at(best)), 0.0))
    return Solution(best, tuple(trace))


METHOD = Method(oracle, "exhaustive search in two dimensions: the global optimum")
