r"""One engine for JFVO, SMM and SAA: they differ in step sizes and in how many parameter vectors a step uses.

A step (Eq. 33 to 36): draw :math:`\beta`, build a convex surrogate of the objective at the current ratios x, average it
into the running surrogate with weight :math:`\rho_t`, minimise that, move a part :math:`\mu_t` of the way.

SMM and SAA need surrogates that are upper bounds. Curvature is found by backtracking: it grows until the surrogate is
above the objective at the minimiser, and shrinks again afterwards. It has an entry for each cluster, since EMD has
kinks and one cluster at a kink must not slow down the others.

JFVO needs no upper bound: its curvature is small and shrinks. The first minimisers are therefore far away, where
tangents are too low: T is convex, a cluster's cost is curved, most where a head runs out of some classes, and smoothing
forgets an error of the first step slowly. So the first steps minimise again, with the curvature that matches the
clusters' costs at the minimiser. The very first step does so three times, halving the change each time, and uses a
slope of T halfway between tangent and secant. Later steps are short and do without.

Step sizes: stochastic successive convex approximation converges if both :math:`\rho_t` and :math:`\mu_t` go to 0,
:math:`\sum \rho_t = \sum \mu_t = \infty`, :math:`\sum \rho_t^2, \sum \mu_t^2 < \infty` and
:math:`\mu_t / \rho_t \to 0`. For powers of t this is :math:`\tfrac12 < \kappa_1 < \kappa_2 \le 1`. Both are 1 at t = 1,
so that the starting surrogate is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fedcast.allocation.allocation_problem import AllocationProblem, Point
from fedcast.allocation.surrogate import (
    Approximation,
    Excess,
    LinearRounds,
    Surrogate,
    curvature_between,
    secant_to_tangent,
)
from fedcast.errors import FedcastError
from fedcast.random import generator
from fedcast.registry import option
from fedcast.rounds import BetaSet
from fedcast.typing import Floats

# Curvature as a share of the objective, at the start and at least.
_FIRST_CURVATURE = 1e-3
_MIN_CURVATURE = 1e-7
# How often the first step minimises again, and how many steps do so once; where surrogates need not be upper bounds.
_FIRST_CORRECTIONS = 3
_CORRECTED_STEPS = 10
_MAX_TRIES = 25
# Curvature grows by at most this factor at once.
_MAX_GROWTH = 100.0
_TOLERANCE = 1e-12
# EMD has kinks, to which a search that starts close by converges in this many steps.
_DESCENT_STEPS = 10


@dataclass(frozen=True)
class Step:
    """One iteration: expected delay at the iterate, and norm of the step to the surrogate's minimiser, in samples."""

    objective_s: float
    distance: float


class Solution(NamedTuple):
    """Solution of a method: the share of its samples that each head sends, float64[M], and its iterations, if any."""

    x: Floats
    trace: tuple[Step, ...] = ()


@dataclass(frozen=True)
class Schedule:
    """Step sizes t^-exponent of new surrogates and of new iterates; exponent 0: only the newest counts.

    Example:
        >>> Schedule(surrogate=0.6).sizes(1), round(Schedule(surrogate=0.6).sizes(10)[0], 3)
        ((1.0, 1.0), 0.251)
    """

    surrogate: float = 0.0
    iterate: float = 0.0

    def __post_init__(self) -> None:
        for exponent in (self.surrogate, self.iterate):
            if exponent != 0 and not 0.5 < exponent <= 1:
                raise FedcastError(
                    f"step size: exponent {exponent}, expected above 0.5 (the sum of squares must be finite) and at "
                    f"most 1 (the sum of steps must be infinite)"
                )

    def sizes(self, step: int) -> tuple[float, float]:
        """Return rho and mu of step 1, 2, ..."""
        return float(step**-self.surrogate), float(step**-self.iterate)


@dataclass(frozen=True)
class StochasticOptions:
    """Options of the methods with two step sizes (Eq. 33 and 36)."""

    steps: int = option(60, "steps of the stochastic search", ge=1)
    surrogate_exponent: float = option(0.6, "a new surrogate has weight step^-this", gt=0.5, lt=1)
    iterate_exponent: float = option(0.9, "a new iterate has weight step^-this; above surrogate_exponent", gt=0.5, le=1)

    def __post_init__(self) -> None:
        if not self.surrogate_exponent < self.iterate_exponent:
            raise ValueError(
                f"invalid value {self.iterate_exponent} for iterate_exponent: expected a number above "
                f"surrogate_exponent = {self.surrogate_exponent}, so that iterates change more slowly than surrogates"
            )

    def schedule(self) -> Schedule:
        """Return the step sizes."""
        return Schedule(self.surrogate_exponent, self.iterate_exponent)


class _StepState(NamedTuple):
    """Start of a step: the iterate, the betas drawn, the running surrogate and the weight of a new one."""

    problem: AllocationProblem
    build: Approximation
    point: Point
    betas: BetaSet
    running: Surrogate | None
    weight: float

    def minimise(self, curvature: Floats, slope_factor: float = 1.0) -> tuple[Surrogate, Floats]:
        """Return the running surrogate with a new one averaged in, and its minimiser float64[M]."""
        new = self.build.surrogate(self.point, self.betas, curvature, slope_factor)
        average = new if self.running is None or self.weight == 1 else self.running.averaged(self.weight, new)
        return average, self.problem.minimiser(average, self.problem.feasible)


def search(
    problem: AllocationProblem,
    schedule: Schedule,
    draw: Callable[[int], BetaSet],
    steps: int,
    *,
    start: Floats | None = None,
    approximation: Approximation | None = None,
    upper_bound: bool = True,
) -> tuple[Solution, Floats]:
    """Run the engine; return the best ratios on the evaluation set with the trace, and the last iterate float64[M].

    Args:
        problem: to be solved.
        schedule: step sizes.
        draw: the betas of step 1, 2, ...
        steps: number of iterations.
        start: float64[M], ratios; None: those of the problem.
        approximation: how surrogates are built; None: with linearised rounds.
        upper_bound: raise curvature until surrogates are above the objective at their minimiser.
    """
    build = LinearRounds(problem) if approximation is None else approximation
    point = problem.at(problem.start() if start is None else start)
    value = problem.objective_s(point)
    best, best_value = point.x, value
    curvature, running, trace = np.full(problem.num_clusters, _FIRST_CURVATURE * value), None, []
    target = point.x
    for step in range(1, steps + 1):
        weight, move = schedule.sizes(step)
        state = _StepState(problem, build, point, draw(step), running, weight)
        if upper_bound:
            running, target, curvature = _minimise_upper_bound(state, curvature)
        else:
            corrections = _FIRST_CORRECTIONS if step == 1 else int(step <= _CORRECTED_STEPS)
            running, target = _minimise_corrected(state, curvature, corrections)
        trace.append(Step(value, float(np.linalg.norm((target - point.x) * problem.feasible.sizes))))
        point = problem.at((1 - move) * point.x + move * target)
        value = problem.objective_s(point)
        if value < best_value:
            best, best_value = point.x, value
        curvature = np.maximum(curvature / 2, _MIN_CURVATURE * value)
    trace.append(Step(value, trace[-1].distance if trace else 0.0))
    return Solution(problem.best_of([best, target, np.zeros_like(best)]), tuple(trace)), point.x


def search_on_all(problem: AllocationProblem, steps: int, start: Floats | None = None) -> Solution:
    """Run the engine with all parameter vectors in every step: a deterministic descent on the evaluation set.

    Rounds depend on volumes only through the average skew, a number: a step costs as much as one with a single vector.
    """
    return search(problem, Schedule(), lambda _: problem.betas, steps, start=start)[0]


def descend(problem: AllocationProblem, start: Floats, steps: int = _DESCENT_STEPS) -> Floats:
    """Return the end, float64[M], of a short descent from given ratios."""
    return search_on_all(problem, steps, start).x


def draw_one(problem: AllocationProblem, steps: int) -> Callable[[int], BetaSet]:
    """Return a function that gives the one parameter vector of each step, drawn by the problem's seed."""
    chosen = generator(problem.seed, "allocation/draws").integers(problem.betas.size, size=steps)
    return lambda step: problem.betas.only(int(chosen[step - 1]))


def _minimise_upper_bound(state: _StepState, curvature: Floats) -> tuple[Surrogate, Floats, Floats]:
    """Minimise, and again with more curvature while the objective at the minimiser is above the surrogate."""
    problem, point = state.problem, state.point
    tolerance = _TOLERANCE * problem.objective_s(point)
    for _ in range(_MAX_TRIES):
        average, target = state.minimise(curvature)
        squares = (target - point.x) ** 2
        if not squares.any():
            break
        excess = state.build.excess(point, state.betas, problem.at(target))
        if excess.total <= float(curvature @ squares) / 2 + tolerance:
            break
        curvature = _raised(curvature, excess, squares)
    return average, target, curvature


def _minimise_corrected(state: _StepState, curvature: Floats, corrections: int) -> tuple[Surrogate, Floats]:
    """Minimise, and again as often as given with the curvature of the costs seen at the minimiser."""
    problem, point, betas = state.problem, state.point, state.betas
    average, target = state.minimise(curvature)
    corrected, slope_factor = curvature, 1.0
    for correction in range(corrections):
        if np.array_equal(target, point.x):
            break
        there = problem.at(target)
        if correction == 0 and state.running is None:
            slope_factor = (1 + secant_to_tangent(point, betas, there)) / 2
        seen = slope_factor * curvature_between(problem, point, betas, there)
        corrected = np.maximum(curvature, seen if correction == 0 else (corrected + seen) / 2)
        average, target = state.minimise(corrected, slope_factor)
    return average, target


def _raised(curvature: Floats, excess: Excess, squares: Floats) -> Floats:
    """Return more curvature: where a cluster's own cost needs it, and equally for all what is missing after that."""
    needed = np.divide(2 * excess.by_cluster, squares, out=np.zeros_like(squares), where=squares > 0)
    raised = np.maximum(curvature, np.minimum(1.2 * needed, _MAX_GROWTH * curvature))
    missing = 2 * excess.total - float(raised @ squares)
    if missing > 0:
        equal = 1.2 * missing / float(squares.sum())
        raised = raised + min(max(equal, float(curvature.min())), _MAX_GROWTH * float(curvature.min()))
    return raised
