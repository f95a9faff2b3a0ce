"""Heads whose samples count as fewer raw ones, or reveal nothing."""

from dataclasses import replace

import numpy as np
import pytest

from fedcast.allocation import evaluate, solve
from fedcast.errors import FedcastError
from fedcast.rounds import load_rounds
from fedcast.scenario import Allocation, Rounds
from fedcast.testing.allocation import random_case

LAW = load_rounds(Rounds(fit="mnist", target_accuracy=0.95), 0.1)


def case_with_law(seed=0, **options):
    return replace(random_case(seed, "energy", num_users=40, **options), model=LAW)


@pytest.mark.parametrize(
    "options", [{"weighting": "B"}, {"weighting": "C"}, {"weighting": "B", "composition": "balanced"}]
)
def test_gradients_of_counted_volumes_are_those_of_finite_differences(options):
    case = case_with_law(**options)
    users = case.clustering.problem.num_users
    problem = case.problem(worth=np.linspace(0.1, 1.0, users))
    sizes = problem.feasible.sizes
    volumes = 0.13 * sizes
    at = problem.averages.at(volumes)
    for head in range(0, problem.num_clusters, 3):
        step = np.zeros_like(volumes)
        step[head] = 1e-4 * sizes[head]
        up, down = problem.averages.at(volumes + step), problem.averages.at(volumes - step)
        for name in ("skew", "shift", "steps"):
            slope = (getattr(up, name) - getattr(down, name)) / (2 * step[head])
            assert getattr(at, f"{name}_gradient")[head] == pytest.approx(slope, rel=1e-3, abs=1e-9)


def test_searches_and_evaluation_count_alike():
    case = case_with_law(weighting="B")
    users = case.clustering.problem.num_users
    worth = np.linspace(0.2, 1.0, users)
    problem = case.problem(worth=worth)
    x = np.full(problem.num_clusters, 0.1)
    volumes = np.floor(problem.volumes_of_users(x))
    point = problem.at(volumes[problem.clustering.heads] / problem.feasible.sizes)
    found = evaluate(problem, volumes)
    assert point.skew_at.skew == pytest.approx(found.skew)
    assert point.skew_at.steps == pytest.approx(found.steps)
    # As many raw samples as they count for give the same rounds, in a shorter round.
    plain = case.problem()
    raw = plain.at(worth[problem.clustering.heads] * volumes[problem.clustering.heads] / problem.feasible.sizes)
    assert raw.skew_at.skew == pytest.approx(found.skew)
    assert raw.skew_at.steps == pytest.approx(found.steps)
    assert raw.round_s <= point.round_s


def test_worth_one_changes_nothing_and_worth_zero_shares_nothing():
    case = case_with_law()
    plain, same = (solve(case.problem(**changes), Allocation()) for changes in ({}, {"worth": 1.0, "reveals": True}))
    assert np.array_equal(plain.shared, same.shared)
    assert plain.objective_s == same.objective_s
    nothing = solve(case.problem(worth=0.0), Allocation())
    assert not nothing.shared.any()


def test_a_limit_of_leakage_binds_heads_that_reveal_samples_only():
    case = case_with_law()
    users = case.clustering.problem.num_users
    shows = np.arange(users) % 2 == 0
    free = solve(case.problem(), Allocation())
    for limit in (0.02, 0.0):
        settings = Allocation(max_asr=limit)
        found = solve(case.problem(settings, reveals=shows), settings)
        revealed = np.where(shows, found.clustering.shared, 0.0)
        sizes, members = case.clustering.problem.skew.sizes, found.clustering.cluster_sizes
        assert (members * revealed / sizes).sum() / users <= limit + 1e-9
        hidden = np.flatnonzero(~shows & (found.clustering.shared > 0))
        assert len(hidden)
        all_shown = solve(case.problem(settings), settings)
        assert free.objective_s <= found.objective_s * 1.001
        assert found.objective_s < all_shown.objective_s
    unlimited = case.problem(reveals=shows).with_max_asr(0.0).with_max_asr(1.0)
    assert np.array_equal(unlimited.feasible.upper, case.problem().feasible.upper)


def test_the_oracle_refuses_a_limit_on_some_heads():
    settings = Allocation(method="oracle", max_asr=0.02)
    case = case_with_law()
    shows = np.arange(case.clustering.problem.num_users) % 2 == 0
    with pytest.raises(FedcastError, match="oracle"):
        solve(case.problem(settings, reveals=shows), settings)
