"""What it takes to share: heads multicast to their members, once, at the rate of the worst of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedcast.errors import FedcastError
from fedcast.network import BITS_PER_BYTE
from fedcast.typing import Floats, Ints


@dataclass(frozen=True)
class SharingCost:
    """What it takes to share, once.

    Attributes:
        heads: int64[M], the heads that send.
        rate_bps: float64[M], rate of each multicast: that of its worst member.
        delay_s: float64[M], duration of each multicast.
        energy_j: float64[M], energy that each head spends on it.
        sent_bytes: bytes on the air, a multicast counted once.
    """

    heads: Ints
    rate_bps: Floats
    delay_s: Floats
    energy_j: Floats
    sent_bytes: float

    @property
    def sharing_s(self) -> float:
        """Sharing delay: all heads send at once, the slowest ends it."""
        return float(self.delay_s.max(initial=0.0))


def sharing_cost(
    head_of: ArrayLike, shared: ArrayLike, rate_bps: ArrayLike, bits_per_sample: float, power_w: float
) -> SharingCost:
    r"""Delay, energy and bytes of sharing.

    .. math:: v_m = \min_{c \in C_m} v_{m,c}, \qquad \tau^s = \max_m \frac{a\, n^s_m}{v_m}, \qquad
        \gamma^s_m = P \frac{a\, n^s_m}{v_m}

    A head without members, or that shares nothing, costs nothing. The paper leaves the energy out.

    Args:
        head_of: int[K], the head of each user, or -1.
        shared: float[K], samples that user k sends to each member, if it is a head.
        rate_bps: float[K], rate of the link from each member's head; other entries are not read.
        bits_per_sample: bits a of one sample.
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
    if (mute := members[~(rate[members] > 0)]).size:
        raise FedcastError(f"user {mute[0]} has no link to its head {head[mute[0]]}: its rate is {rate[mute[0]]} bit/s")
    heads, cluster = np.unique(head[members], return_inverse=True)
    worst = np.full(len(heads), np.inf)
    np.minimum.at(worst, cluster, rate[members])
    bits = bits_per_sample * volume[heads]
    delay = bits / worst
    return SharingCost(heads, worst, delay, power_w * delay, float(bits.sum()) / BITS_PER_BYTE)
