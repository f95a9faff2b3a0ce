"""Theorem 2 against FedAvg: it follows from the lemmas and holds, where the printed one does not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcast.errors import FedcastError
from fedcast_paper.theory import (
    Form,
    convergence_bound,
    mean_drift_bound,
    one_round_bound,
    pair_drift_bound,
    rounds_curve,
    step_size_limit,
    user_drift_bound,
)
from tests.paper.theory.worlds import FORMS, SLACK, TRUE_FORMS, Pull, fedavg, plain, pulls


@given(pulls(), st.floats(0.01, 1))
@settings(max_examples=150)
def test_convergence_bound_holds(case, part: float) -> None:
    pull, start, noisy, steps, rounds = case
    for form in TRUE_FORMS:
        eta = part * step_size_limit(pull.smoothness, form)
        setting = pull.setting(start, eta, steps, noisy)
        excess = np.mean([course.excess for course in fedavg(pull, start, eta, steps, rounds, noisy)])
        total = convergence_bound(setting, rounds, form).total
        assert excess <= total * (1 + SLACK) + SLACK
        if form == "corrected" and pull.equal_users:  # the printed theorem is true but for A in place of A²
            printed = convergence_bound(setting, rounds, "printed")
            assert excess <= printed.floor + convergence_bound(setting, rounds).start + SLACK * (1 + total)


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_theorem_is_lemma_1_with_lemma_2_telescoped(steps: int) -> None:
    setting = plain(local_steps=steps, weights=[0.5, 0.3, 0.2])
    eta, square = setting.step_size, setting.weights @ setting.divergences**2
    kept = 1 - (setting.weights**2).sum()
    separated = [2 * eta**2 * (i**2 * 1.5**2 * square + i * 0.5 * kept) for i in range(steps + 1)]
    drifts = {"corrected": np.full(steps + 1, mean_drift_bound(setting)), "sharp": np.array(separated)}
    assert all(mean_drift_bound(setting, i, "sharp") <= separated[i] * (1 + 1e-12) for i in range(steps + 1))
    for form in TRUE_FORMS:
        table = np.repeat(drifts[form][:, None], 3, axis=1)
        rest = one_round_bound(setting, table, 0.0, 0.0, form)
        for rounds in (1, 10):
            expected = rest + setting.initial_distance**2 / (2 * eta * steps * rounds)
            assert convergence_bound(setting, rounds, form).total == pytest.approx(expected, rel=1e-12)


@given(pulls(), st.floats(0.01, 1), st.integers(1, 100))
@settings(max_examples=100)
def test_sharp_is_never_above_corrected(case, part: float, rounds: int) -> None:
    pull, start, noisy, steps, _ = case
    setting = pull.setting(start, part * step_size_limit(pull.smoothness), steps, noisy)
    corrected, sharp = (convergence_bound(setting, rounds, form) for form in TRUE_FORMS)
    assert sharp.total <= corrected.total * (1 + SLACK)
    assert mean_drift_bound(setting, form="sharp") <= mean_drift_bound(setting) * (1 + SLACK)
    assert (user_drift_bound(setting, form="sharp") <= user_drift_bound(setting) * (1 + SLACK) + 1e-12).all()
    assert pair_drift_bound(setting, 0, 1, form="sharp") <= pair_drift_bound(setting, 0, 1) * (1 + SLACK)


def test_one_local_step_has_no_drift() -> None:
    bound = convergence_bound(plain(local_steps=1), 10, "sharp")
    assert bound.skew_drift == bound.noise_drift == 0
    with pytest.raises(FedcastError, match="local_steps"):
        rounds_curve(plain(local_steps=1), 1.0, "sharp")


def test_more_users_of_the_same_skew_never_hurt_once_corrected() -> None:
    totals = {
        form: [convergence_bound(plain(divergences=np.ones(k)), 100, form).total for k in (2, 8, 32, 128)]
        for form in FORMS
    }
    assert all(np.diff(totals["corrected"]) < 0)
    assert all(np.diff(totals["sharp"]) < 0)
    assert all(np.diff(totals["printed"]) > 0)


@pytest.mark.parametrize("form", FORMS)
def test_units(form: Form) -> None:
    """Loss in other units, then weights in other units: the same run, so a true bound follows. The printed does not."""
    pull = Pull(1.0, 3.0, np.array([-2.0, 2.0]), np.array([[0.9, 0.1], [0.2, 0.8]]), np.full(2, 0.5))
    setting = pull.setting(5.0, 0.2, 3)
    total = convergence_bound(setting, 10, form).total
    loss10 = replace(
        setting,
        smoothness=10 * setting.smoothness,
        gradient_bound=10 * setting.gradient_bound,
        gradient_variance=100 * setting.gradient_variance,
        step_size=setting.step_size / 10,
    )
    weights10 = replace(
        setting,
        smoothness=setting.smoothness / 100,
        gradient_bound=setting.gradient_bound / 10,
        gradient_variance=setting.gradient_variance / 100,
        step_size=setting.step_size * 100,
        initial_distance=setting.initial_distance * 10,
    )
    consistent = np.allclose(
        [convergence_bound(loss10, 10, form).total, convergence_bound(weights10, 10, form).total], [10 * total, total]
    )
    assert consistent == (form != "printed")


def test_printed_theorem_is_printed() -> None:
    """Term by term, with the numbers put into the paper's formula by hand."""
    bound = convergence_bound(plain(), 10, "printed")
    mean = (1 + 0.5 + 0.7) / 3
    assert bound.start == pytest.approx(3 / (2 * 0.01 * 5 * 10))
    assert bound.noise == pytest.approx(0.01 * 0.5 / 3)
    drift = 2 * 3 * 2 * 25 * 1e-4 * mean**2 * 1.5**2 + 6 * 3 * 2 * 5 * 1e-4 * mean**2
    assert bound.skew_drift == pytest.approx(drift)
    assert bound.noise_drift == pytest.approx(4 * 2 * 5 * 1e-4 * 0.5)
    assert user_drift_bound(plain(), form="printed")[1] == pytest.approx(
        2 * 25 * 1e-4 * 0.25 * 2.25 + 6 * 5 * 1e-4 * 0.25 + 4 * 5 * 1e-4 * 0.5
    )


def test_printed_theorem_is_violated_far_from_the_optimum() -> None:
    """A in place of A²: plain descent on a slope, no skew and no noise, 100 away from its foot."""
    pull = Pull(1.0, 1.0, np.array([0.0, 0.0]), np.full((2, 2), 0.5), np.full(2, 0.5))
    setting = pull.setting(100.0, 0.25, 5, noisy=False)
    excess = np.mean([course.excess for course in fedavg(pull, 100.0, 0.25, 5, 10, noisy=False)])
    assert excess == pytest.approx(93.1, abs=0.1)
    assert convergence_bound(setting, 10, "printed").total == pytest.approx(4.0)
    assert convergence_bound(setting, 10).total == pytest.approx(400.0)


def test_printed_sign_climbs_and_breaks_every_bound() -> None:
    """The printed local update adds the gradient; the loss then grows past all bounds."""
    pull = Pull(1.0, 1.0, np.array([-1.0, 1.0]), np.array([[1.0, 0], [0, 1]]), np.full(2, 0.5))
    setting = pull.setting(3.0, 0.05, 5, noisy=False)
    up, down = (
        np.mean([course.excess for course in fedavg(pull, 3.0, 0.05, 5, 40, noisy=False, sign=sign)])
        for sign in (1.0, -1.0)
    )
    bounds = [convergence_bound(setting, 40, form).total for form in FORMS]
    assert up > max(bounds)
    assert down <= min(bounds[1:])


def test_beyond_the_step_size_condition_the_bound_is_false() -> None:
    """The condition is no formality: past 2/L plain descent diverges, past every bound."""
    pull = Pull(1.0, 1e6, np.array([0.0, 0.0]), np.full((1, 2), 0.5), np.ones(1))
    excess = np.mean([course.excess for course in fedavg(pull, 1.0, 2.5, 5, 4, noisy=False)])
    assert excess > 1.0 / (2 * 2.5 * 5 * 4)
