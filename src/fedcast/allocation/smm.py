"""SMM: stochastic majorisation-minimisation (Mairal 2013), a baseline of the paper."""

from __future__ import annotations

from dataclasses import dataclass

from fedcast.allocation.allocation_problem import AllocationProblem
from fedcast.allocation.engine import Solution, draw_one, search
from fedcast.allocation.methods import Method
from fedcast.registry import option


@dataclass(frozen=True)
class SmmOptions:
    """Options of `smm`."""

    steps: int = option(60, "steps of the stochastic search", ge=1, le=100_000)
    surrogate_exponent: float = option(0.6, "a new surrogate has weight step^-this", gt=0.5, lt=1)


def smm(problem: AllocationProblem, options: SmmOptions) -> Solution:
    """Average upper bounds and take their minimiser as the next iterate: JFVO with step size 1."""
    return search(problem, draw_one(problem, options.steps), options.steps, (options.surrogate_exponent, 0.0))[0]


METHOD = Method(smm, "stochastic majorisation-minimisation: every iterate a minimiser", options=SmmOptions)
