"""random: random heads with random members, a baseline of the paper."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcast.clustering.clustering_problem import Problem, Rule
from fedcast.clustering.clustering_result import Clustering
from fedcast.clustering.selection import assign_best, links_to
from fedcast.errors import FedcastError
from fedcast.random import pair_uniform, user_uniform
from fedcast.registry import option
from fedcast.typing import Bools


@dataclass(frozen=True)
class RandomOptions:
    """Options of rule ``random``."""

    num_clusters: int = option(10, "number of clusters", ge=1)
    respect_graph: bool = option(True, "use only links that meet both thresholds")


def random(problem: Problem, options: RandomOptions) -> Clustering:
    """Draw `num_clusters` heads among the users that can share; every other user draws one of them.

    With `respect_graph` a user draws among the heads it is linked to, otherwise among all heads (Fig. 1c). Draws are
    functions of (seed, user) and (seed, user, head), so that a new user changes nobody else's draw.

    Example:
        >>> from fedcast.clustering.sample_problems import path_problem
        >>> random(path_problem([[9, 1], [5, 5], [1, 9]]), RandomOptions(1, respect_graph=False)).head_of.tolist()
        [-1, 0, 0]
    """
    is_head, purpose = _draw_heads(problem, options.num_clusters), "clustering/random/member"
    if options.respect_graph:
        links, users = links_to(problem.graph, is_head)
        linked_heads = problem.graph.neighbours[links]
        lots = pair_uniform(problem.seed, purpose, users, linked_heads)
        return Clustering(problem, assign_best(problem.num_users, users, linked_heads, lots))
    heads, users = np.flatnonzero(is_head), np.flatnonzero(~is_head)
    head_of = np.full(problem.num_users, -1)
    if len(heads):
        pick = user_uniform(problem.seed, purpose, users) * len(heads)
        head_of[users] = heads[pick.astype(np.int64)]
    return Clustering(problem, head_of, ignores_graph=True)


def _draw_heads(problem: Problem, wanted: int) -> Bools:
    able = np.flatnonzero(problem.volumes > 0)
    if 0 < len(able) < wanted:
        raise FedcastError(
            f"invalid value {wanted} for clustering.random.num_clusters: every cluster needs a user with samples to "
            f"share, there are {len(able)}; set it to {len(able)} or less"
        )
    lots = user_uniform(problem.seed, "clustering/random/head", able)
    is_head = np.zeros(problem.num_users, dtype=bool)
    is_head[able[np.argsort(lots, kind="stable")[:wanted]]] = True
    return is_head


RULE = Rule(
    random,
    "random heads, and members that join a random one",
    why="was drawn at random",
    options=RandomOptions,
    least_users=lambda options: int(options.num_clusters),
)
