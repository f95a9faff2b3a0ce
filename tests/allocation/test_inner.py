"""The inner solver and the minimiser of surrogates, against CVXPY with Clarabel."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcast.allocation.inner import (
    Surrogate,
    minimise_compiled,
    minimise_sorted,
    minimise_surrogate,
    rising_root,
    upper_prices,
)
from fedcast.scenario import Allocation
from fedcast.testing.allocation import random_case

SIZES = (1, 5, 20, 100, 300, 1000)


def random_inner(clusters: int, seed: int) -> tuple[float, ...]:
    """An instance of order 1; every third has coordinates without curvature or room."""
    draw = np.random.default_rng(seed)
    rate = np.exp(draw.normal(0, 1, clusters))
    linear = draw.normal(-0.5, 1, clusters)
    curvature = np.exp(draw.normal(-1, 1, clusters))
    upper = draw.uniform(0.1, 1, clusters)
    if seed % 3 == 0:
        curvature[draw.random(clusters) < 0.3] = 0
        upper[draw.random(clusters) < 0.1] = 0
    return float(draw.uniform(0, 0.3) * clusters), rate, linear, curvature, upper


def value(x, weight, rate, linear, curvature, upper) -> float:
    return float(weight * (x / rate).max() + linear @ x + curvature @ x**2 / 2)


def by_cvxpy(weight, rate, linear, curvature, upper) -> np.ndarray:
    cp = pytest.importorskip("cvxpy")
    x = cp.Variable(len(rate))
    quadratic = cp.sum_squares(cp.multiply(np.sqrt(curvature / 2), x))
    objective = weight * cp.max(cp.multiply(1 / rate, x)) + linear @ x + quadratic
    cp.Problem(cp.Minimize(objective), [x >= 0, x <= upper]).solve(solver="CLARABEL")
    return np.clip(x.value, 0, upper)


def never_worse(solver, clusters: int, seed: int) -> None:
    instance = random_inner(clusters, seed)
    x = solver(*instance).x
    assert (x >= 0).all()
    assert (x <= instance[-1]).all()
    theirs = value(by_cvxpy(*instance), *instance)
    assert value(x, *instance) <= theirs + 1e-9 * max(abs(theirs), 1)


@pytest.mark.parametrize("solver", [minimise_sorted, minimise_compiled])
@pytest.mark.parametrize("clusters", SIZES)
def test_never_worse_than_cvxpy(solver, clusters):
    for seed in range(6):
        never_worse(solver, clusters, seed)


@pytest.mark.slow
def test_never_worse_than_cvxpy_on_three_hundred_instances():
    for seed in range(300):
        never_worse(minimise_sorted, SIZES[seed % len(SIZES)], 1000 + seed)


@given(st.integers(0, 10**6), st.integers(1, 40))
def test_sorting_and_newton_agree(seed, clusters):
    instance = random_inner(clusters, seed)
    a, b = minimise_sorted(*instance), minimise_compiled(*instance)
    np.testing.assert_allclose(a.x, b.x, rtol=1e-10, atol=1e-12)
    assert value(a.x, *instance) == pytest.approx(value(b.x, *instance), rel=1e-12, abs=1e-12)


def test_no_pull_no_sharing_and_ties_in_delay():
    ones = np.ones(3)
    assert minimise_sorted(1.0, ones, ones, ones, ones).x.tolist() == [0, 0, 0]
    # All three reach the delay 1/2 at once: w = 3 (2 - t) gives t = 2 - w/3.
    assert minimise_sorted(4.5, ones, -2 * ones, ones, ones).x.tolist() == [0.5, 0.5, 0.5]
    assert minimise_sorted(7.0, ones, -2 * ones, ones, ones).x.tolist() == [0, 0, 0]
    assert minimise_sorted(0.0, ones, -2 * ones, 0 * ones, ones).x.tolist() == [1, 1, 1]


@given(st.integers(0, 10**6))
def test_prices_of_bounds_are_what_a_wider_bound_gains(seed):
    weight, rate, linear, curvature, upper = random_inner(6, seed)
    found = minimise_sorted(weight, rate, linear, curvature, upper)
    prices = upper_prices(found, weight, rate, linear, curvature, upper, np.arange(6))
    assert (prices >= 0).all()
    # The value is convex in the bounds: along any direction the prices are a slope between those of both sides.
    direction = np.random.default_rng(seed + 1).uniform(0, 1, 6)
    step = 1e-6
    values = (
        [
            value(
                minimise_sorted(weight, rate, linear, curvature, upper + e * direction).x,
                weight,
                rate,
                linear,
                curvature,
                0,
            )
            for e in (-step, 0, step)
        ]
        if (upper > 2 * step).all()
        else None
    )
    if values:
        before, after = (values[0] - values[1]) / step, (values[1] - values[2]) / step
        assert after - 1e-5 <= prices @ direction <= before + 1e-5


@pytest.mark.parametrize("regime", ["energy", "mixed", "frequency"])
@pytest.mark.parametrize("max_asr", [None, 0.05])
def test_a_surrogate_with_the_delay_of_a_round_against_cvxpy(regime, max_asr):
    cp = pytest.importorskip("cvxpy")
    for seed in range(3):
        problem = random_case(seed, regime).problem(Allocation(max_sharing_ratio=1.0, max_asr=max_asr))
        feasible, delay = problem.feasible, problem.feasible.delay
        draw = np.random.default_rng(seed)
        pull = -draw.uniform(0, 60, problem.num_clusters)
        surrogate = Surrogate(1.0, 80.0, pull, np.full(problem.num_clusters, 5.0))
        ours = minimise_surrogate(surrogate, feasible)
        x, round_s = cp.Variable(problem.num_clusters), cp.Variable()
        samples = delay.sizes + cp.multiply(feasible.sizes, x)[delay.cluster]
        unit = 600.0
        constraints = [x >= 0, x <= feasible.upper, round_s >= delay.floor_s, feasible.leak @ x <= (max_asr or 1)]
        if len(delay.cluster):
            constraints += [round_s >= delay.offset_s + cp.multiply(delay.linear_s, samples)]
            energy = cp.multiply(delay.energy_s * unit**1.5, cp.power(samples / unit, 1.5))
            constraints += [round_s >= delay.offset_s + energy]
        sharing_s = cp.max(cp.multiply(1 / feasible.rate, x))
        objective = sharing_s + 80 * round_s + pull @ x + 2.5 * cp.sum_squares(x)
        cp.Problem(cp.Minimize(objective), constraints).solve(solver="CLARABEL")

        def cost(point, pull=pull, feasible=feasible, delay=delay):
            quadratic = 2.5 * point @ point
            return (point / feasible.rate).max() + 80 * delay.at(point * feasible.sizes) + pull @ point + quadratic

        theirs = feasible.scaled_to_limit(np.clip(x.value, 0, feasible.upper))
        assert cost(ours) <= cost(theirs) + 1e-7 * abs(cost(theirs))
        assert feasible.leak @ ours <= (max_asr or 1) + 1e-12


@pytest.mark.parametrize("guess", [None, -1.0, 0.0, 0.2, 0.3 * (1 + 5e-11), 0.30001, 0.9, 2.0])
def test_roots_of_steps_and_curves(guess):
    def root_and_calls(function):
        places = []
        root = rising_root(lambda x: places.append(x) or function(x), 0.0, 1.0, guess)
        assert root in places
        assert all(0 <= place <= 1 for place in places)
        return root, len(places)

    for function, root in [
        (lambda x: -1.0 if x < 0.3 else 5.0, 0.3),
        (lambda x: 1e9 * (x - 0.3) if x < 0.3 else 1e-3, 0.3),
        (lambda x: x**9 - 0.3**9, 0.3),
        (lambda x: x**9 - 0.5, 0.5 ** (1 / 9)),
        (lambda x: x + 1, 0.0),
        (lambda x: x - 2, 1.0),
    ]:
        found, calls = root_and_calls(function)
        assert found == pytest.approx(root, rel=1e-9)
        # Bisection takes 34 calls from 0 to 1; a bracket around a guess grows in at most 7 more.
        assert calls <= 45
    if guess == 0.3 * (1 + 5e-11):
        assert root_and_calls(lambda x: -1.0 if x < 0.3 else 5.0)[1] <= 4
