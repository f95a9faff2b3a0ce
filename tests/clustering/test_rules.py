"""Each simple rule against its definition, step by step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcast.allocation import METHODS
from fedcast.clustering import Problem, Rule, cluster
from fedcast.clustering.sample_problems import disc_problem, path_problem, table_problem
from fedcast.clustering.selection import ascending, best_of_each
from fedcast.errors import FedcastError
from tests.clustering.naive import emd_of, link_value, neighbours_of, problems


def in_order(values: list[float], *, descending: bool = False) -> list[int]:
    """Users by value, rounded so that what is equal to 1e-12 is equal, then by id."""
    sign = -1 if descending else 1
    return sorted(range(len(values)), key=lambda user: (round(sign * values[user], 10), user))


def emds(problem: Problem) -> list[float]:
    return [emd_of(row, problem.skew.global_distribution) for row in problem.skew.distributions]


def literal_daca(problem: Problem) -> list[int]:
    """Algorithm 1 with its tables of all pairs: heads until all are connected, then always the largest edge left."""
    users, emd = range(problem.num_users), emds(problem)
    linked = [[other in neighbours_of(problem, user) for other in users] for user in users]
    heads: list[int] = []
    for user in in_order(emd, descending=problem.settings.options("clustering", "daca").order == "descending"):
        reached = {other for other in users if any(linked[head][other] for head in heads)} | set(heads)
        if problem.settings.options("clustering", "daca").scan == "uncovered":
            needed = user not in reached
        else:
            needed = any(linked[user][other] and other not in reached for other in users)
        if needed and problem.volumes[user] > 0:
            heads.append(user)
    head_of = [-1] * problem.num_users
    waiting = [user for user in users if user not in heads]
    while pairs := [(c, m) for c in waiting for m in heads if linked[m][c]]:
        member, head = max(pairs, key=lambda pair: (round(emd[pair[0]] - emd[pair[1]], 10), -pair[1]))
        head_of[member] = head
        waiting.remove(member)
    return head_of


@pytest.mark.parametrize("order", ["ascending", "descending"])
@pytest.mark.parametrize("scan", ["uncovered", "covers_new"])
def test_daca_is_algorithm_1(order, scan):
    @given(problems(rule="daca", order=order, scan=scan))
    def same(problem):
        assert cluster(problem).head_of.tolist() == literal_daca(problem)

    same()
    for seed in range(4):
        problem = disc_problem(50, 500, seed=seed, data="mixed", rule="daca", order=order, scan=scan)
        assert cluster(problem).head_of.tolist() == literal_daca(problem)


def literal_cover(problem: Problem, score: list[float], link_values: np.ndarray) -> list[int]:
    """Heads by descending score unless an earlier head reaches them; members join their best link to a head."""
    heads: list[int] = []
    for user in in_order(score, descending=True):
        if problem.volumes[user] > 0 and not set(neighbours_of(problem, user)) & set(heads):
            heads.append(user)
    head_of = []
    for user in range(problem.num_users):
        reachable = [head for head in sorted(heads) if head in neighbours_of(problem, user)]
        if user in heads or not reachable:
            head_of.append(-1)
        else:
            head_of.append(max(reachable, key=lambda head: link_value(problem, link_values, user, head)))
    return head_of


@pytest.mark.parametrize("seed", range(6))
def test_scc_goes_by_closeness_and_cec_by_rate(seed):
    problem = disc_problem(50, 500, seed=seed, rule="scc")
    closeness, rates = problem.graph.closeness, problem.graph.rate_bps
    links = [problem.graph.links_of(user) for user in range(50)]
    trusted = [float(sum(closeness[link].tolist())) for link in links]
    assert cluster(problem).head_of.tolist() == literal_cover(problem, trusted, closeness)
    fast = [float(np.mean(rates[link].tolist())) if rates[link].size else 0.0 for link in links]
    by_rate = replace(problem, settings=problem.settings.model_copy(update={"rule": "cec"}))
    assert cluster(by_rate).head_of.tolist() == literal_cover(problem, fast, rates)


@given(problems(rule="scc"))
def test_scc_and_cec_break_ties_by_id(problem):
    degrees = problem.graph.degrees.tolist()
    assert cluster(problem).head_of.tolist() == literal_cover(problem, degrees, problem.graph.closeness)
    by_rate = replace(problem, settings=problem.settings.model_copy(update={"rule": "cec"}))
    linked = [1.0 if degree else 0.0 for degree in degrees]
    assert cluster(by_rate).head_of.tolist() == literal_cover(problem, linked, problem.graph.rate_bps)


def test_random_draws_heads_and_members_from_those_it_may():
    problem = disc_problem(60, 600, seed=1, rule="random", num_clusters=8)
    clustering = cluster(problem)
    assert 1 < len(clustering.heads) <= 8
    reachable = {user for head in clustering.heads.tolist() for user in neighbours_of(problem, head)}
    assert set(clustering.members.tolist()) == reachable - set(clustering.heads.tolist())


def test_random_without_the_graph_gives_everybody_a_head():
    problem = disc_problem(60, 100, seed=1, rule="random", num_clusters=5, respect_graph=False)
    clustering = cluster(problem)
    assert len(clustering.heads) == 5
    assert len(clustering.members) == 55
    seeds = [cluster(replace(problem, seed=seed)).head_of.tolist() for seed in range(5)]
    assert len({tuple(head_of) for head_of in seeds}) == 5


def test_every_user_is_as_likely_a_head_and_every_head_as_likely_chosen():
    problem = table_problem([[1, 1]] * 10, [], rule="random", num_clusters=5, respect_graph=False)
    drawn = np.zeros(10)
    for seed in range(400):
        drawn[cluster(replace(problem, seed=seed)).heads] += 1
    # 200 expected; a head that nobody of the other five chose does not show: (4/5)^5 of them.
    assert np.abs(drawn - 200 * (1 - 0.8**5)).max() < 5 * np.sqrt(400 * 0.34 * 0.66)


def test_a_new_user_changes_nobody_elses_random_draw():
    counts = [[1, 1]] * 12
    few = cluster(table_problem(counts[:11], [], rule="random", num_clusters=11, respect_graph=False))
    assert len(few.members) == 0
    complete = [(a, b) for a in range(12) for b in range(a)]
    one_more = table_problem(counts, complete, rule="random", num_clusters=4, seed=3)
    without = table_problem(counts[:11], [pair for pair in complete if 11 not in pair], rule="random", num_clusters=4)
    first, second = cluster(one_more), cluster(replace(without, seed=3))
    assert 11 not in first.heads, "else the new head has drawn members from the others"
    assert first.head_of[:11].tolist() == second.head_of.tolist()


def test_more_random_clusters_than_users_are_refused():
    with pytest.raises(
        FedcastError, match=r"value 10 for clustering\.random\.num_clusters: .* there are 2; set it to 2"
    ):
        cluster(path_problem([[9, 1], [5, 5], [0, 0]], rule="random"))


def test_central_sends_what_a_member_of_daca_gets_on_average():
    problem = disc_problem(40, 500, seed=2, data="mixed", rule="central")
    skewed = replace(problem, volumes=problem.volumes * np.linspace(0.2, 1, 40))
    by_daca = cluster(replace(skewed, settings=skewed.settings.model_copy(update={"rule": "daca"})))
    clustering = cluster(skewed)
    assert clustering.broadcast is not None
    mean = np.mean([v for v in by_daca.received.tolist() if v > 0])
    assert mean % 1 > 0.5  # a fraction of a sample cannot be sent: the next whole number is
    assert clustering.broadcast.volume == np.ceil(mean)
    np.testing.assert_allclose(clustering.broadcast.mix, np.full(10, 0.1))
    assert cluster(replace(skewed, server_volume=7.0)).received.tolist() == [7.0] * 40


def test_central_can_only_balance_what_there_is():
    problem = replace(path_problem([[98, 1], [99, 2]], rule="central"), server_volume=10.0)
    mix = cluster(problem).broadcast.mix  # type: ignore[union-attr]
    np.testing.assert_allclose(mix, [0.7, 0.3])
    spread = cluster(replace(problem, one_hot=False)).broadcast.mix  # type: ignore[union-attr]
    np.testing.assert_allclose(spread, problem.skew.global_distribution)


def test_without_links_central_still_sends():
    clustering = cluster(table_problem([[90, 10], [10, 90]], [], rule="central"))
    assert clustering.received.tolist() == [10.0, 10.0]


@given(st.lists(st.sampled_from([0.1, 0.2, 0.1 + 0.2, 0.3, 0.3 + 5e-13, 1.0]), min_size=1, max_size=12))
def test_values_equal_to_1e_12_keep_the_order_of_ids(values):
    assert ascending(np.array(values)).tolist() == in_order(values)


def test_the_first_of_the_best_is_chosen():
    users = np.array([0, 0, 0, 2, 2, 5])
    values = np.array([0.3, 0.1 + 0.2, 0.4, 2.0, 1.0, 7.0])
    assert best_of_each(users, values).tolist() == [0, 4, 5]
    assert best_of_each(users[:0], values[:0]).tolist() == []


@pytest.mark.parametrize("rule", ["daca", "gain", "exact", "blend"])
def test_of_two_equal_heads_the_lower_id_leads(rule):
    counts = [[50, 50], [100, 0], [50, 50], [0, 100], [50, 50]]
    linked = [(1, 0), (1, 2), (1, 4), (3, 4), (3, 2)]
    head_of = cluster(table_problem(counts, linked, rule=rule)).head_of.tolist()
    assert head_of[1] == (0 if rule == "daca" else 2)
    assert head_of[3] == 2


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (Rule(lambda *_: None, "none", why="is so"), "clustering rule 'own' returned None: expected a Clustering"),
        (METHODS["fixed"], r"clustering rule 'own' is Method\(.*\): expected a fedcast.clustering.Rule"),
    ],
)
def test_a_rule_of_the_wrong_kind_is_an_error(registered, rule, message):
    registered("clustering", "own", rule)
    with pytest.raises(FedcastError, match=message):
        cluster(path_problem([[9, 1], [1, 9]], rule="own"))
