"""Random clusters, as in the paper's Fig. 1c."""

from __future__ import annotations

import numpy as np

from fedcast.clustering.order import best_of_each, links_to
from fedcast.clustering.problem import Problem
from fedcast.clustering.result import Clustering
from fedcast.errors import FedcastError
from fedcast.random import pair_uniform, user_uniform
from fedcast.typing import Ints


def random(problem: Problem) -> Clustering:
    """Draw `num_clusters` heads among the users that can share; every other user draws one of them.

    With `respect_graph` a user draws among the heads it is linked to; otherwise among all (Fig. 1c), thresholds or
    not. Draws are functions of (seed, user) and (seed, user, head), so a new user changes nobody else's draw.

    Example:
        >>> from fedcast.clustering.worlds import path_problem
        >>> random(path_problem([[9, 1], [5, 5], [1, 9]], num_clusters=1, respect_graph=False)).head_of.tolist()
        [-1, 0, 0]
    """
    heads = _draw_heads(problem)
    if problem.settings.respect_graph:
        return Clustering(problem, _linked_heads(problem, heads))
    users = np.setdiff1d(np.arange(problem.num_users), heads)
    head_of = np.full(problem.num_users, -1)
    if len(heads):
        pick = user_uniform(problem.seed, "clustering/random/member", users) * len(heads)
        head_of[users] = heads[pick.astype(np.int64)]
    return Clustering(problem, head_of, ignores_graph=True)


def _draw_heads(problem: Problem) -> Ints:
    able = np.flatnonzero(problem.volumes > 0)
    wanted = problem.settings.num_clusters
    if 0 < len(able) < wanted:
        raise FedcastError(
            f"clustering.num_clusters: {wanted} clusters need as many users with samples to share, "
            f"there are {len(able)}; set it to {len(able)} or less"
        )
    lots = user_uniform(problem.seed, "clustering/random/head", able)
    return np.sort(able[np.argsort(lots, kind="stable")[:wanted]])


def _linked_heads(problem: Problem, heads: Ints) -> Ints:
    is_head = np.zeros(problem.num_users, dtype=bool)
    is_head[heads] = True
    links, users = links_to(problem.graph, is_head)
    linked_heads = problem.graph.neighbours[links].astype(np.int64)
    lots = pair_uniform(problem.seed, "clustering/random/member", users, linked_heads)
    chosen = best_of_each(users, lots)
    head_of = np.full(problem.num_users, -1)
    head_of[users[chosen]] = linked_heads[chosen]
    return head_of
