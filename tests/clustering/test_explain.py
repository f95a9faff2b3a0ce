"""Explanations against plain loops."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from fedcast.clustering import Clustering, cluster, explain
from fedcast.clustering.sample_problems import disc_problem, path_problem, table_problem
from fedcast.data.skew import average_emd
from tests.clustering.naive import after_sharing, emd_of, link_value, neighbours_of, problems


def status_of(clustering: Clustering, user: int) -> str:
    problem, head_of = clustering.problem, clustering.head_of.tolist()
    whole = problem.skew.global_distribution
    linked = neighbours_of(problem, user)
    heads = [head for head in linked if head in head_of]
    if user in head_of:
        return "head"
    if head_of[user] >= 0:
        return "member"
    if problem.skew.sizes[user] == 0:
        return "empty"
    if not linked:
        return "no link"
    if not heads:
        return "no head in reach"
    alone = emd_of(problem.skew.distributions[user], whole)
    for head in heads:
        led = [head if other == user else -1 for other in range(problem.num_users)]
        if emd_of(after_sharing(problem, led)[1][user], whole) < alone - 1e-9:
            return "not chosen"
    return "no gain"


@given(problems(rule="gain") | problems(rule="daca") | problems(rule="blend"))
def test_every_user_has_its_reason(problem):
    clustering = cluster(problem)
    story = explain(clustering)
    assert [row.status for row in story.users] == [status_of(clustering, user) for user in range(problem.num_users)]
    out = {row.user for row in story.left_out}
    assert out == {user for user in range(problem.num_users) if clustering.head_of[user] < 0} - set(clustering.heads)


def test_each_reason_occurs_where_it_should():
    counts = [[50, 50], [100, 0], [0, 100], [0, 0], [50, 50], [50, 50], [30, 70]]
    links = [(0, 1), (0, 2), (0, 6), (4, 0)]
    problem = table_problem(counts, links, composition="own")
    clustering = Clustering(problem, np.array([-1, 0, 0, -1, -1, -1, -1]))
    assert [row.status for row in explain(clustering).users] == [
        "head",
        "member",
        "member",
        "empty",
        "no gain",
        "no link",
        "not chosen",
    ]
    lonely = path_problem([[100, 0], [50, 50], [0, 100], [10, 90]], composition="own")
    rows = explain(Clustering(lonely, np.array([1, -1, -1, -1]))).users
    assert [row.status for row in rows] == ["member", "head", "not chosen", "no head in reach"]


def test_rows_say_what_each_member_gained_and_each_head_brought():
    problem = disc_problem(40, 500, seed=2, data="mixed", rule="daca")
    clustering = cluster(problem)
    story = explain(clustering)
    for row in story.users:
        assert row.emd_before == pytest.approx(problem.emd[row.user])
        assert row.emd_after == pytest.approx(clustering.after.emd[row.user])
        if row.head is not None:
            assert row.rate_bps == link_value(problem, problem.graph.rate_bps, row.user, row.head)
            assert row.closeness == link_value(problem, problem.graph.closeness, row.user, row.head)
            assert row.received == problem.volumes[row.head]
    for head in story.heads:
        members = [row for row in story.users if row.head == head.head]
        assert head.members == len(members)
        assert head.reaches == len(neighbours_of(problem, head.head))
        assert head.emd_rank == 1 + sum(other < problem.emd[head.head] - 1e-12 for other in problem.emd)
        assert head.mean_emd_before == pytest.approx(np.mean([row.emd_before for row in members]))
        assert head.mean_emd_after == pytest.approx(np.mean([row.emd_after for row in members]))
        assert head.worst_rate_bps == min(row.rate_bps for row in members if row.rate_bps is not None)
        assert "EMD" in head.why
    fall = average_emd(problem.skew) - average_emd(problem.skew, clustering.after, "C")
    assert sum(head.drop for head in story.heads) == pytest.approx(fall)
    assert [head.drop for head in story.heads] == sorted((head.drop for head in story.heads), reverse=True)


def test_nobody_is_left_out_by_gain_who_would_gain():
    """Under C a user's own drop is the average's drop, so whoever reaches a head that helps has joined one."""
    for seed in (1, 12, 13, 20):  # worlds in which all members of a head leave it for better ones
        problem = disc_problem(60, 600, seed=seed, data="mixed", rule="gain", weighting="C")
        assert explain(cluster(problem)).counts()["not chosen"] == 0


def test_a_broadcast_serves_everybody():
    story = explain(cluster(path_problem([[9, 1], [5, 5], [0, 0]], rule="central")))
    assert story.counts()["served"] == 3
    assert story.left_out == []


def test_pairs_without_a_link_have_no_rate_and_survive_json():
    problem = path_problem([[9, 1], [5, 5], [1, 9]], rule="random", num_clusters=1, respect_graph=False)
    for seed in range(5):
        text = json.dumps(explain(cluster(replace(problem, seed=seed))).as_dict(), allow_nan=False)
        assert json.loads(text)["counts"]["member"] == 2


def test_json_holds_the_whole_story():
    clustering = cluster(disc_problem(30, 500, seed=2, rule="gain"))
    story = json.loads(json.dumps(explain(clustering).as_dict()))
    assert story["rule"] == "gain"
    assert story["composition"] == "balanced"
    assert len(story["users"]) == 30
    assert [row["head"] if row["head"] is not None else -1 for row in story["users"]] == clustering.head_of.tolist()
    assert story["average_emd_after"] < story["average_emd_before"]
