r"""What heads send as a function of how much they send.

A head m that shares N samples adds :math:`V_m(N) = N (q_m - P_g)` to the deviation :math:`n_c (P_c - P_g)` of each of
its members. With composition ``own`` the mix :math:`q_m = P_m` is fixed and V is a straight line. With ``balanced`` the
mix changes with N: the head fills all classes to one level, as far as it has them, so that :math:`N q_m(N)` is
piecewise linear. Both are treated exactly, with their slopes: no mix is frozen while volumes change.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcast.typing import Floats


@dataclass(frozen=True, eq=False)
class OwnOffer:
    """Heads that send a random part of their data.

    Attributes:
        deviation: float64[M, Y], P_m - P_g.
    """

    deviation: Floats

    def at(self, volumes: Floats) -> tuple[Floats, Floats]:
        """V and dV/dN at volumes float64[M], float64[M, Y] each."""
        return volumes[:, None] * self.deviation, self.deviation

    def of(self, heads: np.ndarray) -> OwnOffer:
        """The offer of some heads, which may repeat."""
        return OwnOffer(self.deviation[heads])


@dataclass(frozen=True, eq=False)
class BalancedOffer:
    r"""Heads that send as equal a part as their data allow, :math:`s_y = \min(c_y, \ell(N))`.

    Attributes:
        counts: float64[M, Y], what each head holds.
        ascending: float64[M, Y], the same, sorted within each row.
        filled: float64[M, Y], volume at which the level reaches the i-th smallest class.
        whole: float64[Y], P_g.
    """

    counts: Floats
    ascending: Floats
    filled: Floats
    whole: Floats

    def at(self, volumes: Floats) -> tuple[Floats, Floats]:
        """V and dV/dN at volumes float64[M], float64[M, Y] each; at a kink, the slope to its right.

        Example:
            >>> offer = balanced_offer(np.array([[90.0, 10.0]]), np.array([0.5, 0.5]))
            >>> offer.at(np.array([30.0]))[0].tolist(), offer.at(np.array([10.0]))[0].tolist()
            ([[5.0, -5.0]], [[0.0, 0.0]])
        """
        columns = self.counts.shape[1]
        full = np.minimum((self.filled <= volumes[:, None]).sum(axis=1), columns - 1)
        rows = np.arange(len(volumes))
        previous = np.maximum(full - 1, 0)
        start = np.where(full > 0, self.ascending[rows, previous], 0.0)
        used = np.where(full > 0, self.filled[rows, previous], 0.0)
        level = start + (volumes - used) / (columns - full)
        still_open = self.counts > start[:, None]
        sent = np.minimum(self.counts, level[:, None])
        # A head that has sent everything has no open class left: one more sample would be one of its own mix.
        slope = still_open / np.maximum(still_open.sum(axis=1), 1)[:, None]
        return sent - volumes[:, None] * self.whole, slope - self.whole

    def of(self, heads: np.ndarray) -> BalancedOffer:
        """The offer of some heads, which may repeat."""
        return BalancedOffer(self.counts[heads], self.ascending[heads], self.filled[heads], self.whole)


Offer = OwnOffer | BalancedOffer


def balanced_offer(counts: Floats, whole: Floats) -> BalancedOffer:
    """The balanced offer of heads that hold counts, float64[M, Y], in a population of mix float64[Y]."""
    ascending = np.sort(counts, axis=1)
    below = np.cumsum(ascending, axis=1) - ascending
    filled = below + ascending * (counts.shape[1] - np.arange(counts.shape[1]))
    return BalancedOffer(counts, ascending, filled, whole)
