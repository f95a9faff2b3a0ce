r"""The exact minimiser of a surrogate on the feasible ratios.

On a box this is the inner problem (Eq. 35),

.. math:: \min_{0 \le x \le u}\; w \max_m \frac{x_m}{r_m} + b^\top x + \tfrac12 \sum_m q_m x_m^2

For a given sharing delay t the coordinates separate, :math:`x_m(t) = \min(z_m, t r_m)` with
:math:`z_m = \mathrm{clip}(-b_m/q_m, 0, u_m)`. The derivative by t,
:math:`w + \sum_{m: t r_m < z_m} r_m (q_m t r_m + b_m)`, is piecewise linear and nondecreasing: one sort and two
cumulative sums find its root, O(M log M), without iteration or tolerance.

The delay s of a round adds one dimension. For a given s volumes are capped by what the slowest members can compute in
time, and what is left is the inner problem. Its value is convex in s; the derivative is the weight of the round minus
what the caps cost, :math:`w_T - \sum_m \lambda_m\, u_m'(s)`, so that the best s is the root of a nondecreasing
function. A limit of the average sharing ratio adds a price per ratio, again the root of such a function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fedcast.allocation.round_delay import RoundDelay
from fedcast.allocation.surrogate import Surrogate
from fedcast.typing import Floats

Minimiser = Callable[[Surrogate, "Feasible"], Floats]

# From this many clusters the compiled loop is used, which first has to be compiled or read from the cache. Every head
# has a member, so there are at least 5,000 users then.
LARGE = 2_500
_RELATIVE = 1e-10
_MAX_STEPS = 100


class BoxMinimum(NamedTuple):
    """A minimiser and its sharing delay."""

    x: Floats  # [M]
    time: float  # the largest x/r


def minimise_on_box(weight: float, rate: Floats, linear: Floats, curvature: Floats, upper: Floats) -> BoxMinimum:
    """Solve the inner problem for w, r, b, q and u, with NumPy for few clusters and compiled for many.

    All but b are nonnegative, r is positive and u finite.

    Example:
        >>> box = np.full(2, 1.0)
        >>> minimise_on_box(1.0, np.array([1.0, 4.0]), np.array([-0.5, -1.0]), box, box).x.tolist()
        [0.20588235294117646, 0.8235294117647058]
    """
    if len(rate) >= LARGE:
        return minimise_compiled(weight, rate, linear, curvature, upper)
    return minimise_sorted(weight, rate, linear, curvature, upper)


def minimise_sorted(weight: float, rate: Floats, linear: Floats, curvature: Floats, upper: Floats) -> BoxMinimum:
    """Solve the inner problem by a sort and cumulative sums in NumPy."""
    pull = np.maximum(-linear, 0.0)
    # pull/q where that is inside the box; q may be 0, and pull/u need not exist: compare products instead.
    inside = pull < curvature * upper
    free = np.where(inside, pull, np.where(pull > 0, upper, 0.0))
    np.divide(free, curvature, out=free, where=inside)
    delays = free / rate
    order = (-delays).argsort()
    delays, rates = delays[order], rate[order]
    constant = weight + (rates * linear[order]).cumsum()
    steep = (curvature[order] * rates * rates).cumsum()
    following = np.append(delays[1:], 0.0)
    # The first piece, from the right, at whose left end the derivative is not positive any more.
    turned = constant + steep * following <= 0
    piece = int(turned.argmax()) if len(turned) else 0
    if not len(turned) or not turned[piece]:
        return BoxMinimum(np.zeros_like(free), 0.0)
    time = float(delays[piece])
    if steep[piece] > 0:
        time = min(time, float(-constant[piece] / steep[piece]))
    return BoxMinimum(np.minimum(free, time * rate), time)


def minimise_compiled(weight: float, rate: Floats, linear: Floats, curvature: Floats, upper: Floats) -> BoxMinimum:
    """Solve the inner problem without a sort, compiled by numba on first use and cached on disk."""
    from fedcast._fast import compiled
    from fedcast._fast.allocation_kernels import box_minimum

    free, x = np.empty(len(rate)), np.empty(len(rate))
    time = compiled(box_minimum)(float(weight), rate, linear, curvature, upper, free, x)
    return BoxMinimum(x, time)


def upper_prices(
    found: BoxMinimum, weight: float, rate: Floats, linear: Floats, curvature: Floats, upper: Floats
) -> Floats:
    """Return the multipliers of the upper bounds, float64[M]: how much the minimum falls per unit of each.

    Where a coordinate meets its bound and the sharing delay at once, the multiplier of the delay is what is left of its
    weight w after the coordinates that only the delay limits; the bound has the rest.
    """
    pull = np.maximum(-(linear + curvature * found.x), 0.0)
    at_upper = found.x >= upper * (1 - 1e-12)
    at_delay = found.x >= found.time * rate * (1 - 1e-12)
    both = at_upper & at_delay
    prices = np.where(at_upper, pull, 0.0)
    if both.any():
        left = weight - float((pull * rate)[at_delay & ~at_upper].sum())
        shared = float((pull * rate)[both].sum())
        prices[both] *= 1 - min(max(left / shared, 0.0), 1.0) if shared > 0 else 1.0
    return prices


@dataclass(frozen=True, eq=False)
class Feasible:
    """The feasible set of sharing ratios."""

    rate: Floats  # [M], ratio that each head sends per second
    upper: Floats  # [M], largest ratio
    sizes: Floats  # [M], samples of each head
    delay: RoundDelay  # of a round, as a function of volumes
    leak: Floats  # [M], what a ratio of 1 adds to the average sharing ratio
    max_leak: float  # limit of the average sharing ratio; infinite: none

    def allows(self, x: Floats) -> bool:
        """Return whether the average sharing ratio is within its limit."""
        return float(self.leak @ x) <= self.max_leak

    def scaled_to_limit(self, x: Floats) -> Floats:
        """Return the ratios, all lowered in proportion if their average is above its limit."""
        leak = float(self.leak @ x)
        return x if leak <= self.max_leak else x * (self.max_leak / leak)


def minimise_surrogate(surrogate: Surrogate, feasible: Feasible) -> Floats:
    """Return the ratios float64[M] that minimise a surrogate."""
    free = _minimise_without_limit(surrogate, surrogate.linear, feasible)
    if feasible.allows(free):
        return free
    if feasible.max_leak <= 0:
        return np.zeros_like(free)

    def priced(price: float) -> Floats:
        return _minimise_without_limit(surrogate, surrogate.linear + price * feasible.leak, feasible)

    def spare(price: float) -> float:
        return feasible.max_leak - float(feasible.leak @ priced(price))

    # At this price no head gains by sharing anything.
    pull = np.maximum(-surrogate.linear, 0.0)
    most = float((pull / np.maximum(feasible.leak, 1e-300)).max())
    price = rising_root(spare, 0.0, most, spare(0.0), feasible.max_leak)
    return feasible.scaled_to_limit(priced(price))


def _minimise_without_limit(surrogate: Surrogate, linear: Floats, feasible: Feasible) -> Floats:
    """Return the minimiser without a limit of the average sharing ratio."""
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
    """Return where a nondecreasing function turns positive, by false position with the Illinois rule.

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
