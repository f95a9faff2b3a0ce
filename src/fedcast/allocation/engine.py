r"""One engine for JFVO, SMM and SAA: they differ in step sizes and in how many parameter vectors a step looks at.

A step (Eq. 33 to 36): draw :math:`\beta`, build a convex surrogate of the objective at the present ratios x, average it
into the running surrogate with weight :math:`\rho_t`, minimise that exactly, move a part :math:`\mu_t` of the way.

The surrogate keeps what is convex, the sharing delay and the delay of a round, and makes linear only the rounds:

.. math:: g(y) = \tau^s(y) + T\, \tau(y) + \tau\, \nabla T^\top (y - x) + \tfrac{L}{2} \|y - x\|^2

The paper makes :math:`T \tau` linear as a whole (Eq. 34), which loses that :math:`\tau` is a maximum.

SMM and SAA need surrogates that are upper bounds. L is found by back-tracking: it grows until g is above the objective
at the minimiser, and shrinks again afterwards; it has an entry for each cluster, since EMD has kinks and one cluster
at a kink must not slow down the others. JFVO needs no upper bound: it has a small L that shrinks. Its first step is a
long one, for which a tangent promises too much, T being convex; there the slope is that of the chord to the minimiser.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from fedcast.allocation.minimise import minimise
from fedcast.allocation.problem import AllocationProblem, Point
from fedcast.allocation.rounds import BetaSet
from fedcast.allocation.schedules import Schedule
from fedcast.allocation.surrogate import Surrogate, tangent
from fedcast.heterogeneity import Floats
from fedcast.random import generator

# Curvature L as a share of the objective, at the start and at least.
_FIRST_CURVATURE = 1e-3
_LEAST_CURVATURE = 1e-7
# How often the slope of the first step is corrected, and how close to the chord's it need not be.
_CHORDS = 3
_STRAIGHT = 0.95
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


class Excess(NamedTuple):
    """How far the objective at a new point is above a surrogate without its quadratic term.

    Attributes:
        total: in seconds.
        by_cluster: float64[M], the part of it that is due to each cluster's own skew not being linear.
    """

    total: float
    by_cluster: Floats


class Approximation(Protocol):
    """A way to build surrogates: the parts of the objective, linear or kept, at a point and for some betas."""

    def surrogate(self, point: Point, betas: BetaSet, curvature: Floats, kept: float = 1.0) -> Surrogate:
        """The surrogate at a point, with curvature float64[M] and a share `kept` of the slope of the rounds."""

    def excess(self, point: Point, betas: BetaSet, new: Point) -> Excess:
        """How far the objective at `new` is above the surrogate without its quadratic term."""


@dataclass(frozen=True, eq=False)
class Structured:
    """Rounds made linear, the delay of a round kept convex.

    Attributes:
        problem: to be solved.
    """

    problem: AllocationProblem

    def surrogate(self, point: Point, betas: BetaSet, curvature: Floats, kept: float = 1.0) -> Surrogate:
        """See the module."""
        rounds, gradient = rounds_and_gradient(self.problem, point, betas)
        return tangent(point.x, kept * point.round_s * gradient, curvature, round_weight=rounds)

    def excess(self, point: Point, betas: BetaSet, new: Point) -> Excess:
        """See the protocol."""
        rounds, gradient = rounds_and_gradient(self.problem, point, betas)
        expected = betas.expected(new.skewness.skew, new.skewness.shift)[0]
        total = (expected - rounds) * new.round_s - point.round_s * float(gradient @ (new.x - point.x))
        return Excess(total, kinks(self.problem, point, betas, new))


def kinks(problem: AllocationProblem, point: Point, betas: BetaSet, new: Point) -> Floats:
    """Delay that comes from each cluster's cost lying above its tangent, float64[M], s.

    EMD has kinks. One cluster at a kink needs much curvature, and must not slow down all the others.
    """
    here, there = point.skewness, new.skewness
    moved = (new.x - point.x) * problem.feasible.sizes
    above = np.maximum(there.costs - here.costs - here.cost_slopes * moved, 0.0) / here.denominator
    by_skew = betas.expected(here.skew, here.shift)[1]
    delay: Floats = point.round_s * max(by_skew, 0.0) * above
    return delay


def rounds_and_gradient(problem: AllocationProblem, point: Point, betas: BetaSet) -> tuple[float, Floats]:
    """Expected rounds at a point and their gradient by ratios, float64[M]."""
    skewness = point.skewness
    rounds, by_skew, by_shift = betas.expected(skewness.skew, skewness.shift)
    by_volume = by_skew * skewness.skew_gradient + by_shift * skewness.shift_gradient
    return rounds, by_volume * problem.feasible.sizes


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
        share, move = schedule.surrogate(step), schedule.iterate(step)
        running, target, curvature = _advance(problem, build, point, draw(step), running, share, curvature, upper_bound)
        trace.append(Step(value, float(np.linalg.norm((target - point.x) * problem.feasible.sizes))))
        point = problem.at((1 - move) * point.x + move * target)
        value = problem.objective_s(point)
        if value < best_value:
            best, best_value = point.x, value
        curvature = np.maximum(curvature / 2, _LEAST_CURVATURE * value)
    trace.append(Step(value, trace[-1].distance if trace else 0.0))
    return Found(better_of(problem, [best, target, np.zeros_like(best)]), tuple(trace), point.x)


def _advance(
    problem: AllocationProblem,
    build: Approximation,
    point: Point,
    betas: BetaSet,
    running: Surrogate | None,
    share: float,
    curvature: Floats,
    upper_bound: bool,
) -> tuple[Surrogate, Floats, Floats]:
    """Average a new surrogate in and minimise; again, if that promised more than the objective keeps."""
    tolerance = _TOLERANCE * problem.objective_s(point)
    kept = 1.0
    for attempt in range(_MAX_TRIES):
        new = build.surrogate(point, betas, curvature, kept)
        mixed = new if running is None or share == 1 else running.mix(share, new)
        target = minimise(mixed, problem.feasible)
        squares = (target - point.x) ** 2
        if not squares.any():
            break
        if upper_bound:
            excess = build.excess(point, betas, problem.at(target))
            if excess.total <= float(curvature @ squares) / 2 + tolerance:
                break
            curvature = _raised(curvature, excess, squares)
        else:
            chord = _chord(point, betas, problem.at(target)) if running is None else kept
            if attempt == _CHORDS or chord >= _STRAIGHT * kept:
                break
            kept = (kept + chord) / 2
    return mixed, target, curvature


def _chord(point: Point, betas: BetaSet, new: Point) -> float:
    """Slope of rounds against skew between two points, as a share of that at the first: below 1, T being convex."""
    here, there = point.skewness, new.skewness
    rounds, by_skew, _ = betas.expected(here.skew, here.shift)
    if there.skew >= here.skew or by_skew <= 0:
        return 1.0
    saved = rounds - betas.expected(there.skew, here.shift)[0]
    return max(saved / (by_skew * (here.skew - there.skew)), 0.0)


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
