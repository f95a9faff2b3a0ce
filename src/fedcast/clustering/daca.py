"""The paper's rule (Algorithm 1): heads of low EMD cover the graph, and members join the best head they reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedcast.clustering.clustering_problem import Problem, Rule
from fedcast.clustering.clustering_result import Clustering
from fedcast.clustering.selection import ascending, cover, join_best
from fedcast.registry import option


@dataclass(frozen=True)
class DacaOptions:
    """Options of rule ``daca``."""

    order: Literal["ascending", "descending"] = option("ascending", "order of EMD in which heads are tried")
    scan: Literal["uncovered", "covers_new"] = option(
        "uncovered", "uncovered: a head must itself be uncovered; covers_new: it must reach somebody new"
    )


def daca(problem: Problem, options: DacaOptions | None = None) -> Clustering:
    """Cover the graph by heads in ascending order of EMD; each member joins the lowest EMD it reaches (Condition 3).

    Algorithm 1 says "descending order", which contradicts Condition 2; option `order` keeps that reading for
    comparison. Option `scan` is what "making all nodes connected" requires of the next head. By default options are
    those of the problem's settings.

    In ascending order the first head that reaches a user is the best one it can reach, so choosing heads and
    assigning members is one pass: O(K log K + E) where the printed steps take O(K²).

    Example:
        >>> from fedcast.clustering.sample_problems import path_problem
        >>> daca(path_problem([[9, 1], [5, 5], [1, 9], [7, 3]])).head_of.tolist()
        [1, -1, 1, -1]
    """
    if options is None:
        options = problem.settings.options("clustering", "daca")
    rising = options.order == "ascending"
    order = ascending(problem.emd if rising else -problem.emd)
    heads, first_head = cover(problem, order, covers_new=options.scan == "covers_new")
    if rising:
        return Clustering(problem, first_head.astype(np.int64))
    emd_of_head = np.where(heads, problem.emd, np.inf)
    return Clustering(problem, join_best(problem, heads, emd_of_head[problem.graph.neighbours]))


RULE = Rule(
    daca,
    "the paper's rule: heads of low EMD cover the graph, members join the lowest EMD they reach",
    why="comes next in order of EMD where the graph was not covered yet",
    options=DacaOptions,
)
