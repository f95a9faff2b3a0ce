"""Order users, choose heads in that order, and assign members; values equal to 1e-12 are ties, for the lower id."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcast._fast import run_kernel
from fedcast.clustering.clustering_problem import Problem
from fedcast.network import Graph
from fedcast.typing import Bools, Floats, Ids, Ints

TIE = 1e-12


def ascending(values: Floats) -> Ints:
    """Return users from the lowest value to the highest; successive values that differ by a rounding are ties.

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
    """Return the index in the graph's arrays and the user of every link from a user that is no head to a head.

    Users are in ascending order, and so are the heads of one user.
    """
    links = np.flatnonzero(is_head[graph.neighbours])
    users = np.searchsorted(graph.offsets, links, side="right") - 1
    kept = ~is_head[users]
    return links[kept], users[kept]


def sum_of_links(graph: Graph, values: NDArray[np.float32]) -> Floats:
    """Return the sum of `values` over the links of each user, float64[K].

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
    """Return the index of the lowest value of each user, of its first among ties; `users` are ascending.

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


def cover(problem: Problem, order: Ints, *, covers_new: bool = False) -> tuple[Bools, Ids]:
    """Choose heads in a given order until every reachable user is covered; users that share nothing are skipped.

    The users int64[K] are tried in `order`. By default a user becomes a head if no earlier head reaches it, with
    `covers_new` if it reaches a user that no earlier head reaches. Return who is a head, bool[K], and the first head
    that reached each user that is none, or -1, int32[K].

    Example:
        >>> from fedcast.clustering.sample_problems import path_problem
        >>> heads, first = cover(path_problem([[5, 5], [9, 1], [1, 9], [5, 5]]), np.array([1, 0, 2, 3]))
        >>> heads.tolist(), first.tolist()
        ([False, True, False, True], [1, -1, 1, -1])
    """
    able = problem.volumes > 0
    candidates = order if able.all() else order[able[order]]
    graph = problem.graph
    is_head = np.zeros(problem.num_users, dtype=bool)
    first_head = np.full(problem.num_users, -1, dtype=np.int32)
    inputs = [candidates, graph.offsets, graph.neighbours]
    kernel = _scan_new if covers_new else _scan_uncovered
    run_kernel(kernel, inputs, [is_head, first_head], steps=len(graph.neighbours) + problem.num_users)
    if covers_new:
        first_head[is_head] = -1
    return is_head, first_head


def join_best(problem: Problem, is_head: Bools, cost_of_link: NDArray[np.floating[Any]]) -> Ints:
    """Assign each user that is no head to the reachable head whose link costs least, int64[K].

    `cost_of_link` float[E] is the cost of the row's user joining its neighbour, in the order of the graph's arrays.
    """
    links, users = links_to(problem.graph, is_head)
    costs = cost_of_link[links].astype(np.float64)
    return assign_best(problem.num_users, users, problem.graph.neighbours[links], costs)


def assign_best(num_users: int, users: Ints, heads: Ids | Ints, costs: Floats) -> Ints:
    """Assign each user to the head of the cheapest of its pairs, sorted by user and head; int64[K], -1: no pair."""
    chosen = best_of_each(users, costs)
    head_of = np.full(num_users, -1)
    head_of[users[chosen]] = heads[chosen]
    return head_of


def _scan_uncovered(candidates: Ints, offsets: Ints, neighbours: Ids, is_head: Bools, first_head: Ids) -> None:
    for head in candidates:
        if first_head[head] < 0:
            is_head[head] = True
            for link in range(offsets[head], offsets[head + 1]):
                user = neighbours[link]
                # An earlier head would have reached this one, so no neighbour of a new head is a head.
                if first_head[user] < 0:
                    first_head[user] = head


def _scan_new(candidates: Ints, offsets: Ints, neighbours: Ids, is_head: Bools, first_head: Ids) -> None:
    for head in candidates:
        for link in range(offsets[head], offsets[head + 1]):
            user = neighbours[link]
            if first_head[user] < 0 and not is_head[user]:
                first_head[user] = head
                is_head[head] = True
