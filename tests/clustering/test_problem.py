"""Volumes, consent, and what heads send."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcast.clustering import Problem, cluster, make_problem
from fedcast.clustering.clustering_problem import balanced_distributions, water_fill
from fedcast.clustering.sample_problems import path_problem
from fedcast.data.skew import skew_of
from fedcast.errors import FedcastError
from fedcast.network import graph_from_edges
from fedcast.scenario import ClusteringSettings

PAIR = graph_from_edges([0], [1], 1e6, 0.9, 2)
SKEW = skew_of([[25, 0], [0, 41]])


def poured_drop_by_drop(counts: list[float], volume: float, drops: int = 4000) -> list[float]:
    """Always give the next drop to the class that has got least and has something left."""
    taken = [0.0] * len(counts)
    for _ in range(drops):
        rest = [place for place in range(len(counts)) if taken[place] < counts[place] - 1e-12]
        lowest = min(rest, key=lambda place: taken[place])
        taken[lowest] += min(volume / drops, counts[lowest] - taken[lowest])
    return taken


@given(st.lists(st.integers(0, 30), min_size=1, max_size=6).filter(any), st.floats(0.01, 1))
def test_water_filling_is_what_pouring_drop_by_drop_gives(counts, share):
    volume = share * sum(counts)
    taken = water_fill(counts, volume)
    assert taken.sum() == pytest.approx(volume)
    assert (taken <= np.array(counts) + 1e-12).all()
    if volume < 0.95 * sum(counts):  # a drop that overflows its class is lost, which matters when all are nearly empty
        np.testing.assert_allclose(taken, poured_drop_by_drop(counts, volume), atol=len(counts) * volume / 400)


def test_a_balanced_mix_is_as_equal_as_the_data_allow():
    skew = skew_of([[90, 10, 0], [30, 30, 40], [100, 0, 0], [0, 0, 0]])
    sent = balanced_distributions(skew, np.array([30.0, 30.0, 30.0, 0.0]))
    np.testing.assert_allclose(sent[:3], [[2 / 3, 1 / 3, 0], [1 / 3, 1 / 3, 1 / 3], [1, 0, 0]])
    np.testing.assert_array_equal(sent[3], skew.global_distribution)


def test_sharing_everything_balanced_is_sharing_everything():
    skew = skew_of([[7, 2, 1], [1, 1, 8]])
    np.testing.assert_allclose(balanced_distributions(skew, skew.sizes), skew.distributions)


def test_volumes_follow_ratio_consent_and_whole_samples():
    assert make_problem(SKEW, PAIR).volumes.tolist() == [2.5, 4.1000000000000005]
    assert make_problem(SKEW, PAIR, max_ratios=[0.02, 1.0]).volumes.tolist() == [0.5, 4.1000000000000005]
    assert make_problem(SKEW, PAIR, whole=True).volumes.tolist() == [2.0, 4.0]
    # 0.29 · 100 is 28.999999999999996 in floating point, and 29 samples all the same.
    exact = make_problem(skew_of([[100], [10]]), PAIR, ClusteringSettings(sharing_ratio=0.29), whole=True)
    assert exact.volumes.tolist() == [29.0, 2.0]


def test_a_user_without_consent_is_never_a_head():
    problem = make_problem(skew_of([[5, 5], [9, 1], [1, 9]]), graph_from_edges([0, 0], [1, 2], 1e6, 0.9, 3))
    assert cluster(problem).heads.tolist() == [0]
    for rule in ("daca", "scc", "cec", "gain", "blend", "exact"):
        silent = make_problem(problem.skew, problem.graph, ClusteringSettings(rule=rule), max_ratios=[0, 1, 1])
        assert 0 not in cluster(silent).heads


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"max_ratios": [0.1]}, r"max_ratios: shape \(1,\), expected one number for each of 2 users"),
        ({"max_ratios": [0.1, 1.5]}, "invalid value 1.5 for max_ratios of user 1: expected 0 to 1.0, a share"),
        ({"max_ratios": [np.nan, 1]}, "value nan for max_ratios of user 0"),
        ({"server_volume": -1.0}, "invalid value -1.0 for server_volume: expected 0 to 66"),
        ({"server_volume": 67.0}, "value 67.0 for server_volume"),
    ],
)
def test_invalid_values_are_reported_by_name(changes, complaint):
    with pytest.raises(FedcastError, match=complaint):
        make_problem(SKEW, PAIR, **changes)


@pytest.mark.parametrize(
    ("volumes", "complaint"),
    [
        ([26.0, 1.0], "invalid value 26.0 for volumes of user 0: expected 0 to 25.0, the samples it holds"),
        ([1.0, -1.0], "value -1.0 for volumes of user 1"),
        ([1.0, np.nan], "value nan for volumes of user 1"),
        ([1.0], r"volumes: shape \(1,\)"),
    ],
)
def test_invalid_volumes_are_reported_by_user(volumes, complaint):
    with pytest.raises(FedcastError, match=complaint):
        Problem(SKEW, PAIR, np.array(volumes))


def test_graph_and_data_must_have_the_same_users():
    with pytest.raises(FedcastError, match="graph: it has 2 users, the data have 3"):
        make_problem(skew_of([[1], [1], [1]]), PAIR)


def test_auto_composition_is_the_rules_own():
    for rule, composition in [("daca", "own"), ("scc", "own"), ("gain", "balanced"), ("exact", "balanced")]:
        clustering = cluster(path_problem([[9, 1], [5, 5], [1, 9]], rule=rule))
        assert clustering.problem.settings.composition == composition
        forced = cluster(path_problem([[9, 1], [5, 5], [1, 9]], rule=rule, composition="own"))
        assert forced.problem.sent_distributions is forced.problem.skew.distributions


def test_a_descriptor_that_spreads_each_sample_leaves_a_head_no_choice():
    problem = replace(path_problem([[9, 1], [5, 5], [1, 9]], rule="gain"), one_hot=False)
    assert cluster(problem).problem.settings.composition == "own"
    wish = problem.settings.model_copy(update={"composition": "balanced"})
    with pytest.raises(FedcastError, match=r"'balanced' for clustering\.composition: it needs a descriptor"):
        cluster(replace(problem, settings=wish))


def test_the_old_name_of_what_is_sent_warns():
    problem = cluster(path_problem([[9, 1], [5, 5]], composition="own")).problem
    with pytest.warns(DeprecationWarning, match="use sent_distributions"):
        assert problem.mixes is problem.sent_distributions


def test_an_undecided_composition_has_no_distribution():
    with pytest.raises(FedcastError, match=r"clustering\.composition is 'auto'"):
        _ = path_problem([[9, 1], [5, 5]]).sent_distributions
