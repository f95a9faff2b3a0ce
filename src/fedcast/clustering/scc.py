"""scc: social closeness clustering, a baseline of the paper."""

from __future__ import annotations

from fedcast.clustering.clustering_problem import Problem, Rule
from fedcast.clustering.clustering_result import Clustering
from fedcast.clustering.selection import ascending, cover, join_best, sum_of_links


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


RULE = Rule(
    scc,
    "social closeness: heads that many users trust",
    why="has the largest sum of closeness where the graph was not covered yet",
)
