"""The constrained graph in CSR form: assembly from links, and validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcast.errors import DataError

Floats32 = NDArray[np.float32]

# From about this size on, compiled code is faster than NumPy's sort, including the time to load it.
_COMPILED_FROM_LINKS = 500_000


@dataclass(frozen=True)
class Graph:
    """An undirected graph of users in CSR form: both directions of every link, rows sorted by neighbour.

    Attributes:
        offsets: int64[K + 1]; the links of user k are at ``offsets[k]:offsets[k + 1]``.
        neighbours: int32[E]; the user at the other end.
        rate_bps: float32[E]; sidelink rate, bit/s.
        closeness: float32[E]; social closeness in [0, 1].
    """

    offsets: NDArray[np.int64]
    neighbours: NDArray[np.int32]
    rate_bps: Floats32
    closeness: Floats32

    @property
    def num_users(self) -> int:
        """Number of users K."""
        return len(self.offsets) - 1

    @property
    def num_links(self) -> int:
        """Number of undirected links."""
        return len(self.neighbours) // 2

    @property
    def degrees(self) -> NDArray[np.int64]:
        """Number of links of each user, int64[K]."""
        return np.diff(self.offsets)

    def links_of(self, user: int) -> slice:
        """Return the slice of the arrays that holds the links of a user."""
        return slice(int(self.offsets[user]), int(self.offsets[user + 1]))


class Links(NamedTuple):
    """Undirected links, each listed once: int32[N] users, float32[N] rate in bit/s and closeness."""

    first: NDArray[np.int32]
    second: NDArray[np.int32]
    rate_bps: Floats32
    closeness: Floats32

    def where(self, kept: NDArray[np.bool_]) -> Links:
        """Return the links for which the mask is true."""
        return Links(self.first[kept], self.second[kept], self.rate_bps[kept], self.closeness[kept])


def assemble(blocks: Sequence[Links], num_users: int, *, compiled: bool | None = None) -> Graph:
    """Return the graph of all links in the blocks, in any order; each link occurs once in all blocks together.

    Compiled code and sorting give the same graph; `compiled` = None chooses by the number of links.

    Example:
        >>> links = Links(*(np.array(values) for values in ([2, 0], [0, 1], [5.0, 7.0], [1.0, 0.5])))
        >>> graph = assemble([links], num_users=3)
        >>> graph.offsets.tolist(), graph.neighbours.tolist(), graph.rate_bps.tolist()
        ([0, 2, 3, 4], [1, 2, 0, 0], [7.0, 5.0, 7.0, 5.0])
    """
    if compiled is None:
        compiled = sum(len(block.first) for block in blocks) >= _COMPILED_FROM_LINKS
    return _assemble_compiled(blocks, num_users) if compiled else _assemble_by_sorting(blocks, num_users)


def _assemble_by_sorting(blocks: Sequence[Links], num_users: int) -> Graph:
    links = Links(*(np.concatenate(parts) for parts in zip(*blocks, strict=True))) if blocks else _no_links()
    one, other = np.concatenate([links.first, links.second]), np.concatenate([links.second, links.first])
    order = np.lexsort((other, one))
    rates, closeness = np.tile(links.rate_bps, 2)[order], np.tile(links.closeness, 2)[order]
    return Graph(
        _offsets(np.bincount(one, minlength=num_users)),
        other[order].astype(np.int32),
        rates.astype(np.float32),
        closeness.astype(np.float32),
    )


def _assemble_compiled(blocks: Sequence[Links], num_users: int) -> Graph:
    from fedcast._fast import graph_kernels as kernels

    degrees = np.zeros(num_users, dtype=np.int64)
    for block in blocks:
        kernels.count_links(block.first, block.second, degrees)
    offsets = _offsets(degrees)
    size = int(offsets[-1])
    graph = Graph(offsets, np.empty(size, np.int32), np.empty(size, np.float32), np.empty(size, np.float32))
    filled = offsets[:-1].copy()
    for block in blocks:
        kernels.fill_rows(*block, filled, graph.neighbours, graph.rate_bps, graph.closeness)
    kernels.sort_rows(offsets, graph.neighbours, graph.rate_bps, graph.closeness)
    return graph


def _no_links() -> Links:
    users, values = np.empty(0, np.int32), np.empty(0, np.float32)
    return Links(users, users, values, values)


def _offsets(degrees: NDArray[np.int64]) -> NDArray[np.int64]:
    offsets = np.zeros(len(degrees) + 1, dtype=np.int64)
    np.cumsum(degrees, out=offsets[1:])
    return offsets


def check_graph(graph: Graph, min_rate_bps: float = 0.0, min_closeness: float = 0.0) -> None:
    """Raise `DataError` unless rows are sorted, links are symmetric, no user is linked to itself, thresholds are met.

    Example:
        >>> links = Links(*(np.array(values) for values in ([0], [1], [5.0], [1.0])))
        >>> check_graph(assemble([links], num_users=2), min_rate_bps=5.0)
    """
    rows = np.repeat(np.arange(graph.num_users), graph.degrees)
    columns = graph.neighbours.astype(np.int64)
    if not len(rows) == len(columns) == len(graph.rate_bps) == len(graph.closeness) == graph.offsets[-1]:
        raise DataError("invalid graph: the arrays have different lengths")
    if ((columns < 0) | (columns >= graph.num_users)).any():
        raise DataError(f"invalid graph: a neighbour is not in 0 … {graph.num_users - 1}")
    keys = rows * graph.num_users + columns
    if (np.diff(keys) <= 0).any():
        raise DataError("invalid graph: a row is not sorted, or contains a link twice")
    if (rows == columns).any():
        raise DataError("invalid graph: a user is linked to itself")
    mirrored = np.argsort(columns * graph.num_users + rows)
    if (rows[mirrored] != columns).any() or (columns[mirrored] != rows).any():
        raise DataError("invalid graph: a link has no opposite direction")
    for name, values in (("rate", graph.rate_bps), ("closeness", graph.closeness)):
        if (values[mirrored] != values).any():
            raise DataError(f"invalid graph: the {name} of a link differs between its two directions")
    if (graph.rate_bps < np.float32(min_rate_bps)).any():
        raise DataError(f"invalid graph: a rate is below {min_rate_bps} bit/s")
    if (graph.closeness < np.float32(min_closeness)).any() or (graph.closeness > 1).any():
        raise DataError(f"invalid graph: a closeness is outside [{min_closeness}, 1]")
