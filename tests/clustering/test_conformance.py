"""Every rule of the table passes the kit; a rule that breaks a constraint cannot return."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from fedcast.clustering import RULES, Clustering, Problem, Rule, cluster
from fedcast.clustering.sample_problems import path_problem
from fedcast.errors import FedcastError
from fedcast.testing.clustering import CHECKS, repeats_itself, survives_nothing_to_share
from tests.clustering.naive import neighbours_of, problems


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_every_rule_passes_every_check(rule, check):
    check(rule)


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_meets_the_constraints_in_any_small_world(rule):
    @settings(max_examples=40)
    @given(problems(rule=rule))
    def holds(problem):
        try:
            head_of = cluster(problem).head_of.tolist()
        except FedcastError as refusal:
            assert "clustering." in str(refusal)
            return
        for user, head in enumerate(head_of):
            if head >= 0:
                assert head_of[head] == -1
                assert problem.skew.sizes[head] > 0
                assert head in neighbours_of(problem, user)

    holds()


def test_the_kit_finds_a_rule_that_is_not_repeatable(registered):
    draw = np.random.default_rng(0)

    def moody(problem: Problem, _: object) -> Clustering:
        user, head = draw.permutation(np.flatnonzero(problem.volumes))[:2]
        head_of = np.full(problem.num_users, -1)
        head_of[user] = head
        return Clustering(problem, head_of, ignores_graph=True)

    registered("clustering", "moody", Rule(moody, "random", why="whim"))
    with pytest.raises(AssertionError, match="two runs"):
        repeats_itself("moody")


def test_the_kit_finds_heads_that_have_nothing_to_send(registered):
    def reckless(problem: Problem, _: object) -> Clustering:
        head_of = np.full(problem.num_users, -1)
        head_of[0] = 1
        return Clustering(problem, head_of, ignores_graph=True)

    registered("clustering", "reckless", Rule(reckless, "reckless", why="recklessness"))
    with pytest.raises(AssertionError):
        survives_nothing_to_share("reckless")


@pytest.mark.parametrize(
    ("head_of", "complaint"),
    [
        ([1, 2, -1, -1], "user 1 has members and is itself led by 2"),
        ([0, -1, -1, -1], "user 0 has members and is itself led by 0"),
        ([2, -1, -1, -1], "user 0 has head 2, but no link joins them"),
        ([-1, -1, 3, -1], "user 3 is a head but holds no data"),
        ([-1, -1, -1, 4], "head of user 3 is 4"),
        ([-2, -1, -1, -1], "head of user 0 is -2"),
        ([-1, -1, -1], r"int64\[3\], expected one integer for each of 4"),
        ([-1.0, -1.0, -1.0, -1.0], "float64"),
    ],
)
def test_a_rule_that_breaks_a_constraint_cannot_return(registered, head_of, complaint):
    rule = Rule(lambda problem, _: Clustering(problem, np.array(head_of)), "broken", why="error")
    registered("clustering", "broken", rule)
    with pytest.raises(FedcastError, match=complaint):
        cluster(path_problem([[9, 1], [5, 5], [1, 9], [0, 0]], rule="broken"))


def test_an_unknown_rule_is_refused_with_the_names_there_are():
    with pytest.raises(
        FedcastError, match=r"'dacca' for clustering\.rule: .*did you mean daca\? Choose one of daca, scc"
    ):
        cluster(path_problem([[9, 1], [5, 5]], rule="dacca"))
