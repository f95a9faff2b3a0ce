r"""One engine for JFVO, SMM and SAA: they differ in step sizes and in how many parameter vectors a step looks at.

A step (Eq. 33 to 36): draw :math:`\beta`, build a convex surrogate of the objective at the present ratios x, average it
into the running surrogate with weight :math:`\rho_t`, minimise that exactly, move a part :math:`\mu_t` of the way.

SMM and SAA need surrogates that are upper bounds. Curvature is found by back-tracking: it grows until the surrogate is
above the objective at the minimiser, and shrinks again afterwards; it has an entry for each cluster, since EMD has
kinks and one cluster at a kink must not slow down the others.

JFVO needs no upper bound: its curvature is small and shrinks. A minimiser is then far away at first, where tangents
promise too much: T is convex, a cluster's skew is bent, and the more so where a head runs out of some classes. What the
first step gets wrong smoothing forgets only slowly. So the first steps minimise again, with the curvature that meets
the clusters' costs seen at the minimiser; the very first one does so three times, half-way from one to the next, and
takes the slope of T half-way to that of the chord. Later steps are short and do without.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fedcast.allocation.approximation import Approximation, Excess, Structured, bends, chord
from fedcast.allocation.problem import AllocationProblem, Point
from fedcast.allocation.schedules import Schedule
from fedcast.allocation.surrogate import Surrogate
from fedcast.random import generator
from fedcast.rounds.model import BetaSet
from fedcast.typing import Floats

# Curvature as a share of the objective, at the start and at least.
_FIRST_CURVATURE = 1e-3
_LEAST_CURVATURE = 1e-7
# How often the first step and those after it look at the minimiser and minimise again, and how many do; all where
# surrogates need not be upper bounds.
_FIRST_CORRECTIONS = 3
_CORRECTED_STEPS = 10
_MAX_TRIES = 25
# Curvature grows at most by this factor at once.
_AT_ONCE = 100.0
_TOLERANCE = 1e-12


@dataclass(frozen=True)
class Step:
    """One iteration, for the trace.

    Attributes:
        objective_s: expected delay at the iterate, on the evaluation set.
        distance: norm of the step that the surrogate asks for, in samples.
    """

    objective_s: float
    distance: float


class Found(NamedTuple):
    """What a search ends with.

    Attributes:
        x: float64[M], the best ratios it came across on the evaluation set.
        trace: one entry for each iteration.
        last: float64[M], the last iterate.
    """

    x: Floats
    trace: tuple[Step, ...]
    last: Floats


class _Standing(NamedTuple):
    """Where a step starts: the iterate, the betas drawn, the surrogates averaged so far and the weight of a new one."""

    problem: AllocationProblem
    build: Approximation
    point: Point
    betas: BetaSet
    running: Surrogate | None
    share: float

    def minimised(self, curvature: Floats, kept: float = 1.0) -> tuple[Surrogate, Floats]:
        """The running surrogate with a new one averaged in, and its minimiser float64[M]."""
        new = self.build.surrogate(self.point, self.betas, curvature, kept)
        mixed = new if self.running is None or self.share == 1 else self.running.mix(self.share, new)
        return mixed, self.problem.minimiser(mixed, self.problem.feasible)


def search(
    problem: AllocationProblem,
    schedule: Schedule,
    draw: Callable[[int], BetaSet],
    *,
    start: Floats | None = None,
    approximation: Approximation | None = None,
    steps: int | None = None,
    upper_bound: bool = True,
) -> Found:
    """Run the engine.

    Args:
        problem: to be solved.
        schedule: step sizes.
        draw: the betas of step 1, 2, ...
        start: float64[M], ratios; None: the settings' own.
        approximation: how surrogates are built; None: structured.
        steps: iterations; None: the settings' own.
        upper_bound: raise curvature until surrogates are above the objective where they are least.
    """
    build = Structured(problem) if approximation is None else approximation
    point = problem.at(problem.start() if start is None else start)
    value = problem.objective_s(point)
    best, best_value = point.x, value
    curvature, running, trace = np.full(problem.num_clusters, _FIRST_CURVATURE * value), None, []
    target = point.x
    for step in range(1, (problem.settings.steps if steps is None else steps) + 1):
        standing = _Standing(problem, build, point, draw(step), running, schedule.surrogate(step))
        if upper_bound:
            running, target, curvature = _majorised(standing, curvature)
        else:
            times = _FIRST_CORRECTIONS if step == 1 else int(step <= _CORRECTED_STEPS)
            running, target = _corrected(standing, curvature, times)
        trace.append(Step(value, float(np.linalg.norm((target - point.x) * problem.feasible.sizes))))
        move = schedule.iterate(step)
        point = problem.at((1 - move) * point.x + move * target)
        value = problem.objective_s(point)
        if value < best_value:
            best, best_value = point.x, value
        curvature = np.maximum(curvature / 2, _LEAST_CURVATURE * value)
    trace.append(Step(value, trace[-1].distance if trace else 0.0))
    return Found(better_of(problem, [best, target, np.zeros_like(best)]), tuple(trace), point.x)


def _majorised(standing: _Standing, curvature: Floats) -> tuple[Surrogate, Floats, Floats]:
    """Minimise, and again with more curvature if that promised more than the objective keeps."""
    problem, point = standing.problem, standing.point
    tolerance = _TOLERANCE * problem.objective_s(point)
    for _ in range(_MAX_TRIES):
        mixed, target = standing.minimised(curvature)
        squares = (target - point.x) ** 2
        if not squares.any():
            break
        excess = standing.build.excess(point, standing.betas, problem.at(target))
        if excess.total <= float(curvature @ squares) / 2 + tolerance:
            break
        curvature = _raised(curvature, excess, squares)
    return mixed, target, curvature


def _corrected(standing: _Standing, curvature: Floats, times: int) -> tuple[Surrogate, Floats]:
    """Minimise, look at the objective there, and minimise again with what was seen, so many times."""
    problem, point, betas = standing.problem, standing.point, standing.betas
    mixed, target = standing.minimised(curvature)
    bent, kept = curvature, 1.0
    for time in range(times):
        if np.array_equal(target, point.x):
            break
        there = problem.at(target)
        if time == 0 and standing.running is None:
            kept = (1 + chord(point, betas, there)) / 2
        seen = kept * bends(problem, point, betas, there)
        bent = np.maximum(curvature, seen if time == 0 else (bent + seen) / 2)
        mixed, target = standing.minimised(bent, kept)
    return mixed, target


def _raised(curvature: Floats, excess: Excess, squares: Floats) -> Floats:
    """More curvature: where a cluster's own cost needs it, and for all alike what is missing after that."""
    needed = np.divide(2 * excess.by_cluster, squares, out=np.zeros_like(squares), where=squares > 0)
    raised = np.maximum(curvature, np.minimum(1.2 * needed, _AT_ONCE * curvature))
    missing = 2 * excess.total - float(raised @ squares)
    if missing > 0:
        alike = 1.2 * missing / float(squares.sum())
        raised = raised + min(max(alike, float(curvature.min())), _AT_ONCE * float(curvature.min()))
    return raised


def better_of(problem: AllocationProblem, candidates: list[Floats]) -> Floats:
    """The candidate of least expected delay; of equals the last, so that what makes no difference is not shared."""
    values = [problem.objective_s(problem.at(x)) for x in candidates]
    return candidates[len(values) - 1 - int(np.argmin(values[::-1]))]


def one_at_a_time(problem: AllocationProblem) -> Callable[[int], BetaSet]:
    """A draw of one parameter vector for each step, by the problem's seed."""
    chosen = generator(problem.seed, "allocation/draws").integers(problem.betas.size, size=problem.settings.steps)
    return lambda step: problem.betas.only(int(chosen[step - 1]))
