"""Checks that every clustering rule must pass: functions of the name of a registered rule."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike

from fedcast.clustering import (
    Clustering,
    DataKind,
    Problem,
    check_conditions,
    cluster,
    compare,
    disc_problem,
    explain,
    table_problem,
)  # fmt: skip
from fedcast.data import skew_of
from fedcast.testing.common import attempt, unchanged

SEEDS = range(2)
USERS = 16


def obeys_constraints(rule: str) -> None:
    """Heads, members and links are as problem P1' asks, counted by plain loops."""
    for problem in _worlds(rule):
        clustering = cluster(problem)
        graph = problem.graph
        links = {(user, other) for user in range(USERS) for other in graph.neighbours[graph.links_of(user)].tolist()}
        for user, head in enumerate(clustering.head_of.tolist()):
            if head < 0:
                continue
            assert clustering.head_of[head] == -1, f"user {head} leads {user} and is led itself"
            assert problem.volumes[head] > 0, f"user {head} leads {user} and has nothing to send"
            assert clustering.ignores_graph or (user, head) in links, f"no link joins {user} and its head {head}"


def repeats_itself(rule: str) -> None:
    """The same problem gives the same clustering."""
    for problem in _worlds(rule):
        first, second = cluster(problem), cluster(replace(problem))
        assert first.head_of.tolist() == second.head_of.tolist(), "two runs on one problem differ"


def leaves_the_problem_alone(rule: str) -> None:
    """No array of the problem is written to."""
    for problem in _worlds(rule):
        with unchanged(problem, message="an array of the problem has changed"):
            cluster(problem)


def can_be_explained(rule: str) -> None:
    """Every report on the clustering works and survives JSON."""
    for problem in _worlds(rule):
        clustering = cluster(problem)
        story = explain(clustering)
        assert sum(story.counts().values()) == problem.num_users, "not every user has a status"
        reports = [story.as_dict(), *(report.as_dict() for report in check_conditions(clustering))]
        reports += [row.as_dict() for row in compare(problem, [rule])]
        json.dumps(reports, allow_nan=False)


def survives_worlds_without_links(rule: str) -> None:
    """Nobody has a head where nobody is linked."""
    clustering = _of_table(rule, [[9, 1], [5, 5], [1, 9]], linked=False)
    assert clustering.ignores_graph or len(clustering.members) == 0, "a user without links has a head"


def survives_a_single_user(rule: str) -> None:
    """One user has nobody to share with."""
    assert _of_table(rule, [[9, 1]]).head_of.tolist() == [-1], "a single user has a head"


def survives_complete_graphs(rule: str) -> None:
    """Everybody linked to everybody: clusters as ever, and the averages are numbers."""
    _of_table(rule, np.random.default_rng(0).integers(0, 20, (12, 4)))


def survives_empty_users(rule: str) -> None:
    """A user without data never leads; it may be a member."""
    heads = _of_table(rule, [[0, 0], [9, 1], [0, 0], [1, 9], [5, 5], [0, 0]]).heads
    assert not set(heads.tolist()) & {0, 2, 5}, "an empty user leads"


def survives_identical_users(rule: str) -> None:
    """Check that sharing changes nothing if all users hold the same."""
    assert _of_table(rule, [[5, 5]] * 6).after.emd.max() < 1e-9, "equal users became unequal"


def survives_pairs(rule: str) -> None:
    """Two linked users: at most one leads the other."""
    assert len(_of_table(rule, [[9, 1], [5, 5]]).members) <= 1, "both users of a pair have a head"


def survives_nothing_to_share(rule: str) -> None:
    """A sharing ratio of 0 leaves everybody alone."""
    clustering = _answer(disc_problem(12, 700, seed=0, sharing_ratio=0.0, rule=rule, num_clusters=1))
    assert len(clustering.members) == 0, "a user has a head that sends nothing"
    assert not clustering.received.any(), "a user receives samples at a sharing ratio of 0"


CHECKS = (
    obeys_constraints, repeats_itself, leaves_the_problem_alone, can_be_explained, survives_worlds_without_links,
    survives_a_single_user, survives_complete_graphs, survives_empty_users, survives_identical_users, survives_pairs,
    survives_nothing_to_share,
)  # fmt: skip


def _of_table(rule: str, counts: ArrayLike, *, linked: bool = True) -> Clustering:
    """Return the clustering of users with these class counts, all linked with each other or none."""
    count = len(np.asarray(counts))
    pairs = [(a, b) for a in range(count) for b in range(a)] if linked else []
    clustering = _answer(table_problem(counts, pairs, rule=rule, num_clusters=1))
    assert np.isfinite(clustering.after.distributions).all(), "a distribution after sharing is not finite"
    assert abs(clustering.after.distributions.sum(axis=1) - 1).max() < 1e-9, "a distribution does not sum to 1"
    assert 0 <= clustering.average_sharing_ratio <= 1 + 1e-9, "the average sharing ratio leaves [0, 1]"
    return clustering


def _worlds(rule: str) -> Iterator[Problem]:
    """Random worlds of all kinds of data, weightings and compositions, with unequal sizes and empty users."""
    for seed in SEEDS:
        for number, data in enumerate(get_args(DataKind)):
            weighting, composition = "ABC"[(seed + number) % 3], ("auto", "own", "balanced")[(2 * seed + number) % 3]
            problem = disc_problem(
                USERS,
                600,
                seed=seed,
                data=data,
                rule=rule,
                num_clusters=4,
                weighting=weighting,
                composition=composition,
            )
            yield problem
            draw = np.random.default_rng(seed)
            counts = problem.skew.sizes[:, None] * problem.skew.distributions * draw.integers(0, 4, (USERS, 1))
            counts[0, 0] += 1
            skew = skew_of(counts)
            yield replace(problem, skew=skew, volumes=0.1 * skew.sizes)


def _answer(problem: Problem) -> Clustering:
    """Return the clustering; one without members if the rule raises an error that names the setting to change."""
    expected = "a clustering, or a FedcastError that names the setting to change"
    clustering, error = attempt("the rule", expected, cluster, problem)
    assert not error or "clustering." in error, f"the error does not name a setting: {error}"
    return Clustering(problem, np.full(problem.num_users, -1)) if error else clustering
