"""Cost of sharing and of a whole task, and the metrics that plans, run folders, comparisons and reports read.

Sharing happens once: multicasts of heads to their members, or a broadcast of the server.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcast.cost.fleet import Fleet
from fedcast.cost.round import RoundCost, round_cost
from fedcast.data import Skew, Weighting, average_emd, average_js, distribution_shift
from fedcast.errors import FedcastError
from fedcast.network import BITS_PER_BYTE, CellularLinks
from fedcast.typing import Floats, Ints


@dataclass(frozen=True)
class SharingCost:
    """Cost of sharing: of each multicast, [M] each, and the bytes of all."""

    heads: Ints  #: senders; -1: the server
    rate_bps: Floats  #: rate of the slowest member
    delay_s: Floats  #: duration of the multicast
    energy_j: Floats  #: energy of the head; 0 for the server
    sent_bytes: float  #: bytes on the air; a multicast is counted once

    @property
    def sharing_s(self) -> float:
        """Return the delay of sharing: all heads send at the same time, and the slowest ends it."""
        return float(self.delay_s.max(initial=0.0))


def sharing_cost(
    head_of: ArrayLike, shared: ArrayLike, rate_bps: ArrayLike, bits_per_sample: float, power_w: float
) -> SharingCost:
    r"""Return delay, energy and bytes of the multicasts of all heads.

    .. math:: v_m = \min_{c \in C_m} v_{m,c}, \qquad \tau^s = \max_m \frac{a\, n^s_m}{v_m}, \qquad
        \gamma^s_m = P \frac{a\, n^s_m}{v_m}

    A head without members or with nothing to send costs nothing. The paper does not count the energy.

    Args:
        head_of: int[K], the head of each user, or -1.
        shared: float[K], samples that each head sends to each member.
        rate_bps: float[K], rate of the link from each member's head; other entries are not read.
        bits_per_sample: a.
        power_w: transmit power of a head.

    Example:
        >>> cost = sharing_cost([1, -1, 1], [0, 10, 0], [2e6, 0, 1e6], bits_per_sample=1e5, power_w=0.01)
        >>> cost.sharing_s, cost.energy_j.tolist(), cost.sent_bytes
        (1.0, [0.01], 125000.0)
    """
    head, volume = np.asarray(head_of, dtype=np.int64), np.asarray(shared, dtype=np.float64)
    rate = np.asarray(rate_bps, dtype=np.float64)
    members = np.flatnonzero(head >= 0)
    members = members[volume[head[members]] > 0]
    if (unlinked := members[~(rate[members] > 0)]).size:
        user = unlinked[0]
        raise FedcastError(f"user {user} has no link to its head {head[user]}: its rate is {rate[user]} bit/s")
    heads, cluster = np.unique(head[members], return_inverse=True)
    worst = np.full(len(heads), np.inf)
    np.minimum.at(worst, cluster, rate[members])
    bits = bits_per_sample * volume[heads]
    delay = bits / worst
    return SharingCost(heads, worst, delay, power_w * delay, float(bits.sum()) / BITS_PER_BYTE)


def broadcast_cost(volume: float, bits_per_sample: float, links: CellularLinks, num_stations: int) -> SharingCost:
    """Return delay and bytes of a broadcast by the server, at the downlink rate of the slowest user.

    Every base station sends it; its energy is not a user's and is not counted.

    Example:
        >>> links = CellularLinks(np.zeros(2, int), np.array([1e-6, 2e-6]), np.ones(2), None)
        >>> cost = broadcast_cost(10, bits_per_sample=1e5, links=links, num_stations=3)
        >>> cost.sharing_s, cost.sent_bytes
        (2.0, 375000.0)
    """
    bits = bits_per_sample * volume
    slowest = float(links.down_s_per_bit.max())
    delay = np.array([bits * slowest])
    return SharingCost(np.array([-1]), np.array([1 / slowest]), delay, np.zeros(1), bits / BITS_PER_BYTE * num_stations)


@dataclass(frozen=True, eq=False)
class TaskCost:
    """Cost of sharing, once, and of every round of the users that train, in the order of their ids."""

    sharing: SharingCost
    round: RoundCost

    @property
    def round_j(self) -> float:
        """Return the energy of all users in a round."""
        return self.round.expected_j

    @property
    def round_bytes(self) -> float:
        """Return the bytes sent in a round, both ways."""
        return self.round.expected_bytes


def task_cost(
    sharing: SharingCost, fleet: Fleet, samples: Floats, trained: NDArray[np.bool_] | None = None
) -> TaskCost:
    """Return the cost of sharing and of a round at the best frequencies.

    `fleet` and `samples` (after sharing) are of all K users; `trained` says who trains (None: all).
    """
    users = np.ones(len(samples), dtype=bool) if trained is None else trained
    return TaskCost(sharing, round_cost(fleet.of(users), samples[users]))


def task_s(sharing_s: float, round_s: float, rounds: float) -> float:
    r"""Return the delay of a whole task, :math:`\tau^s + T \tau`.

    Example:
        >>> task_s(sharing_s=1.0, round_s=3.0, rounds=10)
        31.0
    """
    if not rounds > 0:
        raise FedcastError(f"invalid value {rounds} for rounds: expected a number > 0")
    return sharing_s + rounds * round_s


@dataclass(frozen=True)
class Delay:
    """Delay of a whole task by phase: sharing, and all rounds as their critical user sees them."""

    sharing_s: float
    download_s: float
    compute_s: float
    upload_s: float

    @property
    def total_s(self) -> float:
        """Return the delay of the task."""
        return self.sharing_s + self.download_s + self.compute_s + self.upload_s


@dataclass(frozen=True, eq=False, kw_only=True)
class Metrics:
    """Skew, leakage and cost of a plan; averages over users are over those that train."""

    emd_before: float  #: average EMD before sharing
    emd_after: float  #: after sharing, in the scenario's weighting, expected over the samples that heads draw
    js_before: float  #: mean JS divergence before sharing, nats
    js_after: float  #: the same after sharing
    shift: float  #: L1 distance of the label distribution of the users that train, after sharing, from the global one
    average_sharing_ratio: float  #: the paper's measure of leakage
    sharing_s: float  #: delay of sharing, once
    download_s: float  #: download of a round of all users that train, as its critical user sees it
    compute_s: float  #: computing in that round
    upload_s: float  #: upload in that round
    sharing_j: float  #: energy of all heads for sharing
    round_j: float  #: energy of all users in a round
    sharing_bytes: float  #: bytes on the air for sharing
    round_bytes: float  #: bytes of a round, both ways

    @property
    def round_s(self) -> float:
        """Return the delay of a round."""
        return self.download_s + self.compute_s + self.upload_s

    def delay_of(self, rounds: float) -> Delay:
        """Return the delay of a task of that many rounds."""
        return Delay(self.sharing_s, rounds * self.download_s, rounds * self.compute_s, rounds * self.upload_s)


def metrics_of(
    before: Skew, after: Skew, weighting: Weighting, average_sharing_ratio: float, cost: TaskCost
) -> Metrics:
    """Return the metrics of users that train, from what they hold before and after sharing."""
    download_s, compute_s, upload_s = cost.round.expected_phases_s
    return Metrics(
        emd_before=average_emd(before),
        emd_after=average_emd(before, after, weighting),
        js_before=average_js(before),
        js_after=average_js(before, after, weighting),
        shift=distribution_shift(after),
        average_sharing_ratio=average_sharing_ratio,
        sharing_s=cost.sharing.sharing_s,
        download_s=download_s,
        compute_s=compute_s,
        upload_s=upload_s,
        sharing_j=float(cost.sharing.energy_j.sum()),
        round_j=cost.round_j,
        sharing_bytes=cost.sharing.sent_bytes,
        round_bytes=cost.round_bytes,
    )
