"""SMM: stochastic majorisation-minimisation (Mairal 2013), the paper's first rival."""

from __future__ import annotations

from fedcast.allocation.engine import Found, one_at_a_time, search
from fedcast.allocation.problem import AllocationProblem
from fedcast.allocation.schedules import Power, Schedule, always


def smm(problem: AllocationProblem) -> Found:
    """Averaged upper bounds, each iterate the minimiser itself: JFVO with step 1."""
    return search(problem, Schedule(Power(problem.settings.surrogate_exponent), always), one_at_a_time(problem))
