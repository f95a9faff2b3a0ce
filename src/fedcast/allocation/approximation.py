r"""Convex stand-ins of the objective at a point, and how far the objective is above them elsewhere.

The surrogate keeps what is convex, the sharing delay and the delay of a round, and makes linear only the rounds:

.. math:: g(y) = \tau^s(y) + T\, \tau(y) + \tau\, \nabla T^\top (y - x) + \tfrac12 \sum_m L_m (y_m - x_m)^2

The paper makes :math:`T \tau` linear as a whole (Eq. 34), which loses that :math:`\tau` is a maximum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from fedcast.allocation.problem import AllocationProblem, Point
from fedcast.allocation.surrogate import Surrogate, tangent
from fedcast.rounds.model import BetaSet
from fedcast.typing import Floats


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


def rounds_and_gradient(problem: AllocationProblem, point: Point, betas: BetaSet) -> tuple[float, Floats]:
    """Expected rounds at a point and their gradient by ratios, float64[M]."""
    skewness = point.skewness
    rounds, by_skew, by_shift = betas.expected(skewness.skew, skewness.shift)
    by_volume = by_skew * skewness.skew_gradient + by_shift * skewness.shift_gradient
    return rounds, by_volume * problem.feasible.sizes


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


def bends(problem: AllocationProblem, point: Point, betas: BetaSet, new: Point) -> Floats:
    """The curvature, float64[M], with which tangents of the clusters' costs at `point` meet the costs at `new`.

    The shift of the mixture is left out: it is bent too, but belongs to no cluster, and curvature for all alike to meet
    it makes a search settle in worse optima.
    """
    squares = (new.x - point.x) ** 2
    needed = 2 * kinks(problem, point, betas, new)
    curvature: Floats = np.divide(needed, squares, out=np.zeros_like(squares), where=squares > 0)
    return curvature


def chord(point: Point, betas: BetaSet, new: Point) -> float:
    """Slope of rounds against skew between two points, as a share of that at the first: below 1, T being convex."""
    here, there = point.skewness, new.skewness
    rounds, by_skew, _ = betas.expected(here.skew, here.shift)
    if there.skew >= here.skew or by_skew <= 0:
        return 1.0
    saved = rounds - betas.expected(there.skew, here.shift)[0]
    return max(saved / (by_skew * (here.skew - there.skew)), 0.0)
