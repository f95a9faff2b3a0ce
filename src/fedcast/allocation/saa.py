"""SAA: sample average approximation, the paper's second rival."""

from __future__ import annotations

from fedcast.allocation.engine import Found, search
from fedcast.allocation.problem import AllocationProblem
from fedcast.allocation.schedules import Schedule, always
from fedcast.typing import Floats

# EMD has kinks, on which a search settles in this many steps if it starts close by.
CLOSING_STEPS = 10


def saa(problem: AllocationProblem) -> Found:
    """All parameter vectors in every step: a deterministic descent on the evaluation set itself.

    Rounds depend on volumes only through the average skew, a number: a step costs what one of JFVO costs.
    """
    return search(problem, Schedule(always, always), lambda _: problem.betas)


def closed_in_on(problem: AllocationProblem, start: Floats, steps: int = CLOSING_STEPS) -> Floats:
    """Where a short descent of this kind from given ratios ends, float64[M]: what searches and tables end with."""
    return search(problem, Schedule(always, always), lambda _: problem.betas, start=start, steps=steps).x
