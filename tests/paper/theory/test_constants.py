"""The constants that a problem is made of, above all D_k, for which ‖∇F_k − ∇F‖ ≤ D_k G."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from fedcast.data import skew as heterogeneity
from fedcast_paper.theory import RoundsCurve, divergences_of, local_steps
from tests.paper.theory.worlds import SLACK, Pull, plain, pulls


@given(pulls())
@settings(max_examples=60)
def test_gradients_of_users_differ_by_no_more_than_d_times_g(case) -> None:
    pull, *_ = case
    w = np.linspace(-20, 20, 201)
    per_user = pull.class_gradients(w) @ pull.distributions.T
    gap = np.abs(per_user - (per_user @ pull.weights)[:, None])
    limit = divergences_of(pull.distributions, pull.weights) * pull.slope
    assert (gap <= limit + SLACK).all()
    if 2 * pull.slope <= pull.smoothness * np.ptp(pull.centres):  # there is a w where the classes pull at ±G
        np.testing.assert_allclose(gap[100], limit, atol=1e-9)


def test_after_sharing_the_mixture_counts_and_not_the_one_before() -> None:
    before = heterogeneity.skew_of([[8, 0], [0, 8], [4, 4]])
    after = heterogeneity.mix_distributions(before, [-1, 0, -1], [8, 0, 0])
    weights = after.sizes / after.sizes.sum()
    exact = divergences_of(after.distributions, weights)
    pull = Pull(1.0, 1.0, np.array([-5.0, 5.0]), after.distributions, weights)
    per_user = pull.class_gradients(np.zeros(1)) @ after.distributions.T
    gap = np.abs(per_user - per_user @ weights).ravel()
    np.testing.assert_allclose(gap, exact * pull.slope, atol=1e-12)
    assert after.emd[2] == 0
    assert gap[2] == pytest.approx(0.25)  # D_EMD times G says 0
    assert (np.abs(exact - after.emd) <= heterogeneity.distribution_shift(after) + 1e-12).all()


def test_local_steps_counts_the_last_short_batch() -> None:
    counted = sum(len(range(0, 61, 10)) for _ in range(3))
    assert local_steps(epochs=3, samples=61, batch_size=10) == counted


def test_problem_is_frozen() -> None:
    setting = plain()
    with pytest.raises(ValueError, match="read-only"):
        setting.divergences[0] = 0.0
    assert RoundsCurve(1.0, 1.0) == RoundsCurve(1.0, 1.0)


def test_rows_of_single_precision_and_users_that_hold_and_weigh_nothing() -> None:
    rows = np.random.default_rng(0).dirichlet(np.full(10, 0.1), 50).astype(np.float32)
    assert divergences_of(rows) == pytest.approx(divergences_of(rows.astype(np.float64)))
    assert divergences_of([[1, 0], [0, 1], [0, 0]], [0.5, 0.5, 0.0]).tolist() == [1.0, 1.0, 1.0]
