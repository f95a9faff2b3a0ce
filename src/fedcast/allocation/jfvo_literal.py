r"""JFVO as printed: frequencies and volumes in turns (Algorithm 2), for comparison.

With f on its energy bound the constraint on the volumes is :math:`N_m \le` the current :math:`N_m`: the alternation
can only lower volumes wherever energy binds. This is what the paper describes, and why fedcast eliminates f instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedcast.allocation.allocation_problem import AllocationProblem, Point
from fedcast.allocation.engine import Solution, Step, StochasticOptions, draw_one, rounds_and_gradient, search
from fedcast.allocation.methods import Method
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

    def linear(self, point: Point, betas: BetaSet, slope_factor: float = 1.0) -> tuple[float, Floats]:
        """Return no weight of the round's delay, and the gradient of the product."""
        return 0.0, slope_factor * self._product(point, betas)[1]

    def excess_s(self, point: Point, betas: BetaSet, new: Point) -> float:
        """Return how far the product at `new` is above its linear part, s."""
        here, gradient = self._product(point, betas)
        return self._product(new, betas)[0] - here - float(gradient @ (new.x - point.x))

    def _product(self, point: Point, betas: BetaSet) -> tuple[float, Floats]:
        """Return rounds times delay, and its gradient by ratios."""
        sizes = self.problem.feasible.sizes
        rounds, by_ratio = rounds_and_gradient(self.problem, point, betas)
        round_s, by_volume = self.problem.feasible.delay.at_fixed_frequencies(point.x * sizes, self.seconds)
        return rounds * round_s, round_s * by_ratio + rounds * (by_volume * sizes)


def jfvo_literal(problem: AllocationProblem, options: StochasticOptions) -> Solution:
    """Alternate: best frequencies for the volumes (Eq. 29), then volumes for the frequencies (Eq. 30, 33 to 36)."""
    inner = max(1, options.steps // _OUTER)
    draw, x = draw_one(problem, options.steps), problem.start()
    trace: list[Step] = []
    for outer in range(min(_OUTER, options.steps)):
        bound, seconds = _at_frequencies_of(problem, x)
        narrowed = replace(problem, feasible=replace(problem.feasible, upper=bound))
        # Step sizes restart in every outer iteration, as printed.
        shift = outer * inner
        found, x = search(
            narrowed,
            lambda step, shift=shift: draw(min(shift + step, options.steps)),  # type: ignore[misc]
            inner,
            options.exponents,
            start=np.minimum(x, bound),
            approximation=LinearProduct(problem, seconds),
        )
        trace.extend(found.trace[:-1])
    return Solution(x, (*trace, found.trace[-1]))


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
