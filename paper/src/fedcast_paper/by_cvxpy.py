"""The engine's surrogates minimised by CVXPY: what fedcast's exact minimiser is timed against in Fig. 8."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from fedcast.allocation import Feasible, Minimiser, Surrogate
from fedcast.errors import FedcastError
from fedcast.typing import Floats

SOLVER = "CLARABEL"


def load_cvxpy() -> Any:
    """The package, or a word on how to get it: fedcast itself does not need it."""
    try:
        return import_module("cvxpy")
    except ImportError:
        raise FedcastError("fig8 also times CVXPY, which is not installed: pip install cvxpy") from None


def cvxpy_minimiser(feasible: Feasible) -> Minimiser:
    r"""A minimiser of surrogates on one feasible set, written as a person would, and compiled once.

    .. math:: \min_{x, t, s}\; w t + w_T s + b^\top x + \tfrac12 \sum_m q_m x_m^2 \quad \text{s.t.} \quad
        0 \le x \le u,\; x_m \le r_m t,\; s \ge s_0,\; s \ge g_k(n_k + n_m x_m)

    with :math:`g_k` as in `fedcast.allocation.round_delay`. Without a limit of the average sharing ratio.
    """
    cp = load_cvxpy()
    clusters, delay = len(feasible.upper), feasible.delay
    x, sharing_s, round_s = cp.Variable(clusters), cp.Variable(), cp.Variable()
    weight, rounds = cp.Parameter(nonneg=True), cp.Parameter(nonneg=True)
    linear, curvature = cp.Parameter(clusters), cp.Parameter(clusters, nonneg=True)
    limits = [x >= 0, x <= feasible.upper, x <= feasible.rate * sharing_s, round_s >= delay.floor_s]
    if len(delay.cluster):
        samples = delay.sizes + cp.multiply(feasible.sizes[delay.cluster], x[delay.cluster])
        # κ ñ^1.5 with κ inside the power, where its numbers are of one size.
        by_energy = cp.power(cp.multiply(delay.energy_s ** (2 / 3), samples), 1.5)
        limits += [round_s >= delay.offset_s + cp.multiply(delay.linear_s, samples)]
        limits += [round_s >= delay.offset_s + by_energy]
    square = cp.sum(cp.multiply(curvature, cp.square(x))) / 2
    problem = cp.Problem(cp.Minimize(weight * sharing_s + rounds * round_s + linear @ x + square), limits)

    def minimise(surrogate: Surrogate, _: Feasible) -> Floats:
        weight.value, rounds.value = surrogate.sharing_weight, surrogate.round_weight
        linear.value, curvature.value = surrogate.linear, surrogate.curvature
        problem.solve(solver=SOLVER)
        found: Floats = np.clip(x.value, 0.0, feasible.upper)
        return found

    return minimise
