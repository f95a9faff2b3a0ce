"""Small synthetic problems for examples, tests and benchmarks; up to a few thousand users."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from fedcast.clustering.clustering_problem import Problem, make_problem
from fedcast.data import skew_of
from fedcast.network import graph_from_edges
from fedcast.random import generator, pair_uniform
from fedcast.scenario import ClusteringSettings
from fedcast.typing import Floats

DataKind = Literal["paper", "mixed", "dirichlet"]


def table_problem(counts: ArrayLike, links: ArrayLike, *, seed: int = 0, **options: Any) -> Problem:
    """Return the problem of counts[K, Y] and a list of linked pairs; `options` are those of the settings.

    Example:
        >>> table_problem([[4, 0], [2, 2]], [(0, 1)], sharing_ratio=0.5).volumes.tolist()
        [2.0, 2.0]
    """
    skew = skew_of(counts)
    first, second = np.asarray(links, dtype=np.int64).reshape(-1, 2).T
    graph = graph_from_edges(first, second, 1e6, 0.75, skew.num_users)
    return make_problem(skew, graph, ClusteringSettings(**{"rule": "daca", **options}), seed=seed)


def path_problem(counts: ArrayLike, **options: Any) -> Problem:
    """Return a problem of users in a row, each linked to the next.

    Example:
        >>> path_problem([[4, 0], [2, 2], [0, 4]]).graph.degrees.tolist()
        [1, 2, 1]
    """
    users = len(np.asarray(counts))
    return table_problem(counts, [(user, user + 1) for user in range(users - 1)], **options)


def disc_problem(
    num_users: int,
    reach_m: float,
    *,
    seed: int,
    data: DataKind = "paper",
    radius_m: float = 1000.0,
    samples: int = 600,
    classes: int = 10,
    min_closeness: float = 0.5,
    **options: Any,
) -> Problem:
    """Return a problem of users uniform in a disc, with uniform closeness and rates that fall with distance.

    Links are at most `reach_m` long; `user_counts` explains `data`; `options` are those of the settings.

    Example:
        >>> problem = disc_problem(60, 700, seed=1)
        >>> problem.num_users, problem.graph.num_links > 100
        (60, True)
    """
    draw = generator(seed, "world/places")
    distance_from_centre = radius_m * np.sqrt(draw.random(num_users))
    places = distance_from_centre * np.exp(2j * np.pi * draw.random(num_users))
    first, second = np.triu_indices(num_users, k=1)
    distances = np.abs(places[first] - places[second])
    first, second, distances = (values[distances <= reach_m] for values in (first, second, distances))
    closeness = pair_uniform(seed, "world/closeness", first, second)
    rates = 1e8 * np.log2(1 + (100 / np.maximum(distances, 1.0)) ** 2)
    graph = graph_from_edges(first, second, rates, closeness, num_users, min_closeness=min_closeness)
    counts = user_counts(num_users, data, seed=seed, samples=samples, classes=classes)
    return make_problem(skew_of(counts), graph, ClusteringSettings(**{"rule": "daca", **options}), seed=seed)


def user_counts(num_users: int, data: DataKind, *, seed: int, samples: int = 600, classes: int = 10) -> Floats:
    """Return the counts of each user and class, float64[K, Y], `samples` in each row.

    ``paper``: half the users hold one class, the others all classes equally; ``mixed``: one class, two classes,
    Dirichlet(0.5) or all equally, a quarter each; ``dirichlet``: Dirichlet(0.3).

    Example:
        >>> user_counts(4, "paper", seed=0, classes=5).sum(axis=1).tolist()
        [600.0, 600.0, 600.0, 600.0]
    """
    draw = generator(seed, "world/data")
    if data == "dirichlet":
        return samples * draw.dirichlet(np.full(classes, 0.3), num_users)
    # Quarters in random order: 0 and 1 single-class and 2 and 3 balanced in "paper".
    quarter = draw.permutation(np.arange(num_users) % 4)
    single = np.eye(classes)[draw.integers(classes, size=num_users)]
    even = np.full((num_users, classes), 1 / classes)
    if data == "paper":
        return samples * np.where((quarter < 2)[:, None], single, even)
    pairs = np.argsort(draw.random((num_users, classes)), axis=1) < 2
    spread = draw.dirichlet(np.full(classes, 0.5), num_users)
    kinds = np.stack([single, pairs / 2, spread, even])
    counts: Floats = samples * kinds[quarter, np.arange(num_users)]
    return counts
