"""Test lazy greedy against greedy that evaluates every candidate in every step, and submodularity."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from fedcast.clustering import Problem, cluster
from fedcast.clustering.costs import cost_drops, costs_alone
from fedcast.clustering.gain import average_after, greedy_heads, one_pass
from fedcast.clustering.rules import with_composition
from fedcast.clustering.sample_problems import disc_problem, table_problem
from fedcast.data.skew import average_emd, js_divergence
from tests.clustering.naive import after_sharing, average_emd_of, emd_of, neighbours_of, problems


def cost_of(problem: Problem, user: int, head: int, divergence) -> float:
    """Return the cost of a user with that head (-1: none), from its samples."""
    head_of = [head if other == user else -1 for other in range(problem.num_users)]
    sizes, distributions = after_sharing(problem, head_of)
    weight = problem.skew.sizes[user] if problem.weighting == "C" else sizes[user]
    return float(weight * divergence(distributions[user], problem.skew.global_distribution))


def all_gains(problem: Problem, price: float = 0.0, divergence=emd_of) -> dict[tuple[int, int], float]:
    """(head, member) -> what the total cost falls by, plus the price of the samples received; only what gains."""
    gains = {}
    for member in range(problem.num_users):
        alone = cost_of(problem, member, -1, divergence)
        for head in neighbours_of(problem, member):
            gain = alone - cost_of(problem, member, head, divergence) + price * problem.volumes[head]
            if gain > 1e-9:
                gains[head, member] = gain
    return gains


def worth(gains: dict[tuple[int, int], float], heads: set[int], users: int) -> float:
    """f(H): every user that is no head takes its best head, if any gains."""
    return sum(max((gains.get((head, user), 0.0) for head in heads), default=0.0) for user in set(range(users)) - heads)


def eager_greedy(problem: Problem, price: float = 0.0) -> list[int]:
    """Try every user as the next head, take the best, until none gains."""
    users, gains, heads = range(problem.num_users), all_gains(problem, price), set()
    while True:
        now = worth(gains, heads, len(users))
        marginals = {user: worth(gains, heads | {user}, len(users)) - now for user in users if user not in heads}
        best = max(marginals, key=lambda user: (round(marginals[user], 8), -user), default=None)
        if best is None or marginals[best] <= 1e-8:
            break
        heads.add(best)
    joined = best_heads(gains, heads, users)
    # Whom all have left for better heads is none any more, and may join one.
    return best_heads(gains, set(joined) - {-1}, users)


def best_heads(gains: dict[tuple[int, int], float], heads: set[int], users: range) -> list[int]:
    head_of = []
    for user in users:
        options = {head: round(gains[head, user], 8) for head in sorted(heads) if (head, user) in gains}
        head_of.append(max(options, key=lambda head: options[head]) if options and user not in heads else -1)
    return head_of


@settings(max_examples=60)
@given(problems(max_users=8))
def test_lazy_greedy_is_greedy(problem):
    problem = with_composition(problem, "gain")
    drops = cost_drops(problem, "emd")
    for price in (0.0, 0.7):
        assert one_pass(problem, drops, price).tolist() == eager_greedy(problem, price)


@pytest.mark.parametrize("weighting", ["A", "C"])
@pytest.mark.parametrize("data", ["paper", "mixed", "dirichlet"])
def test_gain_is_greedy_on_the_average_emd(weighting, data):
    problem = disc_problem(24, 600, seed=5, data=data, rule="gain", weighting=weighting, composition="own")
    assert cluster(problem).head_of.tolist() == eager_greedy(problem)


def test_under_b_the_price_of_a_sample_settles_at_the_average():
    moved = 0
    for seed in range(8):
        problem = with_composition(disc_problem(24, 700, seed=seed, data="dirichlet", sharing_ratio=0.5), "gain")
        price, values = average_emd_of(problem, [-1] * 24, "B"), []
        for _ in range(6):
            price = average_emd_of(problem, eager_greedy(problem, price), "B")
            values.append(price)
        assert average_emd_of(problem, cluster(problem).head_of, "B") == pytest.approx(min(values), abs=1e-12)
        moved += min(values) < values[0] - 1e-9
    assert moved > 0


@pytest.mark.parametrize("shape", ["ring", "grid", "halves"])
def test_among_many_equals_the_lower_id_is_taken(shape):
    pairs = {
        "ring": [(user, (user + 1) % 36) for user in range(36)],
        "grid": [(u, u + 1) for u in range(36) if u % 6 < 5] + [(u, u + 6) for u in range(30)],
        "halves": [(user, other) for user in range(18) for other in range(18, 36)],
    }[shape]
    for step in (1, 5, 7):
        counts = [[100, 0] if user * step % 4 < 2 else [0, 100] for user in range(36)]
        problem = with_composition(table_problem(counts, pairs, weighting="C"), "gain")
        assert one_pass(problem, cost_drops(problem, "emd")).tolist() == eager_greedy(problem)


def test_a_released_head_joins_the_lower_id_of_two_equal_heads():
    """User 2 leads first; then 0 and 4, who hold the same, win its members 1 and 3, and 2 may join either."""
    counts = [[0, 20], [8, 2], [5, 5], [10, 0], [0, 20]]
    linked = [(0, 1), (0, 2), (0, 4), (1, 2), (2, 3), (2, 4), (3, 4)]
    problem = with_composition(table_problem(counts, linked, weighting="C", sharing_ratio=0.5), "gain")
    assert one_pass(problem, cost_drops(problem, "emd")).tolist() == [-1, 0, 0, 4, -1] == eager_greedy(problem)


@pytest.mark.parametrize("weighting", ["A", "B", "C"])
def test_f_is_submodular(weighting):
    """Marginals only fall: f(S + v) - f(S) >= f(T + v) - f(T) for S within T, on random triples; not monotone."""
    draw, falls = np.random.default_rng(0), 0
    for seed in range(10):
        problem = disc_problem(12, 800, seed=seed, data="mixed", weighting=weighting, composition="own")
        gains = all_gains(problem, price=0.5 if weighting == "B" else 0.0)
        for _ in range(100):
            order = draw.permutation(12).tolist()
            small, large = sorted(draw.integers(0, 12, 2))
            inner, outer, new = set(order[:small]), set(order[:large]), order[-1]
            first = worth(gains, inner | {new}, 12) - worth(gains, inner, 12)
            second = worth(gains, outer | {new}, 12) - worth(gains, outer, 12)
            assert first >= second - 1e-9
            falls += second < -1e-9
    assert falls > 0


@given(problems())
def test_the_drop_of_each_link_is_what_sharing_over_it_changes(problem):
    problem = with_composition(problem, "gain")
    whole = problem.skew.global_distribution
    for measure, divergence in (("emd", emd_of), ("js", lambda p, q: float(js_divergence(p, q)))):
        drops, alone = cost_drops(problem, measure), costs_alone(problem, measure)
        np.testing.assert_allclose(
            alone,
            [n * divergence(p, whole) for n, p in zip(problem.skew.sizes, problem.skew.distributions, strict=True)],
        )
        place = 0
        for leader in range(problem.num_users):
            for member in neighbours_of(problem, leader):
                expected = cost_of(problem, member, -1, divergence) - cost_of(problem, member, leader, divergence)
                assert drops[place] == pytest.approx(expected, abs=1e-9)
                place += 1


def test_the_sum_of_gains_is_the_fall_of_the_average():
    problem = with_composition(disc_problem(30, 600, seed=3, data="mixed", weighting="C"), "gain")
    clustering = cluster(problem)
    heads = set(clustering.heads.tolist())
    fall = worth(all_gains(problem), heads, 30) / problem.skew.sizes.sum()
    assert average_emd(problem.skew) - average_emd(problem.skew, clustering.after, "C") == pytest.approx(fall)
    assert average_after(problem, clustering.head_of, "emd") == pytest.approx(
        average_emd_of(problem, clustering.head_of, "C")
    )


def test_greedy_by_js_lowers_mean_js():
    for weighting in "ABC":
        problem = with_composition(disc_problem(60, 500, seed=2, data="mixed", weighting=weighting), "gain")
        found = greedy_heads(problem, "js", cost_drops(problem, "js"))
        alone = np.full(60, -1)
        assert average_after(problem, found, "js") < average_after(problem, alone, "js")


def test_a_rich_head_with_thousands_of_members_does_not_overflow():
    """Half of all data at one balanced user: its gains sum to 1e19 ticks of 1e-12 mean sizes, over 2^63."""
    users = 8000
    counts = np.zeros((users, 2))
    counts[0] = users / 2
    counts[1::2, 0] = counts[2::2, 1] = 1
    problem = table_problem(counts, [(0, user) for user in range(1, users)], rule="gain", sharing_ratio=1.0)
    assert cluster(problem).head_of.tolist() == [-1] + [0] * (users - 1)
