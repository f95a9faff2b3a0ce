"""SAA: sample average approximation, a baseline of the paper."""

from __future__ import annotations

from dataclasses import dataclass

from fedcast.allocation.allocation_problem import AllocationProblem
from fedcast.allocation.engine import Solution, descend
from fedcast.allocation.methods import Method
from fedcast.registry import option


@dataclass(frozen=True)
class SaaOptions:
    """Options of `saa`."""

    steps: int = option(60, "steps of the search", ge=1, le=100_000)


def saa(problem: AllocationProblem, options: SaaOptions) -> Solution:
    """Use all parameter vectors in every step."""
    return descend(problem, steps=options.steps)


METHOD = Method(saa, "sample average: all parameter vectors in every step", options=SaaOptions)
