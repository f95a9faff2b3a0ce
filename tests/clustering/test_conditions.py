"""Conditions 1 to 3 against plain loops, and the counter-example to Theorem 1."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from fedcast.clustering import Clustering, Problem, check_conditions, cluster
from fedcast.clustering.sample_problems import disc_problem, table_problem
from tests.clustering.naive import after_sharing, emd_of, neighbours_of, problems


def plain_conditions(problem: Problem, head_of: list[int]) -> list[list[int]]:
    """Users that break each condition."""
    whole = problem.skew.global_distribution
    before = [emd_of(row, whole) for row in problem.skew.distributions]
    now = [emd_of(row, whole) for row in after_sharing(problem, head_of)[1]]
    heads = set(head_of) - {-1}
    broken: list[list[int]] = [[], [], []]
    for user in range(problem.num_users):
        if user in heads:
            continue
        reachable = [head for head in neighbours_of(problem, user) if head in heads]
        options = [before[user]]
        for head in reachable:
            led = [head if other == user else -1 for other in range(problem.num_users)]
            options.append(emd_of(after_sharing(problem, led)[1][user], whole))
        if now[user] > min(options) + 1e-9:
            broken[0].append(user)
        if head_of[user] >= 0 and before[user] < before[head_of[user]] - 1e-9:
            broken[1].append(user)
        if head_of[user] >= 0 and min(before[head] for head in reachable) < before[head_of[user]] - 1e-9:
            broken[2].append(user)
    return broken


@given(problems(rule="random") | problems(rule="scc") | problems(rule="gain"))
def test_violations_by_hand(problem):
    if not (problem.volumes > 0).any():
        return
    clustering = cluster(problem)
    broken = [report.users.tolist() for report in check_conditions(clustering)]
    assert broken == plain_conditions(clustering.problem, clustering.head_of.tolist())


def test_reports_say_who_would_be_better_and_by_how_much():
    problem = table_problem(
        [[50, 50], [100, 0], [60, 40], [0, 100]], [(0, 1), (1, 2), (0, 3), (2, 3)], composition="own", sharing_ratio=1.0
    )
    # User 1 follows 2 although 0, with EMD closer to the whole, leads 3; 2 leads 1.
    clustering = Clustering(problem, np.array([-1, 2, -1, 0]))
    first, second, third = check_conditions(clustering)
    assert second.holds
    assert (third.users.tolist(), third.heads.tolist()) == ([1], [0])
    emd = problem.emd
    np.testing.assert_allclose(third.amounts, [emd[2] - emd[0]])
    assert (first.users.tolist(), first.heads.tolist()) == ([1, 3], [0, 2])
    assert third.as_dict()["broken_by"][0]["user"] == 1


def test_daca_meets_conditions_2_and_3():
    for seed in range(10):
        reports = check_conditions(cluster(disc_problem(60, 500, seed=seed, data="mixed", rule="daca")))
        assert reports[1].holds
        assert reports[2].holds


def test_theorem_1_is_false():
    """To a user with one class, a head balanced over the nine others brings more than one with all ten."""
    one_class, all_ten, nine_others = [90] + [0] * 9, [9] * 10, [0] + [10] * 9
    filler = [0] + [260] * 9  # linked to nobody; makes the whole exactly balanced
    counts = [one_class, all_ten, nine_others, filler, one_class, one_class]
    links = [(0, 1), (0, 2), (4, 1), (5, 2)]
    problem = table_problem(counts, links, rule="exact", composition="own", weighting="C")
    np.testing.assert_allclose(problem.skew.global_distribution, 0.1)
    best = cluster(problem)
    assert best.proof is not None
    assert best.proof.optimal
    assert best.head_of.tolist() == [2, -1, -1, -1, 1, 2]
    np.testing.assert_allclose(problem.emd[[1, 2]], [0.0, 0.2], atol=1e-12)
    # Condition 3 would send user 0 to user 1.
    third = check_conditions(best)[2]
    assert (third.users.tolist(), third.heads.tolist()) == ([0], [1])
