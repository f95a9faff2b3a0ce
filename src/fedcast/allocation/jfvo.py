"""JFVO: stochastic successive convex approximation with the frequencies eliminated; the default."""

from __future__ import annotations

from fedcast.allocation.engine import Found, better_of, one_at_a_time, search
from fedcast.allocation.problem import AllocationProblem
from fedcast.allocation.saa import closed_in_on
from fedcast.allocation.schedules import ssca_schedule
from fedcast.allocation.tables import less_skewed

# Volumes tried for each cluster where costs are not convex.
TABLE_ROWS = 65


def jfvo(problem: AllocationProblem) -> Found:
    """One parameter vector a step, surrogates averaged, iterates smoothed (Algorithm 2), then a few steps on all.

    It differs from the paper's text (`fedcast.allocation.jfvo_literal`) in four ways: frequencies are eliminated
    instead of alternated with volumes, the delay of a round stays convex in the surrogate, the step sizes run on
    instead of starting anew, and the best ratios found are closed in on by majorised steps on the evaluation set, after
    each cluster has been freed of a local optimum of its own. The trace is that of the stochastic search alone.
    """
    settings = problem.settings
    schedule = ssca_schedule(settings.surrogate_exponent, settings.iterate_exponent)
    found = search(problem, schedule, one_at_a_time(problem), upper_bound=False)
    start = found.x
    if not problem.averages.convex and problem.num_clusters:
        start = better_of(problem, [problem.feasible.shrunk(less_skewed(problem, start, TABLE_ROWS)), start])
    return found._replace(x=closed_in_on(problem, start))
