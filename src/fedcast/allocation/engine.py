r"""One engine for JFVO, SMM and SAA: they differ in step sizes and in how many parameter vectors a step uses.

A step (Eq. 33 to 36): draw :math:`\beta`, build a convex surrogate of the objective at the current ratios x, average it
into the running surrogate with weight :math:`\rho_t`, minimise that, move a part :math:`\mu_t` of the way. The
surrogate keeps what is convex, the sharing delay and the delay of a round, and linearises the rounds:

.. math:: g(y) = \tau^s(y) + T\, \tau(y) + \tau\, \nabla T^\top (y - x) + \tfrac12 \sum_m L_m (y_m - x_m)^2

The paper linearises the product :math:`T \tau` (Eq. 34), which loses that :math:`\tau` is a maximum.

SMM and SAA need surrogates that are upper bounds. Curvature is found by backtracking: it grows until the surrogate is
above the objective at the minimiser, and shrinks again afterwards. It has an entry for each cluster, since EMD has
kinks and one cluster at a kink must not slow down the others.

JFVO needs no upper bound: its curvature is small and shrinks. The first minimisers are therefore far away, where
tangents are too low, and smoothing forgets an error of the first step slowly. So the first steps minimise again, with
the curvature that matches the clusters' costs at the minimiser. The very first step does so three times, halving the
change each time, and uses a slope of T halfway between tangent and secant.

Stochastic successive convex approximation converges if :math:`\sum \rho_t = \sum \mu_t = \infty`,
:math:`\sum \rho_t^2, \sum \mu_t^2 < \infty` and :math:`\mu_t / \rho_t \to 0`. For powers of t this is
:math:`\tfrac12 < \kappa_1 < \kappa_2 \le 1`. Both are 1 at t = 1, so that the starting surrogate is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from fedcast.allocation.allocation_problem import AllocationProblem, Point
from fedcast.allocation.inner import LastMinimum, Surrogate
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
# EMD has kinks, to which a search that starts close by converges in this many steps, ...
_DESCENT_STEPS = 10
# ... or fewer: it ends after so many steps in a row that improve the objective by less than this share of it.
_LAST_STEPS = 3
_SMALL_GAIN = 1e-9


@dataclass(frozen=True)
class Step:
    """One iteration: expected delay at the iterate, and norm of the step to the surrogate's minimiser, in samples."""

    objective_s: float
    distance: float


class Solution(NamedTuple):
    """Solution of a method: the share of its samples that each head sends, float64[M], and its iterations, if any.

    `bound_s` is a delay that no ratios are below, if one was proven.
    """

    x: Floats
    trace: tuple[Step, ...] = ()
    bound_s: float | None = None


@dataclass(frozen=True)
class StochasticOptions:
    """Options of the methods with two step sizes (Eq. 33 and 36)."""

    steps: int = option(60, "steps of the stochastic search", ge=1, le=100_000)
    surrogate_exponent: float = option(0.6, "a new surrogate has weight step^-this", gt=0.5, lt=1)
    iterate_exponent: float = option(0.9, "a new iterate has weight step^-this; above surrogate_exponent", gt=0.5, le=1)

    def __post_init__(self) -> None:
        if not self.surrogate_exponent < self.iterate_exponent:
            raise ValueError(
                f"invalid value {self.iterate_exponent} for iterate_exponent: expected a number above "
                f"surrogate_exponent = {self.surrogate_exponent}, so that iterates change more slowly than surrogates"
            )

    @property
    def exponents(self) -> tuple[float, float]:
        """Exponents of both step sizes."""
        return self.surrogate_exponent, self.iterate_exponent


class Approximation(Protocol):
    """Construction of surrogates: which parts of the objective are linearised at a point, for given betas."""

    def linear(self, point: Point, betas: BetaSet, slope_factor: float = 1.0) -> tuple[float, Floats]:
        """Return the weight of the round's delay, and the gradient float64[M] of what is linear times a factor."""

    def excess_s(self, point: Point, betas: BetaSet, new: Point) -> float:
        """Return how far the objective at `new` is above the surrogate at `point` without its quadratic term, s."""


@dataclass(frozen=True, eq=False)
class LinearRounds:
    """Linearise the rounds and keep the delay of a round convex."""

    problem: AllocationProblem

    def linear(self, point: Point, betas: BetaSet, slope_factor: float = 1.0) -> tuple[float, Floats]:
        """Return the expected rounds, and their gradient times the delay of a round."""
        rounds, gradient = rounds_and_gradient(self.problem, point, betas)
        return rounds, slope_factor * point.round_s * gradient

    def excess_s(self, point: Point, betas: BetaSet, new: Point) -> float:
        """Return how far the objective at `new` is above the surrogate at `point` without its quadratic term, s."""
        rounds, gradient = rounds_and_gradient(self.problem, point, betas)
        return (new.expected(betas).rounds - rounds) * new.round_s - point.round_s * float(gradient @ (new.x - point.x))


def rounds_and_gradient(problem: AllocationProblem, point: Point, betas: BetaSet) -> tuple[float, Floats]:
    """Return the expected rounds at a point and their gradient by ratios, float64[M]."""
    at, expected = point.skew_at, point.expected(betas)
    by_volume = expected.by_skew * at.skew_gradient + expected.by_shift * at.shift_gradient
    by_volume = by_volume + expected.by_steps * at.steps_gradient
    return expected.rounds, by_volume * problem.feasible.sizes


class _StepState(NamedTuple):
    """Start of a step: the iterate, the betas drawn, the running surrogate and the weight of a new one."""

    problem: AllocationProblem
    build: Approximation
    point: Point
    betas: BetaSet
    running: Surrogate | None
    weight: float
    last: LastMinimum  # of the surrogate before

    def minimise(self, curvature: Floats, slope_factor: float = 1.0) -> tuple[Surrogate, Floats]:
        """Return the running surrogate with a new one averaged in, and its minimiser float64[M]."""
        round_weight, gradient = self.build.linear(self.point, self.betas, slope_factor)
        new = Surrogate(1.0, round_weight, gradient - curvature * self.point.x, curvature, self.last)
        average = new if self.running is None or self.weight == 1 else self.running.averaged(self.weight, new)
        return average, self.problem.minimiser(average, self.problem.feasible)

    def curvature_to(self, new: Point) -> Floats:
        """Return the curvature, float64[M], with which tangents of the clusters' costs meet the costs at `new`."""
        # The shift is curved too, but belongs to no cluster: equal curvature for all would end in worse optima.
        here, there, change = self.point.skew_at, new.skew_at, new.x - self.point.x
        moved = change * self.problem.feasible.sizes
        above = np.maximum(there.costs - here.costs - here.cost_slopes * moved, 0.0) / here.denominator
        by_skew = self.point.expected(self.betas).by_skew
        excess_s = self.point.round_s * max(by_skew, 0.0) * above
        squares = change**2
        return np.divide(2 * excess_s, squares, out=np.zeros_like(squares), where=squares > 0)


def search(
    problem: AllocationProblem,
    draw: Callable[[int], BetaSet],
    steps: int,
    exponents: tuple[float, float] = (0.0, 0.0),
    *,
    start: Floats | None = None,
    approximation: Approximation | None = None,
    upper_bound: bool = True,
    until_settled: bool = False,
) -> tuple[Solution, Floats]:
    """Run the engine; return the best ratios on the evaluation set with the trace, and the last iterate float64[M].

    `draw` gives the betas of step 1, 2, ...; `exponents` are those of the step sizes t^-exponent of new surrogates and
    of new iterates (0: only the newest counts); `approximation` builds surrogates, by default with linearised rounds.
    With `upper_bound` curvature is raised until surrogates are above the objective at their minimiser. With
    `until_settled` the search ends early where the last steps gained next to nothing.
    """
    for exponent in exponents:
        if exponent != 0 and not 0.5 < exponent <= 1:
            raise FedcastError(
                f"step size: exponent {exponent}, expected above 0.5 (the sum of squares must be finite) and at "
                f"most 1 (the sum of steps must be infinite)"
            )
    build = LinearRounds(problem) if approximation is None else approximation
    point = problem.at(problem.start() if start is None else start)
    value = problem.objective_s(point)
    best, best_value = point.x, value
    curvature, running, trace = np.full(problem.num_clusters, _FIRST_CURVATURE * value), None, []
    target, settled, last = point.x, 0, LastMinimum()
    for step in range(1, steps + 1):
        weight, move = (float(step**-exponent) for exponent in exponents)
        state = _StepState(problem, build, point, draw(step), running, weight, last)
        if upper_bound:
            running, target, curvature = _minimise_upper_bound(state, curvature)
        else:
            corrections = _FIRST_CORRECTIONS if step == 1 else int(step <= _CORRECTED_STEPS)
            running, target = _minimise_corrected(state, curvature, corrections)
        trace.append(Step(value, float(np.linalg.norm((target - point.x) * problem.feasible.sizes))))
        point = problem.at((1 - move) * point.x + move * target)
        value = problem.objective_s(point)
        settled = settled + 1 if value > best_value * (1 - _SMALL_GAIN) else 0
        if value < best_value:
            best, best_value = point.x, value
        if until_settled and settled == _LAST_STEPS:
            break
        curvature = np.maximum(curvature / 2, _MIN_CURVATURE * value)
    trace.append(Step(value, trace[-1].distance if trace else 0.0))
    return Solution(problem.best_of([best, target, np.zeros_like(best)]), tuple(trace)), point.x


def descend(problem: AllocationProblem, start: Floats | None = None, steps: int | None = None) -> Solution:
    """Run the engine with all parameter vectors in every step: a deterministic descent on the evaluation set.

    Without a number of steps it ends when it has settled. Rounds depend on volumes only through a few numbers, such as
    the average skew: a step costs as much as one with a single vector.
    """
    most, until_settled = (_DESCENT_STEPS, True) if steps is None else (steps, False)
    return search(problem, lambda _: problem.betas, most, start=start, until_settled=until_settled)[0]


def draw_one(problem: AllocationProblem, steps: int) -> Callable[[int], BetaSet]:
    """Return a function that gives the one parameter vector of each step, drawn by the problem's seed."""
    chosen = generator(problem.seed, "allocation/draws").integers(problem.betas.size, size=steps)
    return lambda step: problem.betas.only(int(chosen[step - 1]))


def step_at(problem: AllocationProblem, x: Floats) -> Step:
    """Return the iteration of a search that does not move: the expected delay at ratios float64[M]."""
    return Step(problem.objective_s(problem.at(x)), 0.0)


def _minimise_upper_bound(state: _StepState, curvature: Floats) -> tuple[Surrogate, Floats, Floats]:
    """Minimise, and again with more curvature while the objective at the minimiser is above the surrogate.

    Curvature is raised where a cluster's own cost needs it, and equally for all by what is missing after that.
    """
    problem, point = state.problem, state.point
    tolerance = _TOLERANCE * problem.objective_s(point)
    for _ in range(_MAX_TRIES):
        average, target = state.minimise(curvature)
        squares = (target - point.x) ** 2
        if not squares.any():
            break
        there = problem.at(target)
        excess_s = state.build.excess_s(point, state.betas, there)
        if excess_s <= float(curvature @ squares) / 2 + tolerance:
            break
        least = float(curvature.min())
        curvature = np.maximum(curvature, np.minimum(1.2 * state.curvature_to(there), _MAX_GROWTH * curvature))
        missing = 2 * excess_s - float(curvature @ squares)
        if missing > 0:
            curvature = curvature + min(max(1.2 * missing / float(squares.sum()), least), _MAX_GROWTH * least)
    return average, target, curvature


def _minimise_corrected(state: _StepState, curvature: Floats, corrections: int) -> tuple[Surrogate, Floats]:
    """Minimise, and again as often as given with the curvature of the costs seen at the minimiser."""
    average, target = state.minimise(curvature)
    corrected, slope_factor = curvature, 1.0
    for correction in range(corrections):
        if np.array_equal(target, state.point.x):
            break
        there = state.problem.at(target)
        if correction == 0 and state.running is None:
            slope_factor = (1 + _secant_to_tangent(state, there)) / 2
        seen = slope_factor * state.curvature_to(there)
        corrected = np.maximum(curvature, seen if correction == 0 else (corrected + seen) / 2)
        average, target = state.minimise(corrected, slope_factor)
    return average, target


def _secant_to_tangent(state: _StepState, new: Point) -> float:
    """Return the slope of rounds against skew up to `new` over that at the iterate; at most 1, T being convex."""
    here, there = state.point.skew_at, new.skew_at
    expected = state.point.expected(state.betas)
    if there.skew >= here.skew or expected.by_skew <= 0:
        return 1.0
    saved = expected.rounds - state.betas.expected(there.skew, here.shift, here.steps).rounds
    return max(saved / (expected.by_skew * (here.skew - there.skew)), 0.0)
