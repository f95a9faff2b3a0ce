"""cec: communication efficient clustering, a baseline of the paper."""

from __future__ import annotations

import numpy as np

from fedcast.clustering.clustering_problem import Problem, Rule
from fedcast.clustering.clustering_result import Clustering
from fedcast.clustering.selection import ascending, cover, join_best, sum_of_links


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


RULE = Rule(
    cec,
    "communication efficiency: heads with fast links",
    why="has the fastest links on average where the graph was not covered yet",
)
