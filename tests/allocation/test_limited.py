"""The oracle under a limit on the average sharing ratio, against brute force."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcast.allocation import METHODS, allocate
from fedcast.allocation.oracle import full_window, grid_in, least_within_budget, oracle, skew_lower_bound
from fedcast.allocation.oracle.cost_table import CostTable, cluster_table
from fedcast.clustering import Clustering
from fedcast.clustering.sample_problems import table_problem
from fedcast.scenario import Allocation
from fedcast.testing.allocation import BITS_PER_SAMPLE, REGIMES, AllocationCase, fleet_at, random_case

FREE = Allocation(max_sharing_ratio=1.0)
HEAD_OF = np.array([-1, 0, 0, -1, 3, -1, 5, 5])


def three_heads(seed: int, weighting: str, composition: str, regime: str) -> AllocationCase:
    """Heads of unequal size and rate, with two, one and two members."""
    draw = np.random.default_rng(seed)
    mixes = [draw.dirichlet(np.full(5, concentration)) for concentration in (3, 0.3, 0.3, 3, 0.3, 1, 0.3, 0.3)]
    counts = np.stack([draw.multinomial(draw.integers(200, 900), mix) for mix in mixes])
    links = [(0, 1), (0, 2), (3, 4), (5, 6), (5, 7)]
    problem = table_problem(counts, links, weighting=weighting, composition=composition)
    rate = np.array([np.nan, 8e5, 8e5, np.nan, 2e6, np.nan, 5e5, 5e5])
    fleet = fleet_at(draw.uniform(-500, 500, (8, 2)), *REGIMES[regime])
    return replace(random_case(0), clustering=Clustering(problem, HEAD_OF), fleet=fleet, rate_bps=rate)


def best_on_a_grid(problem, points: int, last: int) -> float:
    """The least delay of many ratios within the limit: the first two on a grid, the third up to what is left."""
    feasible, delays = problem.feasible, []
    for first, second in itertools.product(np.linspace(0, 1, points), repeat=2):
        x = np.array([first, second, 0.0]) * feasible.upper
        left = feasible.max_leak - feasible.leak @ x
        for part in np.linspace(0, 1, last) if left >= 0 else ():
            x[2] = part * min(feasible.upper[2], left / feasible.leak[2])
            delays.append(problem.objective_s(problem.at(x)))
    return min(delays)


def limited(world: AllocationCase, share: float):
    """The problem with a limit of so much of what the optimum without one leaks; None: nothing is shared."""
    free = world.problem(FREE, beta_samples=10)
    leak = float(free.feasible.leak @ oracle(free).x)
    return world.problem(with_limit(share * leak), beta_samples=10) if leak > 1e-6 else None


def with_limit(limit: float) -> Allocation:
    return FREE.model_copy(update={"max_asr": limit})


def check_against_a_grid(seed: int, weighting: str, composition: str, share: float, regimes=tuple(REGIMES)) -> None:
    for regime in regimes:
        problem = limited(three_heads(seed, weighting, composition, regime), share)
        if problem is None:
            continue
        found = oracle(problem).x
        value = problem.objective_s(problem.at(found))
        assert (found >= 0).all()
        assert (found <= problem.feasible.upper).all()
        assert problem.feasible.leak @ found <= problem.feasible.max_leak * (1 + 1e-9)
        assert value <= best_on_a_grid(problem, 17, 9) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("weighting", "composition", "regime"),
    [
        ("A", "own", "energy"), ("B", "own", "mixed"), ("C", "own", "frequency"),
        ("A", "balanced", "mixed"), ("B", "balanced", "frequency"), ("C", "balanced", "energy"),
    ],
)  # fmt: skip
def test_the_oracle_within_a_limit_against_brute_force(weighting, composition, regime):
    check_against_a_grid(seed=2, weighting=weighting, composition=composition, share=0.5, regimes=[regime])


@pytest.mark.slow
@pytest.mark.parametrize("weighting", ["A", "B", "C"])
@pytest.mark.parametrize("composition", ["own", "balanced"])
@pytest.mark.parametrize("share", [0.15, 0.4, 0.7])
def test_the_oracle_within_a_limit_against_brute_force_on_many_worlds(weighting, composition, share):
    for seed in range(3, 8):
        check_against_a_grid(seed, weighting, composition, share)


@given(st.integers(0, 10**6), st.booleans())
def test_a_budget_is_spent_as_brute_force_would(seed, fractional):
    draw = np.random.default_rng(seed)
    parts, clusters = 12, 3
    caps, leaks = draw.uniform(0, 9, clusters), draw.uniform(0.5, 2, clusters)
    volumes = np.linspace(0, caps, 7)
    costs = draw.uniform(5, 10, (7, clusters))
    table = CostTable(volumes, costs, draw.integers(1, 4, clusters).astype(float), 4.0, 20.0, fractional)
    budget = 0.6 * float(leaks @ caps)
    found = least_within_budget(table, caps, leaks, budget, 0.5, parts)
    used, tried = np.ceil(found * leaks * parts / budget - 1e-9).sum(), []
    assert used <= parts
    assert (found <= caps).all()
    for levels in itertools.product(range(parts + 1), repeat=clusters):
        if sum(levels) <= parts:
            at = np.minimum(np.array(levels) * budget / (parts * leaks), caps)
            cost = sum(np.interp(at[m], volumes[:, m], costs[:, m]) for m in range(clusters))
            tried.append((4.0 + cost) / (20.0 + (table.members @ at if fractional else 0.0)))
    assert table.average(found) == pytest.approx(min(tried), rel=1e-12)


@pytest.mark.parametrize("weighting", ["A", "B", "C"])
@pytest.mark.parametrize("composition", ["own", "balanced"])
def test_prices_bound_the_skew_within_the_limit(weighting, composition):
    problem = limited(three_heads(1, weighting, composition, "mixed"), 0.4)
    if problem is None:
        pytest.skip("nothing is worth sharing")
    delays = grid_in(problem, full_window(problem), 7)
    bounds = skew_lower_bound(problem, cluster_table(problem, 257), delays)
    assert (np.diff(bounds, axis=0) <= 1e-9).all()
    leaks, draw = problem.feasible.leak / problem.feasible.sizes, np.random.default_rng(0)
    for i, j in itertools.product(range(len(delays.sharing)), range(len(delays.round))):
        for _ in range(30):
            volumes = draw.uniform(0, 1, 3) * delays.caps(i, j)
            volumes *= min(1.0, problem.feasible.max_leak / max(leaks @ volumes, 1e-300))
            assert problem.averages.at(volumes).skew >= bounds[i, j] - 1e-4


def test_a_limit_that_does_not_bind_changes_nothing_and_none_at_all_shares_nothing():
    world = random_case(6, "mixed")
    free = world.problem(FREE)
    optimum = oracle(free).x
    loose = float(free.feasible.leak @ optimum) * 1.01
    assert oracle(world.problem(with_limit(loose))).x.tolist() == optimum.tolist()
    assert not oracle(world.problem(with_limit(0.0))).x.any()


@pytest.mark.parametrize(("weighting", "rule"), [("B", "gain"), ("C", "daca")])
def test_the_gap_is_reported_within_a_limit_too(weighting, rule):
    world = random_case(6, "mixed", weighting=weighting, rule=rule)
    options = {"bits_per_sample": BITS_PER_SAMPLE, "rate_bps": world.rate_bps}
    settings = Allocation(max_sharing_ratio=1.0, max_asr=0.05)
    result = allocate(world.clustering, world.fleet, world.model, settings, with_gap=True, **options)
    assert result.gap is not None
    assert -1e-6 < result.gap < 0.001
    fixed = settings.model_copy(update={"method": "fixed", "tables": {"fixed": {"ratio": 0.02}}})
    worse = allocate(world.clustering, world.fleet, world.model, fixed, with_gap=True, **options)
    assert worse.gap is not None
    assert worse.gap > 0.01
    problem = world.problem(settings)
    best = problem.objective_s(problem.at(METHODS["oracle"](problem).x))
    assert worse.gap == pytest.approx(worse.relaxed_objective_s / best - 1)
