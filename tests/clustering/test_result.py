"""Test the properties of a clustering against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from fedcast.clustering import Broadcast, Clustering, Proof, cluster
from fedcast.clustering.sample_problems import disc_problem, path_problem
from fedcast.errors import FedcastError
from tests.clustering.naive import after_sharing, link_value, problems


@given(problems(rule="daca"))
def test_members_volumes_and_leakage_by_hand(problem):
    clustering = cluster(problem)
    head_of = clustering.head_of.tolist()
    leakage = 0.0
    for head in set(head_of) - {-1}:
        members = [user for user, its in enumerate(head_of) if its == head]
        assert clustering.members_of(head).tolist() == members
        leakage += len(members) / problem.num_users * problem.volumes[head] / problem.skew.sizes[head]
    assert clustering.heads.tolist() == sorted(set(head_of) - {-1})
    assert clustering.members.tolist() == [user for user, head in enumerate(head_of) if head >= 0]
    assert clustering.average_sharing_ratio == pytest.approx(leakage)
    assert clustering.received.tolist() == [problem.volumes[head] if head >= 0 else 0 for head in head_of]
    loners = [user for user in range(problem.num_users) if user not in head_of]
    assert all(clustering.shared[user] == 0 and len(clustering.members_of(user)) == 0 for user in loners)
    sizes, distributions = after_sharing(problem, head_of)
    np.testing.assert_allclose(clustering.after.sizes, sizes)
    np.testing.assert_allclose(clustering.after.distributions, distributions, atol=1e-12)


def test_the_worst_member_sets_the_rate():
    problem = disc_problem(40, 600, seed=4, rule="scc")
    clustering = cluster(problem)
    assert len(clustering.heads) > 3
    for head, rate in zip(clustering.heads.tolist(), clustering.worst_rates_bps.tolist(), strict=True):
        rates = [link_value(problem, problem.graph.rate_bps, head, m) for m in clustering.members_of(head).tolist()]
        assert rate == min(rates)


def test_a_pair_without_a_link_has_no_known_rate():
    problem = path_problem([[9, 1], [5, 5], [1, 9]])
    clustering = Clustering(problem, np.array([-1, 0, 0]), ignores_graph=True)
    assert np.isnan(clustering.worst_rates_bps).all()
    assert clustering.links.tolist() == [-1, 1, -1]


def test_other_volumes_keep_the_clusters_and_change_what_balanced_heads_send():
    problem = path_problem([[90, 10], [50, 50]], composition="balanced")
    before = Clustering(problem, np.array([-1, 0]))
    after = before.with_volumes(np.array([40.0, 10.0]))
    assert after.head_of.tolist() == [-1, 0]
    assert before.problem.sent_distributions[0].tolist() == [0.5, 0.5]
    assert after.problem.sent_distributions[0].tolist() == [0.75, 0.25]
    assert after.average_sharing_ratio == pytest.approx(0.5 * 40 / 100)


def test_values_cannot_be_changed():
    clustering = cluster(path_problem([[9, 1], [5, 5]]))
    with pytest.raises(ValueError, match="read-only"):
        clustering.head_of[0] = 1
    with pytest.raises(AttributeError):
        clustering.head_of = np.array([-1, -1])  # type: ignore[misc]


def test_a_broadcast_reaches_everybody():
    problem = path_problem([[60, 40], [20, 80], [0, 0]])
    clustering = Clustering(problem, np.full(3, -1), broadcast=Broadcast(20.0, np.array([0.5, 0.5])))
    assert clustering.after.sizes.tolist() == [120, 120, 20]
    np.testing.assert_allclose(clustering.after.distributions, [[70 / 120, 50 / 120], [30 / 120, 90 / 120], [0.5, 0.5]])
    assert clustering.average_sharing_ratio == pytest.approx(20 / 200)
    assert clustering.mean_received == 20


@pytest.mark.parametrize(
    ("head_of", "broadcast", "complaint"),
    [
        ([1, -1], Broadcast(1.0, np.array([0.5, 0.5])), "exclude each other"),
        ([-1, -1], Broadcast(21.0, np.array([0.5, 0.5])), "the server sends 21.0 samples, expected 0 to 20"),
        ([-1, -1], Broadcast(1.0, np.array([0.5, 0.6])), "no distribution"),
        ([-1, -1], Broadcast(1.0, np.array([1.0])), "no distribution"),
    ],
)
def test_an_impossible_broadcast_is_refused(head_of, broadcast, complaint):
    with pytest.raises(FedcastError, match=complaint):
        Clustering(path_problem([[9, 1], [5, 5]]), np.array(head_of), broadcast=broadcast)


def test_the_gap_of_a_proof():
    assert Proof(1.1, 1.0, False, 1.0).gap == pytest.approx(0.1)
    assert Proof(1.0, 1.0, True, 1.0).gap == 0
    assert Proof(1.0, 0.0, False, 1.0).gap == np.inf
    assert Proof(0.0, 0.0, True, 1.0).gap == 0
