"""none: no sharing, plain federated learning."""

from __future__ import annotations

import numpy as np

from fedcast.clustering.clustering_problem import Problem, Rule
from fedcast.clustering.clustering_result import Clustering


def none(problem: Problem, _: object = None) -> Clustering:
    """Return the clustering in which nobody has a head: plain federated averaging.

    Example:
        >>> from fedcast.clustering.sample_problems import path_problem
        >>> none(path_problem([[9, 1], [5, 5]])).head_of.tolist()
        [-1, -1]
    """
    return Clustering(problem, np.full(problem.num_users, -1))


RULE = Rule(none, "no sharing: plain federated learning", why="is none: nobody shares", allocates=False)
