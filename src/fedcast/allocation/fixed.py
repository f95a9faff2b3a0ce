"""A given ratio for every head: the paper's experiments on how much to share."""

from __future__ import annotations

import numpy as np

from fedcast.allocation.engine import Found, Step
from fedcast.allocation.problem import AllocationProblem


def fixed(problem: AllocationProblem) -> Found:
    """`fixed_ratio` of its samples from each head, less where its cap, its consent or the limit on leakage says so."""
    x = problem.feasible.shrunk(np.minimum(problem.settings.fixed_ratio, problem.caps))
    return Found(x, (Step(problem.objective_s(problem.at(x)), 0.0),), x)
