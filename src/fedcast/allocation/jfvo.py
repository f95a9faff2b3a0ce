"""JFVO: stochastic successive convex approximation with the frequencies eliminated; the default."""

from __future__ import annotations

import numpy as np

from fedcast.allocation.allocation_problem import AllocationProblem
from fedcast.allocation.engine import Solution, StochasticOptions, descend, draw_one, search
from fedcast.allocation.methods import Method
from fedcast.allocation.oracle.cost_table import cheapest_volumes, cluster_table
from fedcast.typing import Floats

# Volumes tried for each cluster where costs are not convex.
_TABLE_ROWS = 65


def jfvo(problem: AllocationProblem, options: StochasticOptions) -> Solution:
    """Use one parameter vector a step, average surrogates and smooth iterates (Algorithm 2), then descend on all.

    It differs from the paper's text (`fedcast.allocation.jfvo_literal`) in four ways: frequencies are eliminated
    instead of alternated with volumes, the delay of a round stays convex in the surrogate, the step sizes continue
    instead of restarting, and a few steps on the whole evaluation set follow the stochastic search, after each cluster
    has left a local optimum of its own cost. The trace is that of the stochastic search alone.
    """
    draw = draw_one(problem, options.steps)
    found, _ = search(problem, draw, options.steps, options.exponents, upper_bound=False)
    start = found.x
    if not problem.averages.convex and problem.num_clusters:
        start = problem.best_of([problem.feasible.scaled_to_limit(_least_skew_in_time(problem, start)), start])
    return Solution(descend(problem, start).x, found.trace)


def _least_skew_in_time(problem: AllocationProblem, x: Floats) -> Floats:
    """Return the ratios of least average skew among those that take no longer to share and to train a round than x.

    Each cluster moves from a local optimum of its cost to the global one, to the resolution of a table.
    """
    feasible, point = problem.feasible, problem.at(x)
    in_time = np.minimum(point.sharing_s * feasible.rate * feasible.sizes, feasible.delay.caps(point.round_s)[0])
    caps = np.minimum(feasible.upper * feasible.sizes, in_time)
    return cheapest_volumes(cluster_table(problem, _TABLE_ROWS), caps, point.skew_at.skew) / feasible.sizes


METHOD = Method(jfvo, "stochastic convex approximation, frequencies eliminated", options=StochasticOptions)
