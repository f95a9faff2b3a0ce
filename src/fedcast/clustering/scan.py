"""The cover that DACA, SCC and CEC build: users are tried in an order and become heads where one is needed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcast._fast import run_kernel
from fedcast.clustering.order import best_of_each, links_to
from fedcast.clustering.problem import Problem
from fedcast.typing import Bools, Ids, Ints


def cover(problem: Problem, order: Ints, *, covers_new: bool = False) -> tuple[Bools, Ids]:
    """Choose heads in the given order, until every user that can be reached is.

    A user becomes a head iff no earlier head reaches it (default) or, with `covers_new`, iff it reaches a user that
    no earlier head reaches. Users that share nothing are passed over.

    Args:
        problem: links and volumes.
        order: int64[K], users as they are tried.
        covers_new: the second rule.

    Returns:
        bool[K], who is a head; int32[K], the first head that reached each user that is none, or -1.

    Example:
        >>> from fedcast.clustering.worlds import path_problem
        >>> heads, first = cover(path_problem([[5, 5], [9, 1], [1, 9], [5, 5]]), np.array([1, 0, 2, 3]))
        >>> heads.tolist(), first.tolist()
        ([False, True, False, True], [1, -1, 1, -1])
    """
    able = problem.volumes > 0
    candidates = order if able.all() else order[able[order]]
    graph = problem.graph
    is_head = np.zeros(problem.num_users, dtype=bool)
    first_head = np.full(problem.num_users, -1, dtype=np.int32)
    kernel = _scan_new if covers_new else _scan_uncovered
    run_kernel(
        kernel,
        [candidates, graph.offsets, graph.neighbours],
        [is_head, first_head],
        steps=len(graph.neighbours) + problem.num_users,
    )
    if covers_new:
        first_head[is_head] = -1
    return is_head, first_head


def join_best(problem: Problem, is_head: Bools, cost_of_link: NDArray[np.floating[Any]]) -> Ints:
    """Give each user that is no head the reachable head whose link costs least, int64[K].

    Args:
        problem: links.
        is_head: bool[K].
        cost_of_link: float[E], in the order of the graph's arrays, of the row's user joining the other.
    """
    links, users = links_to(problem.graph, is_head)
    chosen = best_of_each(users, cost_of_link[links].astype(np.float64))
    head_of = np.full(problem.num_users, -1)
    head_of[users[chosen]] = problem.graph.neighbours[links[chosen]]
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
