"""The constrained graph in CSR form: assembly from links, from tables or arrays of links, and validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcast.errors import DataError
from fedcast.io import Column, Table, column_names, read_with_users
from fedcast.typing import Floats, Ints, Names

if TYPE_CHECKING:
    from fedcast.scenario import Sidelink, Trust

Floats32 = NDArray[np.float32]

# From about this size on, compiled code is faster than NumPy's sort, including the time to load it.
_COMPILED_FROM_LINKS = 500_000

# Far above any real rate, far below the largest float32.
_FASTEST_BPS = 1e15
ENDS = (Column("user_a", "int", minimum=0), Column("user_b", "int", minimum=0))
COLUMNS = (
    Column("rate_bps", "float", required=False, minimum=0, maximum=_FASTEST_BPS),
    Column("closeness", "float", minimum=0, maximum=1),
)


@dataclass(frozen=True)
class Graph:
    """An undirected graph of users in CSR form: both directions of every link, rows sorted by neighbour."""

    offsets: NDArray[np.int64]  #: int64[K + 1]; the links of user k are at ``offsets[k]:offsets[k + 1]``
    neighbours: NDArray[np.int32]  #: int32[E]; the user at the other end
    rate_bps: Floats32  #: float32[E]; sidelink rate, bit/s
    closeness: Floats32  #: float32[E]; social closeness in [0, 1]

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

    @property
    def rows(self) -> NDArray[np.int64]:
        """User of each entry of the arrays, int64[E]; `neighbours` has the other."""
        return np.repeat(np.arange(self.num_users), self.degrees)

    def between(self, pairs: ArrayLike) -> NDArray[np.bool_]:
        """Return the entries of the arrays that join some pairs of users, given as [N, 2]; both directions, bool[E]."""
        ends = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
        keys = np.concatenate([ends, ends[:, ::-1]]) @ np.array([self.num_users, 1])
        return np.isin(self.rows * self.num_users + self.neighbours, keys)

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


_NO_LINKS = Links(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.float32), np.empty(0, np.float32))


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
    links = Links(*(np.concatenate(parts) for parts in zip(_NO_LINKS, *blocks, strict=True)))
    one, other = np.concatenate([links.first, links.second]), np.concatenate([links.second, links.first])
    order = np.lexsort((other, one))
    rates, closeness = (np.tile(values, 2)[order].astype(np.float32) for values in (links.rate_bps, links.closeness))
    return Graph(_offsets(np.bincount(one, minlength=num_users)), other[order].astype(np.int32), rates, closeness)


def _assemble_compiled(blocks: Sequence[Links], num_users: int) -> Graph:
    from fedcast._fast import graph_kernels as kernels

    degrees = np.zeros(num_users, dtype=np.int64)
    for block in blocks:
        kernels.count_links(block.first, block.second, degrees)
    offsets = _offsets(degrees)
    size = int(offsets[-1])
    rows = np.empty(size, np.int32), np.empty(size, np.float32), np.empty(size, np.float32)
    filled = offsets[:-1].copy()
    for block in blocks:
        kernels.fill_rows(block, filled, rows)
    kernels.sort_rows(offsets, rows)
    return Graph(offsets, *rows)


def _offsets(degrees: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(degrees)])


def graph_from_links(
    path: str | Path,
    num_users: int,
    sidelink: Sidelink,
    trust: Trust,
    radio: Callable[[Ints, Ints], Floats] | None = None,
    names: Names | None = None,
) -> Graph:
    r"""Read the graph from a CSV or Parquet file with the columns user_a, user_b, closeness and optionally rate_bps.

    A link listed in one direction is used in both; if both directions are listed, the smaller rate and the smaller
    closeness are used. Links below `sidelink.min_rate_bps` or `trust.min_closeness` are left out. Pairs that the file
    does not list are not linked. Users are 0 … K - 1, or have `names`. `radio` returns the rates of pairs of users in
    bit/s, for a file without rates.

    Example:
        >>> import tempfile
        >>> from fedcast.scenario import Sidelink, Trust
        >>> file = Path(tempfile.mkdtemp(), "links.csv")
        >>> _ = file.write_text("user_a,user_b,rate_bps,closeness\n0,1,9e5,0.8\n1,0,7e5,0.9\n1,2,9e5,0.1\n")
        >>> graph = graph_from_links(file, 3, Sidelink(), Trust())
        >>> graph.num_links, graph.rate_bps.tolist(), graph.closeness.round(3).tolist()
        (1, [700000.0, 700000.0], [0.800000011920929, 0.800000011920929])
    """
    table = read_with_users(path, ENDS, COLUMNS, names, may_be_empty=True)
    _check_users(table, num_users)
    if "rate_bps" not in table.columns:
        if radio is None:
            raise DataError(f"{path}: missing column 'rate_bps', and there is no radio model to compute rates with")
        rates = radio(table["user_a"], table["user_b"])
        table = replace(table, columns={**table.columns, "rate_bps": rates})
    return _graph(table, num_users, sidelink.min_rate_bps, trust.min_closeness)


def without_links(graph: Graph, dropped: NDArray[np.bool_]) -> Graph:
    """Return the graph without some entries of its arrays, bool[E]: both directions of every link that is dropped.

    Example:
        >>> graph = graph_from_edges([0, 1], [1, 2], 1e6, 0.9, num_users=3)
        >>> without_links(graph, graph.between([[2, 1]])).degrees.tolist()
        [1, 1, 0]
    """
    kept = ~dropped
    degrees = np.bincount(graph.rows[kept], minlength=graph.num_users)
    return Graph(_offsets(degrees), graph.neighbours[kept], graph.rate_bps[kept], graph.closeness[kept])


def has_rates(path: str | Path) -> bool:
    """Return whether a table of links has a column of rates; if not, rates come from the radio model."""
    return "rate_bps" in column_names(path)


def graph_from_edges(
    first: ArrayLike,
    second: ArrayLike,
    rate_bps: ArrayLike,
    closeness: ArrayLike,
    num_users: int,
    *,
    min_rate_bps: float = 0.0,
    min_closeness: float = 0.0,
) -> Graph:
    """Return the graph of N links given as arrays, by the rules of `graph_from_links`.

    Rates (bit/s) and closeness (in [0, 1]) are arrays [N], or scalars for all links.

    Example:
        >>> graph_from_edges([0, 1], [1, 2], 1e6, 0.9, num_users=4).degrees.tolist()
        [1, 2, 1, 0]
    """
    one, other = np.asarray(first, dtype=np.int64), np.asarray(second, dtype=np.int64)
    if one.shape != other.shape:
        raise DataError(f"links: first has {one.size} users, second has {other.size}; expected equal lengths")
    rates, close = np.asarray(rate_bps, np.float64), np.asarray(closeness, np.float64)
    if any(values.shape not in (one.shape, ()) for values in (rates, close)):
        raise DataError(
            f"links: {one.size} links, {rates.size} rates and {close.size} values of closeness; expected "
            "one value for each link, or one for all"
        )
    one, other, rates, close = np.broadcast_arrays(one, other, rates, close)
    columns = {"user_a": one, "user_b": other, "rate_bps": rates, "closeness": close}
    table = Table(Path("links"), columns, np.arange(len(one)), "link")
    for row in np.flatnonzero(~((rates >= 0) & (rates <= _FASTEST_BPS) & (close >= 0) & (close <= 1))).tolist():
        raise table.fail(
            row,
            f"invalid rate {rates[row]} bit/s or closeness {close[row]}: expected a rate in "
            f"[0, {_FASTEST_BPS:g}] and a closeness in [0, 1]",
        )
    _check_users(table, num_users)
    return _graph(table, num_users, min_rate_bps, min_closeness)


def _graph(table: Table, num_users: int, min_rate_bps: float, min_closeness: float) -> Graph:
    """Return the graph of a table; of the two directions of a link, the smaller rate and closeness are used."""
    _check_consistency(table, num_users)
    low, high = np.minimum(table["user_a"], table["user_b"]), np.maximum(table["user_a"], table["user_b"])
    pairs, inverse = np.unique(low * num_users + high, return_inverse=True)
    rates, closeness = np.full((2, len(pairs)), np.inf)
    np.minimum.at(rates, inverse, table["rate_bps"])
    np.minimum.at(closeness, inverse, table["closeness"])
    one, other = (values.astype(np.int32) for values in divmod(pairs, num_users))
    links = Links(one, other, rates.astype(np.float32), closeness.astype(np.float32))
    return assemble([links.where((rates >= min_rate_bps) & (closeness >= min_closeness))], num_users)


def _check_users(table: Table, num_users: int) -> None:
    for name in ("user_a", "user_b"):
        for row in np.flatnonzero((table[name] < 0) | (table[name] >= num_users)).tolist():
            raise table.fail(row, f"user {table[name][row]} does not exist, expected 0 to {num_users - 1}", name)
    for row in np.flatnonzero(table["user_a"] == table["user_b"]).tolist():
        raise table.fail(row, f"{table.who(table['user_a'][row])} is linked to itself")


def _check_consistency(table: Table, num_users: int) -> None:
    """Raise an error if the same direction is listed twice with different values."""
    direction = table["user_a"] * num_users + table["user_b"]
    order = np.argsort(direction, kind="stable")
    earlier, later = order[:-1], order[1:]
    differ = np.any([table[name][earlier] != table[name][later] for name in ("rate_bps", "closeness")], axis=0)
    bad = np.flatnonzero((direction[earlier] == direction[later]) & differ)
    if len(bad):
        found = bad[np.argmin(later[bad])]
        row, before = int(later[found]), int(earlier[found])
        rates, close = table["rate_bps"], table["closeness"]
        values, earlier_values = (f"{rates[at]:g} bit/s, closeness {close[at]:g}" for at in (row, before))
        who = f"{table.who(table['user_a'][row])} to {table.who(table['user_b'][row])}"
        raise table.fail(row, f"{who} is {values} here but {earlier_values} on {table.word} {table.lines[before]}")


def check_graph(graph: Graph, min_rate_bps: float = 0.0, min_closeness: float = 0.0) -> None:
    """Raise `DataError` unless rows are sorted, links are symmetric, no user is linked to itself, thresholds are met.

    Example:
        >>> links = Links(*(np.array(values) for values in ([0], [1], [5.0], [1.0])))
        >>> check_graph(assemble([links], num_users=2), min_rate_bps=5.0)
    """
    rows = graph.rows
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
