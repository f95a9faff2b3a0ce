r"""Convex surrogates of the objective, and how they are built at a point.

.. math:: g(x) = w \max_m \frac{x_m}{r_m} + w_T\, \tau(x) + b^\top x + \tfrac12 \sum_m q_m x_m^2 + \text{const}

in ratios :math:`x_m = N_m / n_m`. Averages of such functions (Eq. 33) are again such functions, so that the whole
history of a stochastic search is two numbers and two vectors. The paper's initial surrogate has a norm instead of
its square, with which the family is not closed under averaging; the square is meant.

At a point x the surrogate keeps what is convex, the sharing delay and the delay of a round, and linearises the rounds:

.. math:: g(y) = \tau^s(y) + T\, \tau(y) + \tau\, \nabla T^\top (y - x) + \tfrac12 \sum_m L_m (y_m - x_m)^2

The paper linearises the product :math:`T \tau` (Eq. 34), which loses that :math:`\tau` is a maximum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from fedcast.rounds import BetaSet
from fedcast.typing import Floats

if TYPE_CHECKING:
    from fedcast.allocation.allocation_problem import AllocationProblem, Point


class Surrogate(NamedTuple):
    """A convex surrogate of the objective."""

    sharing_weight: float  # w, of the sharing delay
    round_weight: float  # w_T, of the round's delay: expected rounds
    linear: Floats  # [M], b
    curvature: Floats  # [M], q

    def averaged(self, weight: float, other: Surrogate) -> Surrogate:
        """Return the weighted average (1 - weight) of this surrogate and weight of the other (Eq. 33).

        Example:
            >>> import numpy as np
            >>> old, new = (Surrogate(1.0, rounds, np.zeros(1), np.ones(1)) for rounds in (10.0, 20.0))
            >>> old.averaged(0.5, new).round_weight
            15.0
        """
        keep = 1 - weight
        return Surrogate(
            keep * self.sharing_weight + weight * other.sharing_weight,
            keep * self.round_weight + weight * other.round_weight,
            keep * self.linear + weight * other.linear,
            keep * self.curvature + weight * other.curvature,
        )


def tangent(point: Floats, gradient: Floats, curvature: Floats, *, round_weight: float) -> Surrogate:
    """Return the surrogate whose smooth part has `gradient` at `point` and curvature q."""
    return Surrogate(1.0, round_weight, gradient - curvature * point, curvature)


class Excess(NamedTuple):
    """Excess of the objective over a surrogate without its quadratic term, s, and the part of each cluster."""

    total: float
    by_cluster: Floats


class Approximation(Protocol):
    """Construction of surrogates: which parts of the objective are linearised at a point, for given betas."""

    def surrogate(self, point: Point, betas: BetaSet, curvature: Floats, slope_factor: float = 1.0) -> Surrogate:
        """Return the surrogate at a point, with curvature float64[M] and the slope of the rounds times a factor."""

    def excess(self, point: Point, betas: BetaSet, new: Point) -> Excess:
        """Return how far the objective at `new` is above the surrogate without its quadratic term."""


@dataclass(frozen=True, eq=False)
class LinearRounds:
    """Linearise the rounds and keep the delay of a round convex."""

    problem: AllocationProblem

    def surrogate(self, point: Point, betas: BetaSet, curvature: Floats, slope_factor: float = 1.0) -> Surrogate:
        """Return the surrogate of the module's second formula."""
        rounds, gradient = rounds_and_gradient(self.problem, point, betas)
        return tangent(point.x, slope_factor * point.round_s * gradient, curvature, round_weight=rounds)

    def excess(self, point: Point, betas: BetaSet, new: Point) -> Excess:
        """Return how far the objective at `new` is above the surrogate without its quadratic term."""
        rounds, gradient = rounds_and_gradient(self.problem, point, betas)
        expected = betas.expected(new.skew_at.skew, new.skew_at.shift)[0]
        total = (expected - rounds) * new.round_s - point.round_s * float(gradient @ (new.x - point.x))
        return Excess(total, excess_by_cluster(self.problem, point, betas, new))


def rounds_and_gradient(problem: AllocationProblem, point: Point, betas: BetaSet) -> tuple[float, Floats]:
    """Return the expected rounds at a point and their gradient by ratios, float64[M]."""
    at = point.skew_at
    rounds, by_skew, by_shift = betas.expected(at.skew, at.shift)
    by_volume = by_skew * at.skew_gradient + by_shift * at.shift_gradient
    return rounds, by_volume * problem.feasible.sizes


def excess_by_cluster(problem: AllocationProblem, point: Point, betas: BetaSet, new: Point) -> Floats:
    """Return the delay by which each cluster's cost at `new` is above its tangent at `point`, float64[M], s.

    EMD has kinks. One cluster at a kink needs much curvature, and must not slow down all the others.
    """
    here, there = point.skew_at, new.skew_at
    moved = (new.x - point.x) * problem.feasible.sizes
    above = np.maximum(there.costs - here.costs - here.cost_slopes * moved, 0.0) / here.denominator
    by_skew = betas.expected(here.skew, here.shift)[1]
    delay: Floats = point.round_s * max(by_skew, 0.0) * above
    return delay


def curvature_between(problem: AllocationProblem, point: Point, betas: BetaSet, new: Point) -> Floats:
    """Return the curvature, float64[M], with which tangents of the clusters' costs at `point` meet the costs at `new`.

    The shift of the overall label distribution is left out: it is curved too, but belongs to no cluster, and equal
    curvature for all clusters to account for it makes a search end in worse optima.
    """
    squares = (new.x - point.x) ** 2
    needed = 2 * excess_by_cluster(problem, point, betas, new)
    curvature: Floats = np.divide(needed, squares, out=np.zeros_like(squares), where=squares > 0)
    return curvature


def secant_to_tangent(point: Point, betas: BetaSet, new: Point) -> float:
    """Return the slope of rounds against skew between two points over that at the first; at most 1, T being convex."""
    here, there = point.skew_at, new.skew_at
    rounds, by_skew, _ = betas.expected(here.skew, here.shift)
    if there.skew >= here.skew or by_skew <= 0:
        return 1.0
    saved = rounds - betas.expected(there.skew, here.shift)[0]
    return max(saved / (by_skew * (here.skew - there.skew)), 0.0)
