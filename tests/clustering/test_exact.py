"""The optimum against enumeration of every clustering there is."""

from __future__ import annotations

import numpy as np
import pytest

from fedcast.clustering import cluster
from fedcast.clustering import exact as exact_module
from fedcast.clustering.sample_problems import disc_problem
from tests.clustering.naive import average_emd_of, averages_of, emd_of, every_clustering, sums_of

KINDS = ("paper", "mixed", "dirichlet")


def test_it_is_the_best_of_all_clusterings_on_100_instances_under_a_b_and_c():
    for seed in range(100):
        options = {"data": KINDS[seed % 3], "classes": 4, "sharing_ratio": (0.1, 0.4)[seed % 2], "rule": "exact"}
        composition = ("own", "balanced")[seed // 2 % 2]
        problem = disc_problem(9, (400, 600, 800)[seed % 3], seed=seed, composition=composition, **options)
        divergences, sizes, _ = sums_of(problem, every_clustering(problem), emd_of)
        for weighting in "ABC":
            best = averages_of(problem, divergences, sizes, weighting).min()
            changed = disc_problem(
                9, (400, 600, 800)[seed % 3], seed=seed, composition=composition, weighting=weighting, **options
            )
            found = cluster(changed)
            assert average_emd_of(changed, found.head_of, weighting) == pytest.approx(best, abs=1e-10), (
                seed,
                weighting,
            )
            assert found.proof is not None
            assert found.proof.optimal
            assert found.proof.value == pytest.approx(best, abs=1e-10)
            assert best - 1e-8 <= found.proof.bound <= best + 1e-12


@pytest.mark.parametrize("weighting", ["A", "B", "C"])
def test_a_time_limit_leaves_a_clustering_and_a_true_bound(weighting):
    limits = {"rule": "exact", "weighting": weighting, "data": "dirichlet"}
    hurried = cluster(disc_problem(60, 600, seed=1, time_limit_s=1e-3, **limits))
    patient = cluster(disc_problem(60, 600, seed=1, time_limit_s=60.0, **limits))
    greedy = cluster(disc_problem(60, 600, seed=1, **limits | {"rule": "gain"}))
    assert hurried.proof is not None
    assert patient.proof is not None
    assert patient.proof.optimal
    assert patient.proof.gap < 1e-8
    assert not hurried.proof.optimal
    assert hurried.proof.bound <= patient.proof.value + 1e-12
    assert hurried.proof.gap > 0
    by_gain = average_emd_of(greedy.problem, greedy.head_of, weighting)
    assert patient.proof.value <= hurried.proof.value <= by_gain + 1e-12


@pytest.mark.parametrize("weighting", ["A", "B", "C"])
def test_a_bound_of_the_solver_becomes_a_bound_of_the_average(monkeypatch, weighting):
    """Stopped with a bound 1 % above the best total gain, the average is known to that 1 % of the gain."""
    problem = disc_problem(30, 600, seed=1, rule="exact", weighting=weighting)
    best = cluster(problem)
    solve, gains = exact_module._solve_program, []

    def stopped(users, links, seconds):
        is_head, bound, _ = solve(users, links, seconds)
        gains.append(1.01 * bound)
        return is_head, 1.01 * bound, False

    monkeypatch.setattr(exact_module, "_solve_program", stopped)
    proof = cluster(problem).proof
    assert proof is not None
    assert best.proof is not None
    assert not proof.optimal
    before = average_emd_of(best.problem, [-1] * 30, weighting)
    assert proof.bound == pytest.approx(before - max(gains) / problem.skew.sizes.sum(), abs=1e-12)
    assert proof.bound < best.proof.value


def test_a_solver_that_finds_nothing_leaves_the_greedy_clustering(monkeypatch):
    monkeypatch.setattr(exact_module, "_solve_program", lambda users, links, seconds: (None, np.inf, False))
    problem = disc_problem(30, 600, seed=1, rule="exact")
    found = cluster(problem)
    greedy = cluster(disc_problem(30, 600, seed=1, rule="gain"))
    assert found.head_of.tolist() == greedy.head_of.tolist()
    assert found.proof is not None
    assert not found.proof.optimal
    assert 0 < found.proof.bound < found.proof.value
