"""Reference implementations by plain loops and enumeration, which share no code with the package."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fedcast.clustering import Problem
from fedcast.clustering.sample_problems import table_problem


def neighbours_of(problem: Problem, user: int) -> list[int]:
    graph = problem.graph
    return graph.neighbours[graph.offsets[user] : graph.offsets[user + 1]].tolist()


def link_value(problem: Problem, values: np.ndarray, user: int, other: int) -> float:
    start = int(problem.graph.offsets[user])
    return float(values[start + neighbours_of(problem, user).index(other)])


def after_sharing(problem: Problem, head_of: Any) -> tuple[list[float], list[list[float]]]:
    """Sizes and distributions after sharing, sample by sample."""
    sizes, distributions = [], []
    for user, head in enumerate(head_of):
        held = [problem.skew.sizes[user] * p for p in problem.skew.distributions[user]]
        if head >= 0:
            held = [h + problem.volumes[head] * q for h, q in zip(held, problem.sent_distributions[head], strict=True)]
        total = sum(held)
        sizes.append(total)
        distributions.append([h / total for h in held] if total > 0 else list(problem.skew.distributions[user]))
    return sizes, distributions


def emd_of(distribution: Any, whole: Any) -> float:
    return float(sum(abs(p - q) for p, q in zip(distribution, whole, strict=True)))


def average_emd_of(problem: Problem, head_of: Any, weighting: str) -> float:
    sizes, distributions = after_sharing(problem, head_of)
    before, whole = problem.skew.sizes, problem.skew.global_distribution
    weights = before if weighting == "C" else sizes
    total = sum(sizes) if weighting == "B" else sum(before)
    return float(sum(w * emd_of(p, whole) for w, p in zip(weights, distributions, strict=True)) / total)


def every_clustering(problem: Problem) -> np.ndarray:
    """All head_of vectors that meet the constraints, int64[N, K]."""
    users = range(problem.num_users)
    able = [problem.volumes[user] > 0 for user in users]
    found = []
    for chosen in itertools.product((False, True), repeat=problem.num_users):
        if any(head and not can for head, can in zip(chosen, able, strict=True)):
            continue
        choices = [[-1] if chosen[u] else [-1] + [m for m in neighbours_of(problem, u) if chosen[m]] for u in users]
        found.append(np.array(list(itertools.product(*choices)), dtype=np.int64))
    return np.unique(np.concatenate(found), axis=0)


def sums_of(problem: Problem, clusterings: np.ndarray, divergence: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each clustering: divergence and size of each user float64[N, K], and all data together float64[N, Y]."""
    skew = problem.skew
    shape = clusterings.shape
    divergences, sizes, together = np.zeros(shape), np.zeros(shape), np.zeros((shape[0], skew.distributions.shape[1]))
    for user in range(problem.num_users):
        head = clusterings[:, user]
        volume = np.where(head >= 0, problem.volumes[head], 0.0)
        held = skew.sizes[user] * skew.distributions[user] + volume[:, None] * problem.sent_distributions[head]
        sizes[:, user] = held.sum(axis=1)
        empty = sizes[:, user] == 0
        mixed = np.where(empty[:, None], skew.global_distribution, held / np.where(empty, 1, sizes[:, user])[:, None])
        divergences[:, user] = [divergence(row, skew.global_distribution) for row in np.atleast_2d(mixed)]
        together += held
    return divergences, sizes, together


def averages_of(problem: Problem, divergences: np.ndarray, sizes: np.ndarray, weighting: str) -> np.ndarray:
    before = problem.skew.sizes
    match weighting:
        case "A":
            return (sizes * divergences).sum(axis=1) / before.sum()
        case "B":
            return (sizes * divergences).sum(axis=1) / sizes.sum(axis=1)
        case _:
            return divergences @ before / before.sum()


@st.composite
def problems(draw: st.DrawFn, *, max_users: int = 10, **options: Any) -> Problem:
    """Small worlds: any counts, empty users among them, any links, any weighting."""
    users = draw(st.integers(1, max_users))
    classes = draw(st.integers(1, 4))
    rows = st.lists(st.integers(0, 9), min_size=classes, max_size=classes)
    counts = draw(st.lists(rows, min_size=users, max_size=users).filter(lambda table: np.sum(table) > 0))
    pairs = [(a, b) for a in range(users) for b in range(a)]
    links = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    chosen = {
        "weighting": draw(st.sampled_from("ABC")),
        "composition": draw(st.sampled_from(["own", "balanced"])),
        "sharing_ratio": draw(st.sampled_from([0.1, 0.5, 1.0])),
        "num_clusters": 1,
    }
    return table_problem(counts, links, seed=draw(st.integers(0, 9)), **chosen | options)
