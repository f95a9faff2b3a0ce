r"""The delay of a round as a convex function of the volumes, at the best frequencies.

With the frequency of Eq. 29 substituted, user k ends a round after

.. math:: g_k(\tilde n) = o_k + \max\big(\alpha_k \tilde n,\; \kappa_k \tilde n^{3/2}\big), \qquad
    \alpha_k = \frac{L_k E}{f_{max}}, \quad \kappa_k = (L_k E)^{3/2} \sqrt{\frac{\varsigma}{\gamma_{th} - \gamma^u_k}}

where :math:`o_k` is the broadcast in its cell and its upload (with ``waves``, its wave and those after it). The round
is the largest of these, convex in the volumes. Only members that can ever end a round last are kept: one that is faster
with the largest volume than the slowest user is with none never determines the round.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcast.cost import Fleet, fastest_compute_s, round_cost
from fedcast.typing import Floats, Ints


@dataclass(frozen=True, eq=False)
class RoundDelay:
    """The delay of a round as a function of the volumes."""

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
        if not len(self.cluster):
            return caps, slopes
        left = np.maximum(round_s - self.offset_s, 0.0)
        by_frequency, by_energy = left / self.linear_s, np.cbrt(left / self.energy_s) ** 2
        room = np.minimum(by_frequency, by_energy) - self.sizes
        np.minimum.at(caps, self.cluster, room)
        tight = np.flatnonzero(room <= caps[self.cluster])
        slope = np.where(by_frequency < by_energy, 1 / self.linear_s, by_energy / (1.5 * np.maximum(left, 1e-300)))
        slopes[self.cluster[tight]] = slope[tight]
        return np.maximum(caps, 0.0), slopes


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
