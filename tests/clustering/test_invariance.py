"""Test that clusterings do not depend on names of users, nor on data or links that a rule does not use."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedcast.clustering import Problem, cluster
from fedcast.clustering.sample_problems import disc_problem
from fedcast.data.skew import Skew, average_emd
from fedcast.network import Graph, graph_from_edges


def relabelled(problem: Problem, new_id: np.ndarray) -> Problem:
    """The same world with user k called new_id[k]."""
    old_id = np.argsort(new_id)
    graph = problem.graph
    users = np.repeat(np.arange(problem.num_users), graph.degrees)
    once = users < graph.neighbours
    moved = graph_from_edges(
        new_id[users[once]],
        new_id[graph.neighbours[once]],
        graph.rate_bps[once],
        graph.closeness[once],
        problem.num_users,
    )
    skew = Skew(problem.skew.sizes[old_id], problem.skew.distributions[old_id], problem.skew.global_distribution)
    return replace(problem, skew=skew, graph=moved, volumes=problem.volumes[old_id])


@pytest.mark.parametrize("rule", ["daca", "scc", "cec", "gain", "exact"])
@pytest.mark.parametrize("seed", range(3))
def test_names_do_not_matter_where_nothing_is_tied(rule, seed):
    # So many links that no two users have only each other: those would tie in closeness and rate.
    problem = disc_problem(40, 700, seed=seed, data="dirichlet", rule=rule, composition="own", weighting="C")
    new_id = np.random.default_rng(seed).permutation(40)
    before, after = cluster(problem), cluster(relabelled(problem, new_id))
    expected = np.full(40, -1)
    expected[new_id[before.members]] = new_id[before.head_of[before.members]]
    assert after.head_of.tolist() == expected.tolist()


@pytest.mark.parametrize("rule", ["daca", "gain", "exact", "blend"])
def test_rates_and_closeness_do_not_matter_to_rules_that_go_by_data(rule):
    problem = disc_problem(40, 400, seed=1, data="mixed", rule=rule)
    graph = problem.graph
    dull = Graph(graph.offsets, graph.neighbours, np.ones_like(graph.rate_bps), np.ones_like(graph.closeness))
    assert cluster(problem).head_of.tolist() == cluster(replace(problem, graph=dull)).head_of.tolist()


@pytest.mark.parametrize("rule", ["scc", "cec"])
def test_data_do_not_matter_to_rules_that_go_by_links(rule):
    first = disc_problem(40, 400, seed=1, data="mixed", rule=rule)
    second = disc_problem(40, 400, seed=1, data="dirichlet", rule=rule)
    assert cluster(first).head_of.tolist() == cluster(second).head_of.tolist()


@pytest.mark.parametrize("rule", ["daca", "gain", "exact", "blend"])
def test_only_ratios_of_sizes_matter(rule):
    problem = disc_problem(40, 400, seed=1, data="dirichlet", rule=rule)
    skew = problem.skew
    scaled = Skew(1024 * skew.sizes, skew.distributions, skew.global_distribution)
    assert (
        cluster(problem).head_of.tolist()
        == cluster(replace(problem, skew=scaled, volumes=1024 * problem.volumes)).head_of.tolist()
    )


@pytest.mark.parametrize("rule", ["daca", "gain", "blend"])
def test_parts_without_links_between_them_do_not_disturb_each_other(rule):
    """Two copies of a world side by side: each is clustered as it was alone (under C, where users add up)."""
    options = {"rule": rule, "weighting": "C", "shift_weight": 0.0}
    problem = disc_problem(30, 400, seed=1, data="dirichlet", **options)
    graph, skew = problem.graph, problem.skew
    twice = Graph(
        np.concatenate([graph.offsets, graph.offsets[-1] + graph.offsets[1:]]),
        np.concatenate([graph.neighbours, graph.neighbours + np.int32(30)]),
        np.tile(graph.rate_bps, 2),
        np.tile(graph.closeness, 2),
    )
    both = Skew(np.tile(skew.sizes, 2), np.tile(skew.distributions, (2, 1)), skew.global_distribution)
    doubled = cluster(replace(problem, skew=both, graph=twice, volumes=np.tile(problem.volumes, 2)))
    alone = cluster(problem)
    if rule == "blend":
        value = average_emd(both, doubled.after, "C")
        assert value == pytest.approx(average_emd(skew, alone.after, "C"), rel=0.02)
        return
    first, second = doubled.head_of[:30], doubled.head_of[30:]
    assert first.tolist() == alone.head_of.tolist()
    assert np.where(second >= 0, second - 30, -1).tolist() == alone.head_of.tolist()
