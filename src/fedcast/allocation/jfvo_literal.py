r"""JFVO as printed: frequencies and volumes in turns (Algorithm 2), for comparison.

With f on its energy bound the constraint on the volumes is :math:`N_m \le` the current :math:`N_m`: the alternation
can only lower volumes wherever energy binds. This is what the paper describes, and why fedcast eliminates f instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedcast.allocation.allocation_problem import AllocationProblem, Point
from fedcast.allocation.engine import Solution, Step, StochasticOptions, draw_one, search
from fedcast.allocation.methods import Method
from fedcast.allocation.surrogate import Excess, Surrogate, excess_by_cluster, rounds_and_gradient, tangent
from fedcast.cost import best_frequency_hz
from fedcast.rounds import BetaSet
from fedcast.typing import Floats

# The paper does not say how many outer iterations it makes; its figure shows six.
_OUTER = 6


@dataclass(frozen=True, eq=False)
class LinearProduct:
    """Linearise the product of rounds and delay (Eq. 34), at fixed frequencies."""

    problem: AllocationProblem  # to be solved
    seconds: Floats  # [B], seconds per sample of the members that can end a round last

    def surrogate(self, point: Point, betas: BetaSet, curvature: Floats, slope_factor: float = 1.0) -> Surrogate:
        """Return the surrogate at a point."""
        return tangent(point.x, slope_factor * self._gradient(point, betas), curvature, round_weight=0.0)

    def excess(self, point: Point, betas: BetaSet, new: Point) -> Excess:
        """Return how far rounds times delay at `new` are above their linear part."""
        gain = self._product(new, betas) - self._product(point, betas)
        total = gain - float(self._gradient(point, betas) @ (new.x - point.x))
        return Excess(total, excess_by_cluster(self.problem, point, betas, new))

    def _round(self, point: Point) -> tuple[float, Floats]:
        sizes = self.problem.feasible.sizes
        round_s, by_volume = self.problem.feasible.delay.at_fixed_frequencies(point.x * sizes, self.seconds)
        return round_s, by_volume * sizes

    def _product(self, point: Point, betas: BetaSet) -> float:
        rounds = betas.expected(point.skew_at.skew, point.skew_at.shift)[0]
        return rounds * self._round(point)[0]

    def _gradient(self, point: Point, betas: BetaSet) -> Floats:
        rounds, by_ratio = rounds_and_gradient(self.problem, point, betas)
        round_s, round_gradient = self._round(point)
        return round_s * by_ratio + rounds * round_gradient


def jfvo_literal(problem: AllocationProblem, options: StochasticOptions) -> Solution:
    """Alternate: best frequencies for the volumes (Eq. 29), then volumes for the frequencies (Eq. 30, 33 to 36)."""
    inner = max(1, options.steps // _OUTER)
    schedule, draw = options.schedule(), draw_one(problem, options.steps)
    x = problem.start()
    trace: list[Step] = []
    for outer in range(min(_OUTER, options.steps)):
        bound, seconds = _at_frequencies_of(problem, x)
        narrowed = replace(problem, feasible=replace(problem.feasible, upper=bound))
        # Step sizes restart in every outer iteration, as printed.
        shift = outer * inner
        found, x = search(
            narrowed,
            schedule,
            lambda step, shift=shift: draw(min(shift + step, options.steps)),  # type: ignore[misc]
            inner,
            start=np.minimum(x, bound),
            approximation=LinearProduct(problem, seconds),
        )
        trace += found.trace[:-1]
    trace.append(found.trace[-1])
    return Solution(x, tuple(trace))


def _at_frequencies_of(problem: AllocationProblem, x: Floats) -> tuple[Floats, Floats]:
    """Return, at the frequencies that are best at x, the largest ratios within the energy and seconds per sample."""
    fleet, averages, feasible = problem.fleet, problem.averages, problem.feasible
    members, cluster = problem.members, averages.cluster
    per_sample = fleet.cycles(np.ones(len(fleet.devices.consent)))[members]
    samples = averages.sizes + (x * feasible.sizes)[cluster]
    left = fleet.energy_left_j[members]
    limits = fleet.devices.max_frequency_hz[members], fleet.energy_coefficient
    frequency = best_frequency_hz(per_sample * samples, left, *limits)
    with np.errstate(divide="ignore"):
        affordable = left / (fleet.energy_coefficient * per_sample * frequency**2)
    room = np.full(problem.num_clusters, np.inf)
    np.minimum.at(room, cluster, affordable - averages.sizes)
    bound = np.clip(room / feasible.sizes, 0.0, feasible.upper)
    return bound, (per_sample / frequency)[feasible.delay.places]


METHOD = Method(jfvo_literal, "JFVO as printed: frequencies and volumes in turns", options=StochasticOptions)
