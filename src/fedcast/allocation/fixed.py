"""Fixed: the same given ratio for every head, as in the paper's experiments on how much to share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcast.allocation.allocation_problem import AllocationProblem
from fedcast.allocation.engine import Solution, step_at
from fedcast.allocation.methods import Method
from fedcast.registry import option


@dataclass(frozen=True)
class FixedOptions:
    """Options of `fixed`."""

    ratio: float = option(0.1, "share of its samples that each head sends", ge=0, le=1)


def fixed(problem: AllocationProblem, options: FixedOptions) -> Solution:
    """Return the given ratio, less where the cap of a head, its consent or the limit of the average ratio requires."""
    x = problem.feasible.scaled_to_limit(np.minimum(options.ratio, problem.caps))
    return Solution(x, (step_at(problem, x),))


METHOD = Method(fixed, "one given ratio for every head", options=FixedOptions, optimises=False)
