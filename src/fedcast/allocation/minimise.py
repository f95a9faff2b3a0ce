r"""The minimiser of a surrogate: the inner problem, the delay of a round kept convex, the limit of the sharing ratio.

For a given round delay s, volumes are capped by what the slowest members can compute in time, and what is left is the
inner problem. Its value is convex in s; the derivative is the weight of the round minus what the caps cost,
:math:`w_T - \sum_m \lambda_m\, u_m'(s)`, so the best s is the root of a function that does not fall. A limit of the
average sharing ratio adds a price per ratio, again the root of such a function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedcast.allocation.delay import RoundDelay
from fedcast.allocation.inner import minimise_on_box, upper_prices
from fedcast.allocation.surrogate import Surrogate
from fedcast.typing import Floats

Minimiser = Callable[[Surrogate, "Feasible"], Floats]

_RELATIVE = 1e-10
_MAX_STEPS = 100


@dataclass(frozen=True, eq=False)
class Feasible:
    """Where ratios may lie.

    Attributes:
        rate: float64[M], ratio that each head sends per second.
        upper: float64[M], largest ratio.
        sizes: float64[M], samples of each head.
        delay: of a round.
        leak: float64[M], what a ratio of 1 adds to the average sharing ratio.
        max_leak: limit of that; infinite: none.
    """

    rate: Floats
    upper: Floats
    sizes: Floats
    delay: RoundDelay
    leak: Floats
    max_leak: float

    def allows(self, x: Floats) -> bool:
        """Whether the average sharing ratio is within its limit."""
        return float(self.leak @ x) <= self.max_leak

    def shrunk(self, x: Floats) -> Floats:
        """The same ratios, all lowered in proportion if they leak too much."""
        leak = float(self.leak @ x)
        return x if leak <= self.max_leak else x * (self.max_leak / leak)


def minimise_surrogate(surrogate: Surrogate, feasible: Feasible) -> Floats:
    """The ratios float64[M] that minimise a surrogate."""
    free = _for_any_round(surrogate, surrogate.linear, feasible)
    if feasible.allows(free):
        return free
    if feasible.max_leak <= 0:
        return np.zeros_like(free)

    def priced(price: float) -> Floats:
        return _for_any_round(surrogate, surrogate.linear + price * feasible.leak, feasible)

    def spare(price: float) -> float:
        return feasible.max_leak - float(feasible.leak @ priced(price))

    # At this price no head gains by sharing anything.
    pull = np.maximum(-surrogate.linear, 0.0)
    most = float((pull / np.maximum(feasible.leak, 1e-300)).max())
    price = rising_root(spare, 0.0, most, spare(0.0), feasible.max_leak)
    return feasible.shrunk(priced(price))


def _for_any_round(surrogate: Surrogate, linear: Floats, feasible: Feasible) -> Floats:
    """The minimiser without a limit of the sharing ratio."""
    delay, weight = feasible.delay, surrogate.sharing_weight
    curvature = surrogate.curvature
    free = minimise_on_box(weight, feasible.rate, linear, curvature, feasible.upper).x
    longest = delay.at(free * feasible.sizes)
    if surrogate.round_weight <= 0 or longest <= delay.floor_s:
        return free

    def capped(round_s: float) -> tuple[Floats, float]:
        caps, slopes = delay.caps(round_s)
        caps, slopes = caps / feasible.sizes, slopes / feasible.sizes
        upper = np.minimum(feasible.upper, caps)
        found = minimise_on_box(weight, feasible.rate, linear, curvature, upper)
        prices = upper_prices(found, weight, feasible.rate, linear, curvature, upper)
        return found.x, surrogate.round_weight - float(prices[caps < feasible.upper] @ slopes[caps < feasible.upper])

    at_floor, rise = capped(delay.floor_s)
    if rise >= 0:
        return at_floor
    # Beyond the delay of the free minimiser no cap has a price.
    round_s = rising_root(lambda s: capped(s)[1], delay.floor_s, longest * (1 + 1e-12), rise, surrogate.round_weight)
    return capped(round_s)[0]


def rising_root(function: Callable[[float], float], low: float, high: float, at_low: float, at_high: float) -> float:
    """Where a function that does not fall turns positive, by false position with the Illinois rule.

    Every third step halves the bracket, since a jump would otherwise slow false position down.

    Example:
        >>> round(rising_root(lambda x: x * x - 2, 0.0, 2.0, -2.0, 2.0), 9)
        1.414213562
    """
    side = 0
    for step in range(_MAX_STEPS):
        if high - low <= _RELATIVE * abs(high):
            break
        middle = (low * at_high - high * at_low) / (at_high - at_low) if step % 3 < 2 else (low + high) / 2
        if not low < middle < high:
            middle = (low + high) / 2
        value = function(middle)
        if value == 0:
            return middle
        if value < 0:
            at_high = at_high / 2 if side < 0 else at_high
            low, at_low, side = middle, value, -1
        else:
            at_low = at_low / 2 if side > 0 else at_low
            high, at_high, side = middle, value, 1
    return high
