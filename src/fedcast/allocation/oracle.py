r"""The global optimum by exhaustive search in two dimensions, for tests and for the reported gap.

Given the sharing delay t and the round delay s, every volume has a known cap,
:math:`c_m = \min(\alpha_m n_m,\; t\, r_m,\; u_m(s))`, and since expected rounds rise with the average skew the best
volumes are those of least skew:

.. math:: \Psi^* = \min_{t, s}\; t + \mathbb{E}_\beta[T(D^*(t, s); \beta)]\, s

Under weightings A and C the clusters separate, and the least cost of each up to its cap is a running minimum over a
table. Under B the average is a ratio; with Dinkelbach's :math:`\lambda` each cluster minimises
:math:`\sum_c \|n_c \delta_c + V(N)\|_1 - \lambda |C_m| N`, and :math:`D^*` is the :math:`\lambda` at which the sum over
all users is 0. Nothing is assumed convex. A grid over (t, s), and over :math:`\lambda` for B, is refined around its
best point. What a limit on the average sharing ratio adds is in `fedcast.allocation.limited`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedcast.allocation.delays import CELLS, delay_of_task, delays_in, whole_window
from fedcast.allocation.engine import Found, Step, better_of
from fedcast.allocation.limited import limited_optimum
from fedcast.allocation.problem import AllocationProblem
from fedcast.allocation.saa import closed_in_on
from fedcast.allocation.tables import cheapest_volumes, cluster_table
from fedcast.errors import FedcastError

ROWS = 513
COARSE = 48
FINE = 17
ZOOMS = 12
RATIOS = 9


def oracle(problem: AllocationProblem) -> Found:
    """The global optimum: grids down to about 1e-6 of the range of each delay, then a descent.

    It takes no rounds model that looks at the shift of the mixture: with it no price makes the clusters separate.
    """
    _refuse_shift(problem)
    if problem.num_clusters == 0 or problem.feasible.max_leak <= 0:
        x = np.zeros(problem.num_clusters)
        return Found(x, (Step(problem.objective_s(problem.at(x)), 0.0),), x)
    found = _free_optimum(replace(problem, feasible=replace(problem.feasible, max_leak=np.inf)))
    return found if problem.feasible.allows(found.x) else limited_optimum(problem, cluster_table(problem, ROWS))


def _refuse_shift(problem: AllocationProblem) -> None:
    if problem.betas.form == "extended" and (problem.betas.betas[:, 2] != 0).any():
        raise FedcastError(
            "rounds.form: 'extended' looks at the shift of the mixture, which couples the clusters; the oracle cannot "
            "take it: use method jfvo, or form paper or theory"
        )


def _free_optimum(problem: AllocationProblem) -> Found:
    """The optimum without a limit on the average sharing ratio."""
    table = cluster_table(problem, ROWS)
    window, skews = whole_window(problem), (0.0, 2.0)
    best, trace = np.zeros(problem.num_clusters), []
    for zoom in range(1 + ZOOMS):
        delays = delays_in(problem, window, COARSE if zoom == 0 else FINE)
        skew = delays.least_skew(table, np.linspace(*skews, RATIOS))
        i, j = (int(k) for k in np.unravel_index(delay_of_task(problem, delays, skew).argmin(), skew.shape))
        found = cheapest_volumes(table, delays.caps(i, j), float(skew[i, j])) / problem.feasible.sizes
        best = better_of(problem, [best, found, np.zeros_like(best)])
        trace.append(Step(problem.objective_s(problem.at(best)), 0.0))
        near = skew[max(i - CELLS, 0) : i + CELLS + 1, max(j - CELLS, 0) : j + CELLS + 1]
        window, skews = delays.around(i, j), (float(near.min()), float(near.max()))
    # Volumes between two rows of the tables are left to a descent from the best ones.
    closed = closed_in_on(problem, best)
    trace.append(Step(problem.objective_s(problem.at(closed)), 0.0))
    return Found(closed, tuple(trace), closed)
