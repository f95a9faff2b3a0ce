r"""Average skew after sharing and the shift of the mixture, as functions of the volumes, with their gradients.

With :math:`\delta = P - P_g`, a member c of head m has, after :math:`N_m` samples,

.. math:: \tilde n_c = n_c + N_m, \qquad \tilde n_c (\tilde P_c - P_g) = n_c \delta_c + V_m(N_m).

Everything is O(members x classes); heads and loners enter as one constant. EMD has kinks, where a subgradient is given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fedcast.allocation.offers import Offer, OwnOffer
from fedcast.data import Weighting
from fedcast.typing import Floats, Ints

# Below this many members NumPy is used; above, loops compiled by numba.
LARGE = 5_000
_TINY = 1e-300
# Logarithms of shares have an infinite slope at 0; a floor far below one sample keeps it finite.
_LEAST = 1e-12
_BISECTIONS = 40


class Skewness(NamedTuple):
    """Average skew and shift at some volumes, and their gradients by volume.

    Attributes:
        skew: average D.
        shift: of the mixture.
        skew_gradient: float64[M], per sample.
        shift_gradient: float64[M], per sample.
        costs: float64[M], what each cluster adds to the numerator of the average skew.
        cost_slopes: float64[M], their derivatives by volume.
        denominator: of the average skew.
    """

    skew: float
    shift: float
    skew_gradient: Floats
    shift_gradient: Floats
    costs: Floats
    cost_slopes: Floats
    denominator: float


class MemberSkew(NamedTuple):
    """Skew e of each member and de/dN, float64[C] each."""

    value: Floats
    slope: Floats


@dataclass(frozen=True, eq=False)
class Averages:
    """The average skew of one clustering, ready to be evaluated at any volumes.

    Attributes:
        offer: what heads send.
        cluster: int64[C], cluster of each member, ascending.
        own: float64[C, Y], n_c (P_c - P_g).
        sizes: float64[C], n_c.
        whole: float64[Y], P_g.
        members_of: float64[M], members of each cluster.
        rest: what users other than members add to the numerator.
        total: samples of all users that train.
        held: the same with what the server has sent them, if it has sent anything.
        imbalance: float64[Y], what all of them together deviate before sharing: 0 unless users are left out.
        measure: skew of each member from (n_c δ_c + V, V', ñ, P_g).
        weighting: A, B or C.
    """

    offer: Offer
    cluster: Ints
    own: Floats
    sizes: Floats
    whole: Floats
    members_of: Floats
    rest: float
    total: float
    held: float
    imbalance: Floats
    measure: Callable[[Floats, Floats, Floats, Floats], MemberSkew]
    weighting: Weighting

    def at(self, volumes: Floats) -> Skewness:
        """Average skew and shift when head m sends volumes[m] samples to each of its members."""
        sent, slope = self.offer.at(volumes)
        samples = self.sizes + volumes[self.cluster]
        each = self._members(sent, slope, samples)
        after = self.held + float(self.members_of @ volumes)
        if self.weighting == "C":
            costs, slopes = self._by_cluster(self.sizes * each.value), self._by_cluster(self.sizes * each.slope)
        else:
            costs = self._by_cluster(samples * each.value)
            slopes = self._by_cluster(each.value + samples * each.slope)
        denominator = after if self.weighting == "B" else self.total
        skew = (self.rest + float(costs.sum())) / denominator
        gradient = (slopes - skew * self.members_of) / denominator if self.weighting == "B" else slopes / denominator
        shift, shift_gradient = self._shift(sent, slope, after)
        return Skewness(skew, shift, gradient, shift_gradient, costs, slopes, denominator)

    @property
    def convex(self) -> bool:
        """Whether every cluster's cost is convex in its volume: EMD under A or B, and heads whose mix is fixed."""
        return self.weighting != "C" and self.measure is emd_of_members and isinstance(self.offer, OwnOffer)

    def worthwhile(self, upper: Floats) -> Floats:
        """The largest volumes up to `upper` that can still lower the average skew, float64[M]; convex costs only.

        A volume beyond that costs delay and skew both, so that no optimum has it. Under B a sample is worthwhile as
        long as it is less skewed than the average, which is at most that of before.
        """
        price = self.at(np.zeros_like(upper)).skew * self.members_of if self.weighting == "B" else 0.0
        low, high = np.zeros_like(upper), upper
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            lowers = self.at(middle).cost_slopes < price
            low, high = np.where(lowers, middle, low), np.where(lowers, high, middle)
        return high

    def _members(self, sent: Floats, slope: Floats, samples: Floats) -> MemberSkew:
        if len(self.cluster) >= LARGE and self.measure is emd_of_members:
            from fedcast._fast import compiled
            from fedcast._fast.allocation import emd_rows

            value, change = np.empty(len(samples)), np.empty(len(samples))
            compiled(emd_rows)(self.own, sent, slope, self.cluster, samples, value, change)
            return MemberSkew(value, change)
        return self.measure(self.own + sent[self.cluster], slope[self.cluster], samples, self.whole)

    def _by_cluster(self, values: Floats) -> Floats:
        sums: Floats = np.bincount(self.cluster, values, len(self.members_of)).astype(np.float64, copy=False)
        return sums

    def _shift(self, sent: Floats, slope: Floats, after: float) -> tuple[float, Floats]:
        moved = self.imbalance + self.members_of @ sent
        shift = float(np.abs(moved).sum()) / after
        by_volume = self.members_of * (slope @ np.sign(moved) - shift) / after
        return shift, by_volume


def emd_of_members(mixed: Floats, slope: Floats, samples: Floats, whole: Floats) -> MemberSkew:  # noqa: ARG001
    r"""EMD of each member, :math:`\|n_c \delta_c + V\|_1 / \tilde n_c`, and its derivative by the volume received.

    A member that holds nothing yet has the skew of the first sample it would receive.
    """
    held = np.maximum(samples, _TINY)
    value = np.where(samples > 0, np.abs(mixed).sum(axis=1) / held, np.abs(slope).sum(axis=1))
    change = np.where(samples > 0, (np.einsum("cy,cy->c", np.sign(mixed), slope) - value) / held, 0.0)
    return MemberSkew(value, change)


def js_of_members(mixed: Floats, slope: Floats, samples: Floats, whole: Floats) -> MemberSkew:
    r"""JS divergence of each member and its slope, :math:`\partial JS/\partial p = \tfrac12 \ln \frac{2p}{p + g}`."""
    mixture, direction = _mixtures(mixed, slope, samples, whole)
    middle = np.maximum((mixture + whole) / 2, _TINY)
    log_p = np.log(np.maximum(mixture, _LEAST) / middle)
    log_g = np.log(np.maximum(whole, _TINY) / middle)
    value = ((mixture * log_p).sum(axis=1) + (whole * log_g).sum(axis=1)) / 2
    return MemberSkew(value, (log_p * direction).sum(axis=1) / 2)


def kl_of_members(mixed: Floats, slope: Floats, samples: Floats, whole: Floats) -> MemberSkew:
    r"""KL divergence of each member and its slope, :math:`\partial KL/\partial p = \ln \frac{p}{g} + 1`."""
    mixture, direction = _mixtures(mixed, slope, samples, whole)
    log_p = np.log(np.maximum(mixture, _LEAST) / np.maximum(whole, _LEAST))
    value = (mixture * log_p).sum(axis=1)
    # A direction adds up to 0, so that the constant 1 drops out.
    return MemberSkew(value, (log_p * direction).sum(axis=1))


def _mixtures(mixed: Floats, slope: Floats, samples: Floats, whole: Floats) -> tuple[Floats, Floats]:
    """What each member holds and how it moves with the volume, float64[C, Y] each; of the first sample if nothing."""
    some = (samples > 0)[:, None]
    held = np.where(some, samples[:, None], 1.0)
    mixture = np.maximum(whole + np.where(some, mixed / held, slope), 0.0)
    return mixture, np.where(some, (slope - (mixture - whole)) / held, 0.0)


MEASURES = {"emd": emd_of_members, "js": js_of_members, "kl": kl_of_members}
