"""Test the local search against enumeration, its running sums against the objective, and its guarantee."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from fedcast._fast.blend_search import improve, open_head, value_of
from fedcast.clustering import Clustering, Problem, blend_objective, cluster
from fedcast.clustering.blend import _search_inputs, _search_state
from fedcast.clustering.costs import cost_drops
from fedcast.clustering.gain import greedy_heads
from fedcast.clustering.rules import with_composition
from fedcast.clustering.sample_problems import disc_problem, table_problem
from tests.clustering.naive import averages_of, every_clustering, neighbours_of, problems, sums_of


def js(p, q) -> float:
    """Entropy of the midpoint less the mean entropy, in nats."""

    def entropy(values) -> float:
        return -sum(float(v) * np.log(v) for v in values if v > 0)

    return entropy((np.asarray(p) + np.asarray(q)) / 2) - (entropy(p) + entropy(q)) / 2


def objectives_of(problem: Problem, clusterings: np.ndarray) -> np.ndarray:
    divergences, sizes, together = sums_of(problem, clusterings, js)
    shift = np.abs(together / sizes.sum(axis=1)[:, None] - problem.skew.global_distribution).sum(axis=1)
    mean = averages_of(problem, divergences, sizes, problem.weighting)
    return mean + problem.settings.options("clustering", "blend").shift_weight * shift


@given(problems(rule="random"))
def test_the_objective_is_mean_js_plus_shift(problem):
    if (problem.volumes > 0).any():
        clustering = cluster(problem)
        expected = objectives_of(clustering.problem, clustering.head_of[None, :])[0]
        assert blend_objective(clustering) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("data", ["paper", "mixed", "dirichlet"])
@pytest.mark.parametrize("weighting", ["A", "B", "C"])
@pytest.mark.parametrize("ratio", [0.1, 0.5])
def test_it_is_within_5_percent_of_the_best_of_all_clusterings(data, weighting, ratio):
    for seed in range(6):
        options = {"data": data, "weighting": weighting, "sharing_ratio": ratio, "classes": 5}
        problem = with_composition(disc_problem(9, (500, 700)[seed % 2], seed=seed, rule="blend", **options))
        best = objectives_of(problem, every_clustering(problem)).min()
        assert best - 1e-12 <= blend_objective(cluster(problem)) <= 1.05 * best


@settings(max_examples=60)
@given(problems(rule="blend", max_users=8))
def test_it_never_ends_above_greedy_or_daca(problem):
    greedy = Clustering(problem, greedy_heads(problem, "js", cost_drops(problem, "js")))
    by_daca = cluster(replace(problem, settings=problem.settings.model_copy(update={"rule": "daca"})))
    ours = blend_objective(cluster(problem))
    assert ours <= min(blend_objective(greedy), blend_objective(by_daca)) + 1e-12


@pytest.mark.parametrize("weighting", ["A", "B", "C"])
@pytest.mark.parametrize("shift_weight", [0.0, 1.0, 5.0])
def test_the_running_sums_are_the_objective_and_no_single_move_improves_it(weighting, shift_weight):
    options = {"rule": "blend", "weighting": weighting, "shift_weight": shift_weight, "data": "mixed"}
    problem = with_composition(disc_problem(40, 500, seed=7, **options))
    world = _search_inputs(
        problem, cost_drops(problem, "js"), problem.settings.options("clustering", "blend").shift_weight
    )
    state = _search_state(world, Clustering(problem, np.full(40, -1)))
    improve(world, state)
    end = blend_objective(Clustering(problem, state.head_of))
    assert value_of(world, state) == pytest.approx(end, abs=1e-12)
    assert end < blend_objective(Clustering(problem, np.full(40, -1))) or shift_weight == 5.0
    for user in range(40):
        if state.num_members[user] > 0:
            continue
        for head in [-1, *(m for m in neighbours_of(problem, user) if state.num_members[m] > 0)]:
            moved = state.head_of.copy()
            moved[user] = head
            assert blend_objective(Clustering(problem, moved)) >= end - 1e-11


@pytest.mark.parametrize("data", ["paper", "mixed", "dirichlet"])
def test_no_single_move_improves_what_it_returns(data):
    problem = disc_problem(40, 500, seed=3, data=data, rule="blend")
    clustering = cluster(problem)
    end = blend_objective(clustering)
    for user in np.flatnonzero(clustering.cluster_sizes == 0).tolist():
        heads = [head for head in neighbours_of(problem, user) if clustering.cluster_sizes[head] > 0]
        for head in [-1, *heads]:
            moved = clustering.head_of.copy()
            moved[user] = head
            assert blend_objective(replace(clustering, head_of=moved)) >= end - 1e-11


def test_a_head_and_its_only_member_change_places_where_that_is_better():
    problem = with_composition(table_problem([[90, 10], [50, 50], [10, 90]], [(0, 1)], rule="blend", shift_weight=0.0))
    world = _search_inputs(
        problem, cost_drops(problem, "js"), problem.settings.options("clustering", "blend").shift_weight
    )
    state = _search_state(world, Clustering(problem, np.array([-1, 0, -1])))
    assert open_head(world, state, 1) == 1
    assert state.head_of.tolist() == [1, -1, -1]


def test_the_weight_of_the_shift_matters():
    shifts = []
    for weight in (0.0, 1.0, 10.0):
        problem = disc_problem(40, 500, seed=1, data="dirichlet", rule="blend", shift_weight=weight)
        clustering = cluster(problem)
        mixture = clustering.after.sizes @ clustering.after.distributions / clustering.after.sizes.sum()
        shifts.append(float(np.abs(mixture - problem.skew.global_distribution).sum()))
    assert shifts[0] > shifts[1] > shifts[2]


def test_heads_whose_shifts_cancel_are_found_together():
    """One head alone would shift the whole more than it helps; both together do not shift it at all."""
    counts = [[60, 0], [90, 10], [0, 60], [10, 90]]
    problem = with_composition(
        table_problem(counts, [(0, 3), (1, 2)], rule="blend", sharing_ratio=0.5, shift_weight=2.0)
    )
    one = blend_objective(Clustering(problem, np.array([3, -1, -1, -1])))
    alone = blend_objective(Clustering(problem, np.full(4, -1)))
    both = blend_objective(Clustering(problem, np.array([3, -1, 1, -1])))
    assert both < alone < one
    assert blend_objective(cluster(problem)) <= both
