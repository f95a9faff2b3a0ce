"""Noisy class counts against the formula of the discrete Laplace distribution, and what a plan sees of them."""

import numpy as np
import pytest

from fedcast.data import noisy_counts
from fedcast.data.counts_noise import counts_of_size
from fedcast.errors import ScenarioError
from fedcast.plan import make_plan, make_world
from fedcast.scenario import load_scenario

# Counts alone, as from a table; no samples.
TABLE = ("data.dataset=synthetic", "data.num_users=40", "clustering.rule=daca")


def scenario_of(*overrides):
    return load_scenario(base="default", overrides=[*TABLE, *overrides])


def test_noise_is_discrete_laplace(monkeypatch):
    """P(k) = (1 − q)/(1 + q)·q^abs(k) with q = exp(−ε/2), before counts are made to add up."""
    monkeypatch.setattr("fedcast.data.counts_noise.counts_of_size", lambda noisy, sizes: noisy)
    users, epsilon = 20_000, 1.2
    drawn = noisy_counts(np.full((users, 2), 1000), epsilon, seed=3) - 1000
    q = np.exp(-epsilon / 2)
    for k in range(-4, 5):
        expected = (1 - q) / (1 + q) * q ** abs(k)
        assert (drawn == k).mean() == pytest.approx(expected, abs=5 * (expected / drawn.size) ** 0.5)
    assert abs(np.corrcoef(drawn.T)[0, 1]) < 0.03
    few = noisy_counts(np.full((7, 2), 1000), epsilon, seed=3) - 1000
    assert np.array_equal(few, drawn[:7]), "more users change nothing for the others"


def test_counts_add_up_and_are_not_negative():
    counts = np.array([[50, 0, 10], [0, 0, 0], [1, 0, 0], [200, 300, 100]])
    for seed in range(20):
        noisy = noisy_counts(counts, 0.3, seed)
        assert noisy.sum(axis=1).tolist() == counts.sum(axis=1).tolist()
        assert (noisy >= 0).all()
    assert counts_of_size(np.array([-3, -1, 0]), 6).tolist() == [2, 2, 2], "nothing is left of the counts"


def test_the_planner_sees_noisy_counts_and_the_samples_stay():
    exact, noisy = make_world(scenario_of()), make_world(scenario_of("data.counts_epsilon=0.5"))
    assert np.array_equal(exact.population.counts, noisy.population.counts)
    assert np.array_equal(exact.skew.sizes, noisy.skew.sizes)
    assert np.abs(exact.skew.distributions - noisy.skew.distributions).max() > 0.01
    assert np.array_equal(np.rint(noisy.seen_counts), noisy_counts(exact.population.counts, 0.5, 0))
    almost = make_plan(scenario_of("data.counts_epsilon=60"), with_curve=False)
    assert almost.head_of.tolist() == make_plan(scenario_of(), with_curve=False).head_of.tolist()
    other = make_plan(scenario_of("data.counts_epsilon=0.05"), with_curve=False)
    assert other.head_of.tolist() != almost.head_of.tolist()


@pytest.mark.parametrize("value", ["0", "-1", "nan"])
def test_epsilon_of_zero_is_an_error(value):
    with pytest.raises(ScenarioError, match=r"data\.counts_epsilon"):
        scenario_of(f"data.counts_epsilon={value}")


def test_other_descriptors_have_no_noise():
    with pytest.raises(ScenarioError, match="descriptor = classes"):
        load_scenario(base="digits", overrides=["data.descriptor=values", "data.counts_epsilon=1"])
