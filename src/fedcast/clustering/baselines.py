"""The paper's baselines: clusters by social closeness, by rate or at random, central sharing, and no sharing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcast.clustering.clustering_problem import Problem, Rule, water_fill
from fedcast.clustering.clustering_result import Broadcast, Clustering
from fedcast.clustering.daca import daca
from fedcast.clustering.selection import ascending, assign_best, cover, join_best, links_to, sum_of_links
from fedcast.errors import FedcastError
from fedcast.random import pair_uniform, user_uniform
from fedcast.registry import option
from fedcast.typing import Bools


def scc(problem: Problem, _: object = None) -> Clustering:
    """Cover the graph by heads of large summed closeness to their neighbours; members join the head closest to them.

    Example:
        >>> from fedcast.clustering.sample_problems import path_problem
        >>> scc(path_problem([[9, 1], [5, 5], [1, 9]])).head_of.tolist()
        [1, -1, 1]
    """
    graph = problem.graph
    heads, _ = cover(problem, ascending(-sum_of_links(graph, graph.closeness)))
    return Clustering(problem, join_best(problem, heads, -graph.closeness))


def cec(problem: Problem, _: object = None) -> Clustering:
    """Cover the graph by heads of high mean rate to their neighbours; members join the head of their fastest link.

    Example:
        >>> from fedcast.clustering.sample_problems import path_problem
        >>> cec(path_problem([[9, 1], [5, 5], [1, 9]])).head_of.tolist()
        [-1, 0, -1]
    """
    graph = problem.graph
    mean_rates = sum_of_links(graph, graph.rate_bps) / np.maximum(graph.degrees, 1)
    heads, _ = cover(problem, ascending(-mean_rates))
    return Clustering(problem, join_best(problem, heads, -graph.rate_bps))


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


def central(problem: Problem, _: object = None) -> Clustering:
    """Send all users the same samples, as equal over classes as all data together allow; nobody has a head.

    There are `server_volume` samples; by default as many as a member receives under DACA on average, so that both
    cost a member the same. Where the descriptor does not show classes (`one_hot` is false) they have the global
    distribution.

    Example:
        >>> from fedcast.clustering.sample_problems import path_problem
        >>> clustering = central(path_problem([[80, 20], [50, 50]]))
        >>> clustering.broadcast.volume, clustering.broadcast.mix.tolist(), clustering.received.tolist()
        (10.0, [0.5, 0.5], [10.0, 10.0])
    """
    skew = problem.skew
    volume = _default_volume(problem) if problem.server_volume is None else problem.server_volume
    mix = skew.global_distribution
    if problem.one_hot and volume > 0:
        taken = water_fill(skew.sizes.sum() * mix, volume)
        mix = taken / taken.sum()
    return Clustering(problem, np.full(problem.num_users, -1), broadcast=Broadcast(volume, mix))


def _default_volume(problem: Problem) -> float:
    compared = daca(problem)
    if len(compared.members):
        return compared.mean_received
    able = problem.volumes[problem.volumes > 0]
    return float(able.mean()) if len(able) else 0.0


def none(problem: Problem, _: object = None) -> Clustering:
    """Return the clustering in which nobody has a head: plain federated averaging.

    Example:
        >>> from fedcast.clustering.sample_problems import path_problem
        >>> none(path_problem([[9, 1], [5, 5]])).head_of.tolist()
        [-1, -1]
    """
    return Clustering(problem, np.full(problem.num_users, -1))


SCC = Rule(
    scc,
    "social closeness: heads that many users trust",
    why="has the largest sum of closeness where the graph was not covered yet",
)
CEC = Rule(
    cec,
    "communication efficiency: heads with fast links",
    why="has the fastest links on average where the graph was not covered yet",
)
RANDOM = Rule(
    random,
    "random heads, and members that join a random one",
    why="was drawn at random",
    options=RandomOptions,
    least_users=lambda options: int(options.num_clusters),
)
CENTRAL = Rule(
    central,
    "no clusters: the server sends one set of samples to all users",
    why="is none: the server sends",
    allocates=False,
)
NONE = Rule(none, "no sharing: plain federated learning", why="is none: nobody shares", allocates=False)
