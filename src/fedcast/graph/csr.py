"""The constrained graph: who may share with whom, at which rate and closeness, as sparse rows (CSR)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Graph:
    """An undirected graph of users, both directions of every link stored, rows sorted by neighbour.

    Attributes:
        offsets: int64[K + 1]; the links of user k are ``offsets[k]:offsets[k + 1]``.
        neighbours: int32[E]; the user at the other end.
        rate_bps: float32[E]; sidelink rate, bit/s.
        closeness: float32[E]; social closeness in [0, 1].
    """

    offsets: NDArray[np.int64]
    neighbours: NDArray[np.int32]
    rate_bps: NDArray[np.float32]
    closeness: NDArray[np.float32]

    @property
    def num_users(self) -> int:
        """Users K."""
        return len(self.offsets) - 1

    @property
    def num_links(self) -> int:
        """Undirected links."""
        return len(self.neighbours) // 2

    @property
    def degrees(self) -> NDArray[np.int64]:
        """Links of each user, int64[K]."""
        return np.diff(self.offsets)

    def links_of(self, user: int) -> slice:
        """Where the links of a user stand in the arrays."""
        return slice(int(self.offsets[user]), int(self.offsets[user + 1]))
