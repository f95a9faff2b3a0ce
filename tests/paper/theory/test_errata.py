"""The slips of the printed proof against brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fedcast_paper.theory import divergences_of, slips
from tests.paper.theory.worlds import Pull, plain


def test_slips_against_brute_force() -> None:
    pull = Pull(1.0, 5.0, np.array([-20.0, 20.0]), np.array([[1.0, 0], [0, 1], [0.5, 0.5]]), np.full(3, 1 / 3))
    setting = replace(pull.setting(0.0, 0.1, 2, noisy=False), initial_distance=4.0)
    start, eq_b, eq_c, alone, spread = slips(setting, rounds=10)
    r = np.linspace(0, 50, 500_001)
    needed = np.max(2 * setting.gradient_bound * r - r**2 / (2 * 0.1 * 2))  # D₁ + D₂ = 2
    assert eq_b.corrected == pytest.approx(needed, rel=1e-9)
    assert eq_b.printed == pytest.approx(2 * 0.1 * 2 * (1 + 1) * 5.0)  # as the paper has it
    assert eq_b.printed < needed
    at_zero = (pull.class_gradients(np.zeros(1)) @ pull.distributions.T).ravel()
    assert eq_c.printed < (at_zero[0] - at_zero[1]) ** 2 <= eq_c.corrected
    assert (start.printed, start.corrected) == pytest.approx((4 / 4 / 1.0, 16 / 4 / 1.0))
    assert alone.printed == 0 < alone.corrected
    assert spread.corrected == pytest.approx(np.mean([1, 1, 0]))
    assert spread.printed == pytest.approx(3 * np.mean([1, 1, 0]) ** 2)


def test_slips_of_a_single_user() -> None:
    setting = plain(divergences=[0.0])
    assert [slip.corrected for slip in slips(setting, 10)][1:] == [0, 0, 0, 0]


@given(st.integers(2, 12), st.integers(2, 5), st.integers(0, 10_000))
def test_k_times_the_squared_mean_is_between_two_and_k_times_too_much(users: int, classes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    skew = divergences_of(rng.dirichlet(np.full(classes, 0.2), users))
    assume(skew.max() > 1e-6)
    ratio = users * skew.mean() ** 2 / (skew**2).mean()
    assert 2 - 1e-9 <= ratio <= users + 1e-9


def test_ends_of_that_range_are_reached() -> None:
    pair = divergences_of([[1, 0], [0, 1], *[[0.5, 0.5]] * 8])  # two opposite users among balanced ones
    alike = divergences_of(np.eye(10))
    for skew, ratio in ((pair, 2), (alike, 10)):
        row = slips(plain(divergences=skew), 10)[-1]
        assert row.printed / row.corrected == pytest.approx(ratio)
