"""Cost of sharing, which happens once: multicasts of heads to their members, or a broadcast of the server."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedcast.errors import FedcastError
from fedcast.network import BITS_PER_BYTE, CellularLinks
from fedcast.typing import Floats, Ints


@dataclass(frozen=True)
class SharingCost:
    """Cost of sharing: of each multicast, [M] each, and the bytes of all.

    Attributes:
        heads: that send; -1: the server.
        rate_bps: that of the slowest member.
        energy_j: of the head; 0 for the server.
        sent_bytes: on the air; a multicast is counted once.
    """

    heads: Ints
    rate_bps: Floats
    delay_s: Floats
    energy_j: Floats
    sent_bytes: float

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
