r"""Average skew after sharing and the shift of the global label distribution as functions of the shared volumes.

A head m that shares N samples adds :math:`V_m(N) = N (q_m - P_g)` to the deviation :math:`n_c (P_c - P_g)` of each of
its members c, which then has

.. math:: \tilde n_c = n_c + N_m, \qquad \tilde n_c (\tilde P_c - P_g) = n_c (P_c - P_g) + V_m(N_m).

Generated samples of worth w count as w N in both, see `fedcast.rounds.worth`. With composition ``own`` the distribution
:math:`q_m = P_m` is fixed and V is linear. With ``balanced`` the head fills all classes to one level as far as it has
them, so that :math:`N q_m(N)` is piecewise linear. Both are exact.

An evaluation with gradients is O(members x classes); users that receive nothing enter as one constant. EMD has kinks,
where a subgradient is returned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fedcast.data import Weighting
from fedcast.typing import Floats, Ints

# Below this many members NumPy is used; above, loops compiled by numba.
LARGE = 5_000
_TINY = 1e-300
# The logarithm of a share has an infinite slope at 0; a lower bound far below one sample keeps it finite.
_MIN_SHARE = 1e-12
_BISECTIONS = 40


@dataclass(frozen=True, eq=False)
class OwnOffer:
    """Heads that send a random part of their data."""

    deviation: Floats  # [M, Y], P_m - P_g

    def at(self, volumes: Floats) -> tuple[Floats, Floats]:
        """Return V and dV/dN at volumes float64[M], float64[M, Y] each."""
        return volumes[:, None] * self.deviation, self.deviation


@dataclass(frozen=True, eq=False)
class BalancedOffer:
    r"""Heads that send as equal a part as their data allow, :math:`s_y = \min(c_y, \ell(N))`."""

    counts: Floats  # [M, Y], samples of each head by class
    global_distribution: Floats  # [Y], P_g

    @cached_property
    def _levels(self) -> tuple[Floats, Floats]:
        """Counts sorted within each row, and the volume at which the level reaches each, float64[M, Y] each."""
        ascending, columns = np.sort(self.counts, axis=1), self.counts.shape[1]
        return ascending, np.cumsum(ascending, axis=1) - ascending + ascending * (columns - np.arange(columns))

    def at(self, volumes: Floats) -> tuple[Floats, Floats]:
        """Return V and dV/dN at volumes float64[M], float64[M, Y] each; at a kink, the slope to its right."""
        (ascending, filled), columns = self._levels, self.counts.shape[1]
        full = np.minimum((filled <= volumes[:, None]).sum(axis=1), columns - 1)
        last = np.arange(len(volumes)), np.maximum(full - 1, 0)
        start, used = np.where(full > 0, ascending[last], 0.0), np.where(full > 0, filled[last], 0.0)
        level = start + (volumes - used) / (columns - full)
        unfinished = self.counts > start[:, None]
        sent = np.minimum(self.counts, level[:, None])
        # A head that has sent everything has no unfinished class left: the next sample would be one of its own data.
        slope = unfinished / np.maximum(unfinished.sum(axis=1), 1)[:, None]
        return sent - volumes[:, None] * self.global_distribution, slope - self.global_distribution


Offer = OwnOffer | BalancedOffer


class SkewAt(NamedTuple):
    """Average skew and shift at given volumes, with gradients by volume."""

    skew: float  # average skew D
    shift: float  # of the global label distribution
    steps: float  # mean number of local steps in a round
    skew_gradient: Floats  # [M], per sample
    shift_gradient: Floats  # [M], per sample
    steps_gradient: Floats  # [M], per sample; constant
    costs: Floats  # [M], what each cluster adds to the numerator of the average skew
    cost_slopes: Floats  # [M], derivatives of these by volume
    denominator: float  # of the average skew


# Skew e of each member and de/dN, float64[C] each.
MemberSkew = tuple[Floats, Floats]


@dataclass(frozen=True, eq=False)
class AverageSkew:
    """The average skew of one clustering as a function of the volumes.

    `measure` returns the skew of each member and its derivative from (n_c (P_c - P_g) + V, V', ñ, P_g).
    """

    offer: Offer  # what heads send
    cluster: Ints  # [C], cluster of each member, ascending
    own: Floats  # [C, Y], n_c (P_c - P_g)
    sizes: Floats  # [C], n_c
    global_distribution: Floats  # [Y], P_g
    members_of: Floats  # [M], number of members of each cluster
    rest: float  # what users other than members add to the numerator
    total: float  # samples of all users that train
    held: float  # the same with what the server has sent them, if it has sent anything
    imbalance: Floats  # [Y], summed deviation of all of them before sharing: 0 unless users are left out
    measure: Callable[[Floats, Floats, Floats, Floats], MemberSkew]
    weighting: Weighting  # A, B or C
    steps_before: float  # mean number of local steps in a round before heads send anything
    steps_gradient: Floats  # [M], its slope by volume
    worth: Floats  # [M], raw samples that a sample of each head counts as

    def at(self, volumes: Floats) -> SkewAt:
        """Return average skew and shift when head m sends volumes[m] samples to each of its members."""
        sent, slope = self.offer.at(volumes)
        sent, counted = self.worth[:, None] * sent, self.worth * volumes
        samples = self.sizes + counted[self.cluster]
        each, changes = self._members(sent, slope, samples)
        after = self.held + float(self.members_of @ counted)
        if self.weighting == "C":
            costs, slopes = self._by_cluster(self.sizes * each), self._by_cluster(self.sizes * changes)
        else:
            costs, slopes = self._by_cluster(samples * each), self._by_cluster(each + samples * changes)
        # So far by counted samples.
        slopes = self.worth * slopes
        members = self.worth * self.members_of
        denominator = after if self.weighting == "B" else self.total
        skew = (self.rest + float(costs.sum())) / denominator
        gradient = (slopes - skew * members) / denominator if self.weighting == "B" else slopes / denominator
        moved = self.imbalance + self.members_of @ sent
        shift = float(np.abs(moved).sum()) / after
        shift_gradient = members * (slope @ np.sign(moved) - shift) / after
        steps = self.steps_before + float(self.steps_gradient @ volumes)
        gradients = gradient, shift_gradient, self.steps_gradient
        return SkewAt(skew, shift, steps, *gradients, costs, slopes, denominator)

    @property
    def convex(self) -> bool:
        """Return whether every cluster's cost is convex in its volume: EMD, weighting A or B, composition ``own``."""
        return self.weighting != "C" and self.measure is emd_of_members and isinstance(self.offer, OwnOffer)

    def largest_useful(self, upper: Floats) -> Floats:
        """Return the largest volumes up to `upper` that can still lower the average skew, float64[M].

        Requires convex costs. A larger volume costs both delay and skew, so that no optimum has it. Under weighting B
        a sample is useful as long as it is less skewed than the average, which is at most that before sharing.
        """
        price = self.at(np.zeros_like(upper)).skew * self.worth * self.members_of if self.weighting == "B" else 0.0
        low, high = np.zeros_like(upper), upper
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            lowers = self.at(middle).cost_slopes < price
            low, high = np.where(lowers, middle, low), np.where(lowers, high, middle)
        return high

    def _members(self, sent: Floats, slope: Floats, samples: Floats) -> MemberSkew:
        if len(self.cluster) >= LARGE and self.measure is emd_of_members:
            from fedcast._fast import compiled
            from fedcast._fast.allocation_kernels import emd_rows

            value, change = np.empty(len(samples)), np.empty(len(samples))
            compiled(emd_rows)(self.own, sent, slope, self.cluster, samples, value, change)
            return value, change
        return self.measure(self.own + sent[self.cluster], slope[self.cluster], samples, self.global_distribution)

    def _by_cluster(self, values: Floats) -> Floats:
        return np.bincount(self.cluster, values, len(self.members_of)).astype(np.float64, copy=False)


def emd_of_members(deviation: Floats, slope: Floats, samples: Floats, global_distribution: Floats) -> MemberSkew:  # noqa: ARG001
    r"""Return the EMD of each member, :math:`\|n_c (P_c - P_g) + V\|_1 / \tilde n_c`, and its derivative by volume.

    A member without samples has the skew of the first sample it would receive.
    """
    held = np.maximum(samples, _TINY)
    value = np.where(samples > 0, np.abs(deviation).sum(axis=1) / held, np.abs(slope).sum(axis=1))
    change = np.where(samples > 0, (np.einsum("cy,cy->c", np.sign(deviation), slope) - value) / held, 0.0)
    return value, change


def js_of_members(deviation: Floats, slope: Floats, samples: Floats, global_distribution: Floats) -> MemberSkew:
    r"""Return the JS divergence and its slope, :math:`\partial JS/\partial p = \tfrac12 \ln \frac{2p}{p + g}`."""
    shares, direction = _distributions(deviation, slope, samples, global_distribution)
    middle = np.maximum((shares + global_distribution) / 2, _TINY)
    log_p = np.log(np.maximum(shares, _MIN_SHARE) / middle)
    log_g = np.log(np.maximum(global_distribution, _TINY) / middle)
    value = ((shares * log_p).sum(axis=1) + (global_distribution * log_g).sum(axis=1)) / 2
    return value, (log_p * direction).sum(axis=1) / 2


def kl_of_members(deviation: Floats, slope: Floats, samples: Floats, global_distribution: Floats) -> MemberSkew:
    r"""Return the KL divergence and its slope, :math:`\partial KL/\partial p = \ln \frac{p}{g} + 1`."""
    shares, direction = _distributions(deviation, slope, samples, global_distribution)
    log_p = np.log(np.maximum(shares, _MIN_SHARE) / np.maximum(global_distribution, _MIN_SHARE))
    value = (shares * log_p).sum(axis=1)
    # A direction sums to 0, so that the constant 1 drops out.
    return value, (log_p * direction).sum(axis=1)


def _distributions(
    deviation: Floats, slope: Floats, samples: Floats, global_distribution: Floats
) -> tuple[Floats, Floats]:
    """Return each member's label distribution and its derivative by volume, float64[C, Y] each.

    For a member without samples they are those of the first sample it would receive.
    """
    some = (samples > 0)[:, None]
    held = np.where(some, samples[:, None], 1.0)
    shares = np.maximum(global_distribution + np.where(some, deviation / held, slope), 0.0)
    return shares, np.where(some, (slope - (shares - global_distribution)) / held, 0.0)


MEASURES = {"emd": emd_of_members, "js": js_of_members, "kl": kl_of_members}
