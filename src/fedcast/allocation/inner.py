r"""Convex surrogates of the objective, and the exact minimiser of one on the feasible ratios.

.. math:: g(x) = w \max_m \frac{x_m}{r_m} + w_T\, \tau(x) + b^\top x + \tfrac12 \sum_m q_m x_m^2 + \text{const}

in ratios :math:`x_m = N_m / n_m`. Averages of such functions (Eq. 33) are again such functions, so that the whole
history of a stochastic search is two numbers and two vectors. The paper's initial surrogate has a norm instead of
its square, with which the family is not closed under averaging; the square is meant.

On a box, without the delay of a round, this is the inner problem (Eq. 35),

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
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fedcast.cost import Fleet, fastest_compute_s, round_cost
from fedcast.typing import Floats, Ints

Minimiser = Callable[["Surrogate", "Feasible"], Floats]

# From this many clusters the compiled loop is used, which first has to be compiled or read from the cache. Every head
# has a member, so there are at least 5,000 users then.
LARGE = 2_500
# Roots: relative tolerance, that of a price of leakage, growth of a bracket around a guess, and how far false position
# moves towards the middle of the bracket.
_RELATIVE = 1e-10
_PRICE_TOLERANCE = 1e-7
_GROWTH = 64.0
_TOWARDS_MIDDLE = 0.2


@dataclass
class LastMinimum:
    """Place of the last minimiser, a guess for the next one; written by `minimise_surrogate`."""

    round_s: float | None = None  # delay of a round
    price: float | None = None  # of leakage


class Surrogate(NamedTuple):
    """A convex surrogate of the objective."""

    sharing_weight: float  # w, of the sharing delay
    round_weight: float  # w_T, of the round's delay: expected rounds
    linear: Floats  # [M], b
    curvature: Floats  # [M], q
    last: LastMinimum | None = None  # of a similar surrogate; None: not known

    def averaged(self, weight: float, other: Surrogate) -> Surrogate:
        """Return the weighted average (1 - weight) of this surrogate and weight of the other (Eq. 33).

        Example:
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
            other.last,
        )


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
    solve = minimise_compiled if len(rate) >= LARGE else minimise_sorted
    return solve(weight, rate, linear, curvature, upper)


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
    found: BoxMinimum, weight: float, rate: Floats, linear: Floats, curvature: Floats, upper: Floats, of: Ints
) -> Floats:
    """Return the multipliers of some coordinates' upper bounds: how much the minimum falls per unit of each.

    Where a coordinate meets its bound and the sharing delay at once, the multiplier of the delay is what is left of its
    weight w after the coordinates that only the delay limits; the bound has the rest.
    """
    x, top = found.x[of], upper[of] * (1 - 1e-12)
    prices = np.where(x >= top, np.maximum(-(linear[of] + curvature[of] * x), 0.0), 0.0)
    both_here = (x >= top) & (x >= found.time * rate[of] * (1 - 1e-12))
    if both_here.any():
        pull = np.maximum(-(linear + curvature * found.x), 0.0) * rate
        at_upper, at_delay = found.x >= upper * (1 - 1e-12), found.x >= found.time * rate * (1 - 1e-12)
        left, shared = weight - float(pull[at_delay & ~at_upper].sum()), float(pull[at_upper & at_delay].sum())
        prices[both_here] *= 1 - min(max(left / shared, 0.0), 1.0) if shared > 0 else 1.0
    return prices


@dataclass(frozen=True, eq=False)
class RoundDelay:
    r"""The delay of a round as a convex function of the volumes, at the best frequencies.

    With the frequency of Eq. 29 substituted, user k ends a round after

    .. math:: g_k(\tilde n) = o_k + \max\big(\alpha_k \tilde n,\; \kappa_k \tilde n^{3/2}\big), \qquad
        \alpha_k = \frac{L_k E}{f_{max}}, \quad
        \kappa_k = (L_k E)^{3/2} \sqrt{\frac{\varsigma}{\gamma_{th} - \gamma^u_k}}

    where :math:`o_k` is the broadcast in its cell and its upload (with ``waves``, its wave and those after it). The
    round is the largest of these. Only members that can ever end a round last are kept: one that is faster with the
    largest volume than the slowest user is with none never determines the round.
    """

    floor_s: float  # delay without sharing; no round is shorter
    cluster: Ints  # [B], cluster of each member that can end a round last, ascending
    sizes: Floats  # [B], its samples before sharing
    offset_s: Floats  # [B], broadcast and upload
    linear_s: Floats  # [B], seconds per sample at the highest frequency
    energy_s: Floats  # [B], seconds per sample^1.5 at the frequency that the energy allows
    num_clusters: int  # number of clusters M
    places: Ints  # [B], indices of these members among all members

    def at(self, volumes: Floats) -> float:
        """Return the delay of a round when head m sends volumes[m] samples, s."""
        samples = self.sizes + volumes[self.cluster]
        each = self.offset_s + np.maximum(self.linear_s * samples, self.energy_s * samples * np.sqrt(samples))
        return float(each.max(initial=self.floor_s))

    def at_fixed_frequencies(self, volumes: Floats, seconds_per_sample: Floats) -> tuple[float, Floats]:
        """Return the delay at fixed frequencies, with float64[B] seconds per sample, and a subgradient by volume."""
        each = self.offset_s + seconds_per_sample * (self.sizes + volumes[self.cluster])
        gradient = np.zeros(self.num_clusters)
        if each.max(initial=self.floor_s) > self.floor_s:
            slowest = int(each.argmax())
            gradient[self.cluster[slowest]] = seconds_per_sample[slowest]
        return float(each.max(initial=self.floor_s)), gradient

    def caps(self, round_s: float) -> tuple[Floats, Floats]:
        """Return the largest volumes of rounds that take at most `round_s`, and their slopes by it, float64[M] each.

        A cap is infinite where no member of the cluster can ever end a round last.
        """
        caps, slopes = np.full(self.num_clusters, np.inf), np.zeros(self.num_clusters)
        if len(self.cluster):
            caps[self.limited], slopes[self.limited] = self.limited_caps(round_s)
        return caps, slopes

    @cached_property
    def _spans(self) -> tuple[Ints, Ints, Ints]:
        """Return where the members of each cluster `limited` start and end here, and its place for each member."""
        starts = np.flatnonzero(np.diff(self.cluster, prepend=-1))
        return starts, np.append(starts[1:], len(self.cluster)), np.searchsorted(self.cluster[starts], self.cluster)

    @cached_property
    def limited(self) -> Ints:
        """Return the clusters with members that can end a round last."""
        return self.cluster[self._spans[0]]

    def limited_caps(self, round_s: float) -> tuple[Floats, Floats]:
        """Return the finite ones of `caps`, those of the clusters `limited`, and their slopes."""
        left = np.maximum(round_s - self.offset_s, 0.0)
        by_frequency, by_energy = left / self.linear_s, np.cbrt(left / self.energy_s) ** 2
        room = np.minimum(by_frequency, by_energy) - self.sizes
        slope = np.where(by_frequency < by_energy, 1 / self.linear_s, by_energy / (1.5 * np.maximum(left, 1e-300)))
        starts, ends, place = self._spans
        caps = np.minimum.reduceat(room, starts)
        # Of members that are equally slow, the slope is that of the last.
        tight = (room <= caps[place]).nonzero()[0]
        return np.maximum(caps, 0.0), slope[tight[tight.searchsorted(ends) - 1]]


def round_delay(fleet: Fleet, sizes: Floats, members: Ints, cluster: Ints, upper: Floats) -> RoundDelay:
    """Return the delay of a round of `fleet`, whose users hold `sizes` samples before sharing.

    With ``fractional`` uploads the band is assumed to be split equally, which is an upper bound of the delay; the split
    that is used in the end can only shorten the round.

    `members` int64[C] are indices of members in the fleet, `cluster` their clusters in ascending order, and `upper`
    float64[M] the largest volumes.
    """
    cost = round_cost(fleet, sizes)
    span = fleet.upload_s if fleet.cellular.uplink == "fractional" else cost.span_s
    offset = cost.broadcast_s + span
    floor_s = float((offset + cost.compute_s).max())
    most = sizes.copy()
    most[members] += upper[cluster]
    limits = fleet.energy_left_j, fleet.devices.max_frequency_hz, fleet.energy_coefficient
    slowest = offset + fastest_compute_s(fleet.cycles(most), *limits)
    deciding = slowest[members] > floor_s
    users = members[deciding]
    per_sample = fleet.cycles(np.ones(len(sizes)))[users]
    with np.errstate(divide="ignore"):
        energy = per_sample**1.5 * np.sqrt(fleet.energy_coefficient / np.maximum(fleet.energy_left_j[users], 0.0))
    linear = per_sample / fleet.devices.max_frequency_hz[users]
    return RoundDelay(
        floor_s, cluster[deciding], sizes[users], offset[users], linear, energy, len(upper), np.flatnonzero(deciding)
    )


@dataclass(frozen=True, eq=False)
class Feasible:
    """The feasible set of sharing ratios."""

    rate: Floats  # [M], ratio that each head sends per second
    upper: Floats  # [M], largest ratio
    sizes: Floats  # [M], samples of each head
    delay: RoundDelay  # of a round, as a function of volumes
    leak: Floats  # [M], what a ratio of 1 adds to the average sharing ratio; 0: it reveals nothing
    max_leak: float  # limit of the average sharing ratio; infinite: none

    def allows(self, x: Floats) -> bool:
        """Return whether the average sharing ratio is within its limit."""
        return float(self.leak @ x) <= self.max_leak

    def scaled_to_limit(self, x: Floats) -> Floats:
        """Return the ratios, those that reveal samples lowered in proportion if their average is above its limit."""
        leak = float(self.leak @ x)
        return x if leak <= self.max_leak else np.where(self.leak > 0, x * (self.max_leak / leak), x)

    def within(self, limit: float) -> Feasible:
        """Return the same with another limit; heads that reveal nothing (leak 0) are not limited."""
        if limit > 0 and self.leak.any():
            return replace(self, max_leak=limit)
        if limit <= 0 and self.leak.all():
            return replace(self, max_leak=0.0)
        upper = self.upper if limit > 0 else np.where(self.leak > 0, 0.0, self.upper)
        return replace(self, upper=upper, max_leak=np.inf)


def minimise_surrogate(surrogate: Surrogate, feasible: Feasible) -> Floats:
    """Return the ratios float64[M] that minimise a surrogate."""
    last = LastMinimum() if surrogate.last is None else surrogate.last
    if feasible.max_leak <= 0:
        return np.zeros_like(feasible.upper)
    # Where the limit was tight before, it mostly is again.
    if last.price is None:
        free = _minimise_without_limit(surrogate, surrogate.linear, feasible, last)
        if feasible.allows(free):
            return free
    found: dict[float, Floats] = {}

    def spare(price: float) -> float:
        found[price] = _minimise_without_limit(surrogate, surrogate.linear + price * feasible.leak, feasible, last)
        return feasible.max_leak - float(feasible.leak @ found[price])

    # At this price no head gains by sharing anything.
    gains, reveals = np.maximum(-surrogate.linear, 0.0), feasible.leak > 0
    most = float((gains[reveals] / feasible.leak[reveals]).max(initial=0.0))
    last.price = price = rising_root(spare, 0.0, most, last.price, _PRICE_TOLERANCE)
    # Just below it heads that are indifferent share more: as much as the limit allows.
    below = max((other for other in found if other < price), default=price)
    within, beyond = (float(feasible.leak @ found[p]) for p in (price, below))
    part = (feasible.max_leak - within) / (beyond - within) if beyond > within else 0.0
    return feasible.scaled_to_limit(found[price] + min(max(part, 0.0), 1.0) * (found[below] - found[price]))


def _minimise_without_limit(surrogate: Surrogate, linear: Floats, feasible: Feasible, last: LastMinimum) -> Floats:
    """Return the minimiser with another linear part and without a limit of the average sharing ratio."""
    delay, weight, curvature = feasible.delay, surrogate.sharing_weight, surrogate.curvature
    free = minimise_on_box(weight, feasible.rate, linear, curvature, feasible.upper).x
    longest = delay.at(free * feasible.sizes)
    if surrogate.round_weight <= 0 or longest <= delay.floor_s:
        return free
    limited = delay.limited
    sizes, most = feasible.sizes[limited], feasible.upper[limited]
    found: dict[float, Floats] = {}

    def rise(round_s: float) -> float:
        caps, slopes = delay.limited_caps(round_s)
        upper = feasible.upper.copy()
        upper[limited] = np.minimum(most, caps / sizes)
        box = minimise_on_box(weight, feasible.rate, linear, curvature, upper)
        found[round_s] = box.x
        prices = upper_prices(box, weight, feasible.rate, linear, curvature, upper, limited)
        return surrogate.round_weight - float((prices * (caps < most * sizes)) @ (slopes / sizes))

    # Beyond the delay of the free minimiser no cap has a price.
    last.round_s = rising_root(rise, delay.floor_s, longest * (1 + 1e-12), last.round_s)
    return found[last.round_s]


def rising_root(
    function: Callable[[float], float], low: float, high: float, guess: float | None = None, relative: float = _RELATIVE
) -> float:
    """Return where a nondecreasing function of nonnegative numbers turns positive, a place it was called with.

    That is `low` if it is not negative there, and at most `high`; to a relative tolerance otherwise. Around a guess the
    bracket starts small and grows. It then shrinks by the ITP method (Oliveira and Takahashi 2020), false position that
    takes at most one step more than bisection: the function may jump.
    """
    place = low if guess is None else min(max(guess, low), high)
    value, grown = function(place), high - low if guess is None else relative * (place or high)
    while True:
        if value == 0 or place == (low if value > 0 else high):
            return place
        other = max(place - grown, low) if value > 0 else min(place + grown, high)
        at_other = function(other)
        if (at_other > 0) != (value > 0):
            break
        place, value, grown = other, at_other, _GROWTH * grown
    (low, at_low), (high, at_high) = sorted([(place, value), (other, at_other)])
    width, tolerance = high - low, relative * high
    most = int(np.ceil(np.log2(width / tolerance))) + 1 if width > tolerance else 0
    for left in range(most, 0, -1):
        if high - low <= tolerance:
            break
        middle, crossing = (low + high) / 2, (low * at_high - high * at_low) / (at_high - at_low)
        towards = min(_TOWARDS_MIDDLE * (high - low) ** 2 / width, abs(middle - crossing))
        radius = tolerance * 2.0 ** (left - 1) - (high - low) / 2
        place = min(max(crossing + np.copysign(towards, middle - crossing), middle - radius), middle + radius)
        value = function(place)
        if value > 0:
            high, at_high = place, value
        else:
            low, at_low = place, value
    return high
