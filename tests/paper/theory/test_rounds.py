"""Rounds to a target, their curve and the best step size against search by plain loops and SciPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from fedcast.errors import FedcastError
from fedcast_paper.theory import Form, best_step_size, convergence_bound, rounds_curve, rounds_needed, step_size_limit
from tests.paper.theory.worlds import FORMS, plain


@given(st.floats(0.02, 50), st.sampled_from(FORMS), st.sampled_from([0.0, 0.3, 1.0]), st.integers(1, 8))
@settings(max_examples=80)
def test_rounds_needed_is_the_first_that_does(target: float, form: Form, skew: float, steps: int) -> None:
    setting = plain(divergences=[skew] * 4, local_steps=steps, gradient_variance=0.1)
    totals = [convergence_bound(setting, rounds, form).total for rounds in range(1, 1001)]
    enough = np.flatnonzero(np.array(totals) <= target)
    if len(enough):
        assert rounds_needed(setting, target, form) == enough[0] + 1
    elif convergence_bound(setting, 10**15, form).total > target:
        with pytest.raises(FedcastError, match="target"):
            rounds_needed(setting, target, form)
    else:
        assert rounds_needed(setting, target, form) > 1000


@pytest.mark.parametrize("form", FORMS)
def test_rounds_needed_is_not_one_too_many_by_rounding(form: Form) -> None:
    setting = plain()
    reached = [rounds_needed(setting, convergence_bound(setting, rounds, form).total, form) for rounds in range(1, 200)]
    assert reached == list(range(1, 200))


@pytest.mark.parametrize("form", FORMS)
def test_rounds_curve_follows_the_bound(form: Form) -> None:
    target = convergence_bound(plain(divergences=[1.5] * 3), 1, form).floor  # out of reach from D = 1.5 on
    curve = rounds_curve(plain(), target, form)
    times = 3 if form == "printed" else 1
    assert curve.beta == pytest.approx(times * 1.5**2)
    for skew in (0.0, 0.4, 1.2, 1.49):
        setting = plain(divergences=[skew] * 3)
        assert np.ceil(curve.rounds(times * skew**2)) == rounds_needed(setting, target, form)
    with pytest.raises(FedcastError, match="smaller step"):
        rounds_needed(plain(divergences=[1.51] * 3), target, form)
    with pytest.raises(FedcastError, match="skew_square"):
        curve.rounds(curve.beta)
    with pytest.raises(FedcastError, match="target"):
        rounds_curve(plain(), 1e-6, form)


@given(st.floats(1e-3, 10), st.sampled_from(FORMS), st.floats(0, 2), st.sampled_from([0.0, 0.5, 2.0]))
@settings(max_examples=80)
def test_best_step_size_against_scipy(target: float, form: Form, skew: float, variance: float) -> None:
    setting = plain(divergences=[skew] * 3, gradient_variance=variance)
    limit = step_size_limit(2.0, form)

    def speed(eta: float) -> float:
        bound = convergence_bound(replace(setting, step_size=eta), 1, form)
        return -(target - bound.floor) / bound.start

    found = minimize_scalar(speed, bounds=(0, limit), method="bounded", options={"xatol": 1e-12})
    best = best_step_size(setting, target, form)
    assert 0 < best <= limit
    assert speed(best) <= found.fun + 1e-9 * abs(found.fun)
    assert rounds_needed(replace(setting, step_size=best), target, form) >= 1


def test_at_the_best_step_rounds_have_no_pole() -> None:
    """Ten times the skew costs about ten times the rounds, where a fixed step size ends."""
    small, large = (plain(divergences=[d] * 3, gradient_variance=0.0) for d in (0.15, 1.5))
    few, many = (rounds_needed(replace(p, step_size=best_step_size(p, 1e-3)), 1e-3) for p in (small, large))
    assert many / few == pytest.approx(10, rel=0.01)
    with pytest.raises(FedcastError, match="smaller step"):
        rounds_needed(replace(large, step_size=best_step_size(small, 1e-3)), 1e-3)
