"""Build the graph from given links: a CSV or Parquet file, or arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from fedcast.errors import DataError
from fedcast.io import Column, Table, column_names, read_with_users
from fedcast.network.graph import Graph, Links, assemble
from fedcast.typing import Floats, Ints, Names

if TYPE_CHECKING:
    from fedcast.scenario import Sidelink, Trust

RatesBetween = Callable[[Ints, Ints], Floats]

# Far above any real rate, far below the largest float32.
_FASTEST_BPS = 1e15

ENDS = (Column("user_a", "int", minimum=0), Column("user_b", "int", minimum=0))
COLUMNS = (
    Column("rate_bps", "float", required=False, minimum=0, maximum=_FASTEST_BPS),
    Column("closeness", "float", minimum=0, maximum=1),
)


def graph_from_links(
    path: str | Path,
    num_users: int,
    sidelink: Sidelink,
    trust: Trust,
    radio: RatesBetween | None = None,
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
    users = (np.asarray(first, dtype=np.int64), np.asarray(second, dtype=np.int64))
    if users[0].shape != users[1].shape:
        raise DataError(f"links: first has {users[0].size} users, second has {users[1].size}; expected equal lengths")
    values = (np.asarray(rate_bps, np.float64), np.asarray(closeness, np.float64))
    if any(value.shape not in (users[0].shape, ()) for value in values):
        raise DataError(
            f"links: {users[0].size} links, {values[0].size} rates and {values[1].size} values of closeness; expected "
            "one value for each link, or one for all"
        )
    arrays = np.broadcast_arrays(*users, *values)
    columns = {column.name: values for column, values in zip((*ENDS, *COLUMNS), arrays, strict=True)}
    table = Table(Path("links"), columns, np.arange(len(arrays[0])), "link")
    _check_values(table)
    _check_users(table, num_users)
    return _graph(table, num_users, min_rate_bps, min_closeness)


def _graph(table: Table, num_users: int, min_rate_bps: float, min_closeness: float) -> Graph:
    _check_consistency(table, num_users)
    one, other, rates, closeness = _merged(table, num_users)
    kept = (rates >= min_rate_bps) & (closeness >= min_closeness)
    links = Links(one.astype(np.int32), other.astype(np.int32), rates.astype(np.float32), closeness.astype(np.float32))
    return assemble([links.where(kept)], num_users)


def _check_values(table: Table) -> None:
    """Validate arrays as the columns of a file are validated."""
    rates, closeness = table["rate_bps"], table["closeness"]
    bad = np.flatnonzero(~((rates >= 0) & (rates <= _FASTEST_BPS) & (closeness >= 0) & (closeness <= 1)))
    if len(bad):
        row = int(bad[0])
        raise table.fail(
            row,
            f"invalid rate {rates[row]} bit/s or closeness {closeness[row]}: expected a rate in "
            f"[0, {_FASTEST_BPS:g}] and a closeness in [0, 1]",
        )


def _check_users(table: Table, num_users: int) -> None:
    for name in ("user_a", "user_b"):
        outside = np.flatnonzero((table[name] < 0) | (table[name] >= num_users))
        if len(outside):
            row = int(outside[0])
            raise table.fail(row, f"user {table[name][row]} does not exist, expected 0 to {num_users - 1}", name)
    itself = np.flatnonzero(table["user_a"] == table["user_b"])
    if len(itself):
        raise table.fail(int(itself[0]), f"{table.who(table['user_a'][itself[0]])} is linked to itself")


def _check_consistency(table: Table, num_users: int) -> None:
    """Raise an error if the same direction is listed twice with different values."""
    direction = table["user_a"] * num_users + table["user_b"]
    order = np.argsort(direction, kind="stable")
    earlier, later = order[:-1], order[1:]
    differ = np.zeros(len(later), dtype=np.bool_)
    for name in ("rate_bps", "closeness"):
        differ |= table[name][earlier] != table[name][later]
    bad = np.flatnonzero((direction[earlier] == direction[later]) & differ)
    if len(bad):
        found = bad[np.argmin(later[bad])]
        row, before = int(later[found]), int(earlier[found])
        earlier_values, values = (
            f"{table['rate_bps'][at]:g} bit/s, closeness {table['closeness'][at]:g}" for at in (before, row)
        )
        who = f"{table.who(table['user_a'][row])} to {table.who(table['user_b'][row])}"
        raise table.fail(row, f"{who} is {values} here but {earlier_values} on {table.word} {table.lines[before]}")


def _merged(table: Table, num_users: int) -> tuple[Ints, Ints, Floats, Floats]:
    """Return each unordered pair once, with the smaller rate and the smaller closeness."""
    low = np.minimum(table["user_a"], table["user_b"])
    high = np.maximum(table["user_a"], table["user_b"])
    keys, inverse = np.unique(low * num_users + high, return_inverse=True)
    least = np.full((2, len(keys)), np.inf)
    for values, name in zip(least, ("rate_bps", "closeness"), strict=True):
        np.minimum.at(values, inverse, table[name])
    return keys // num_users, keys % num_users, least[0], least[1]
