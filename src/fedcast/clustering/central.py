"""central: the server sends the same samples to all users, a baseline of the paper."""

from __future__ import annotations

import numpy as np

from fedcast.clustering.clustering_problem import Problem, Rule, water_fill
from fedcast.clustering.clustering_result import Broadcast, Clustering
from fedcast.clustering.daca import daca


def central(problem: Problem, _: object = None) -> Clustering:
    """Send all users the same samples, as equal over classes as all data together allow; nobody has a head.

    There are `server_volume` samples, rounded to a whole number; by default as many as a member receives under DACA on
    average, so that both cost a member the same (in a plan: under DACA as planned by the same method). They are samples
    of users, of each no more than it consents to. Where the descriptor does not show classes (`one_hot` is false) they
    have the global distribution.

    Example:
        >>> from fedcast.clustering.sample_problems import path_problem
        >>> clustering = central(path_problem([[80, 20], [50, 50]]))
        >>> clustering.broadcast.volume, clustering.broadcast.mix.tolist(), clustering.received.tolist()
        (10.0, [0.5, 0.5], [10.0, 10.0])
    """
    skew, ratios = problem.skew, problem.max_ratios
    held = skew.sizes if ratios is None else ratios * skew.sizes
    volume = _default_volume(problem) if problem.server_volume is None else problem.server_volume
    volume, mix = min(float(np.rint(volume)), float(np.floor(held.sum()))), skew.global_distribution
    if problem.one_hot and volume > 0:
        taken = water_fill(held @ skew.distributions if ratios is not None else skew.sizes.sum() * mix, volume)
        mix = taken / taken.sum()
    return Clustering(problem, np.full(problem.num_users, -1), broadcast=Broadcast(volume, mix))


def matched_volume(compared: Clustering) -> float | None:
    """Return the samples that cost a user as much as clusters do: the mean of their members; None: no members."""
    return compared.mean_received if len(compared.members) else None


def _default_volume(problem: Problem) -> float:
    volume = matched_volume(daca(problem))
    if volume is not None:
        return volume
    able = problem.volumes[problem.volumes > 0]
    return float(able.mean()) if len(able) else 0.0


RULE = Rule(
    central,
    "no clusters: the server sends one set of samples to all users",
    why="is none: the server sends",
    allocates=False,
    from_server=True,
)
