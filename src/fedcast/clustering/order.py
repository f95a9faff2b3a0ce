"""Orders and choices in which values equal to 1e-12 are ties, and a tie goes to the lower user id."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcast.network import Graph
from fedcast.typing import Bools, Floats, Ints

TIE = 1e-12


def ascending(values: Floats) -> Ints:
    """Users from the lowest value to the highest; neighbours in that order that differ by a rounding are ties.

    Example:
        >>> ascending(np.array([0.3, 0.1 + 0.2, 0.1])).tolist()
        [2, 0, 1]
    """
    order = np.argsort(values, kind="stable")
    in_order = values[order]
    steps = np.diff(in_order)
    rounding = TIE * np.maximum(1.0, np.abs(in_order[1:]))
    if not ((steps > 0) & (steps <= rounding)).any():
        return order
    place = np.empty(len(values), dtype=np.int64)
    place[order[:1]] = 0
    place[order[1:]] = np.cumsum(steps > rounding)
    return np.argsort(place, kind="stable")


def links_to(graph: Graph, is_head: Bools) -> tuple[Ints, Ints]:
    """All links from a user that is no head to a head: their places in the graph's arrays and their users.

    Users ascend, and so do the heads of one user.
    """
    links = np.flatnonzero(is_head[graph.neighbours])
    users = np.searchsorted(graph.offsets, links, side="right") - 1
    kept = ~is_head[users]
    return links[kept], users[kept]


def sum_of_links(graph: Graph, values: NDArray[np.float32]) -> Floats:
    """The sum of `values` over the links of each user, float64[K].

    Example:
        >>> graph = Graph(np.array([0, 0, 2, 3]), np.array([2, 2, 1], np.int32), np.ones(3, "f4"), np.ones(3, "f4"))
        >>> sum_of_links(graph, graph.closeness).tolist()
        [0.0, 2.0, 1.0]
    """
    linked = np.flatnonzero(graph.degrees)
    sums = np.zeros(graph.num_users)
    # Row by row: a running sum over all links would carry the rounding of the first rows into the last.
    sums[linked] = np.add.reduceat(values, graph.offsets[linked], dtype=np.float64) if len(linked) else 0.0
    return sums


def best_of_each(users: Ints, values: Floats) -> Ints:
    """Where the lowest value of each user stands; among ties, its first.

    Args:
        users: int64[P], ascending, repeated once per choice.
        values: float64[P], of each choice.

    Example:
        >>> best_of_each(np.array([3, 3, 3, 7]), np.array([0.5, 0.1 + 0.2, 0.3, 9.0])).tolist()
        [1, 3]
    """
    if len(users) == 0:
        return np.zeros(0, dtype=np.int64)
    first = np.flatnonzero(np.diff(users, prepend=users[0] - 1))
    lowest = np.repeat(np.minimum.reduceat(values, first), np.diff(first, append=len(users)))
    good = np.flatnonzero(values <= lowest + TIE * np.maximum(1.0, np.abs(lowest)))
    return good[np.diff(users[good], prepend=users[0] - 1) > 0]
