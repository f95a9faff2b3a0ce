"""Greedy clustering by the reduction of the average EMD that each head brings."""

from __future__ import annotations

from fedcast.clustering.clustering_problem import Problem, Rule
from fedcast.clustering.clustering_result import Clustering
from fedcast.clustering.costs import cost_drops
from fedcast.clustering.greedy import greedy_heads


def gain(problem: Problem, _: object = None) -> Clustering:
    """Add the head that lowers the average EMD most, as long as one does; members join the head that helps them most.

    The paper's Theorem 1 (the lowest EMD is the best head) is false: to a user that holds one class, a head
    balanced over the nine others brings more than one with all ten. A user whom no head helps stays alone.

    Example:
        >>> from fedcast.clustering.sample_problems import path_problem
        >>> gain(path_problem([[9, 1], [5, 5], [1, 9]], composition="balanced")).head_of.tolist()
        [1, -1, 1]
    """
    return Clustering(problem, greedy_heads(problem, "emd", cost_drops(problem, "emd")))


RULE = Rule(
    gain,
    "greedy: the head that lowers the average EMD most, until none does",
    why="brings the largest drop of the average EMD, given the heads before it",
    composition="balanced",
)
