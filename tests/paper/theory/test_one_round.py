"""Lemma 1 against FedAvg: it holds, and cannot be much better."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcast_paper.theory import one_round_bound, step_size_limit
from tests.paper.theory.worlds import FORMS, SLACK, Pull, fedavg, forms_for, plain, pulls


@given(pulls(), st.floats(0.01, 1))
@settings(max_examples=150)
def test_one_round_bound_holds(case, part: float) -> None:
    pull, start, noisy, steps, rounds = case
    for form in forms_for(pull):
        eta = part * step_size_limit(pull.smoothness, form)
        setting = pull.setting(start, eta, steps, noisy)
        for course in fedavg(pull, start, eta, steps, rounds, noisy):
            bound = one_round_bound(setting, course.drift, course.start2**0.5, course.end2**0.5, form)
            assert course.excess.mean() <= bound + SLACK * (1 + abs(bound) + course.start2 / eta)


def test_one_round_bound_is_attained_by_a_linear_loss() -> None:
    """On a slope without end (no curvature, no noise) Lemma 1 is Δ‖w − w*‖²/(2ηE) up to the step's own square."""
    pull = Pull(0.001, 1.0, np.array([0.0, 0.0]), np.array([[0.5, 0.5]]), np.ones(1))
    setting = pull.setting(1e6, 0.01, 5, noisy=False)
    (course,) = fedavg(pull, 1e6, 0.01, 5, 1, noisy=False)
    closer = (course.start2 - course.end2) / (2 * 0.01 * 5)
    bound = one_round_bound(setting, course.drift, course.start2**0.5, course.end2**0.5)
    assert bound == pytest.approx(closer, rel=1e-9)
    assert course.excess.mean() == pytest.approx(bound, rel=2e-3)


@pytest.mark.parametrize("part", [0.1, 0.5, 1.0])
def test_sharp_one_round_bound_is_attained_by_noise_at_the_optimum(part: float) -> None:
    pull = Pull(2.0, 100.0, np.array([-1.0, 1.0]), np.full((1, 2), 0.5), np.ones(1))  # a parabola, one user
    eta = part * step_size_limit(2.0, "sharp")
    setting = pull.setting(0.0, eta, 1)
    (course,) = fedavg(pull, 0.0, eta, 1, 1, noisy=True)
    bound = one_round_bound(setting, course.drift, course.start2**0.5, course.end2**0.5, "sharp")
    assert course.excess.mean() == pytest.approx(bound, rel=1e-6)


def test_printed_one_round_bound_counts_the_last_step_and_not_the_first() -> None:
    setting = plain(gradient_variance=0.0)
    first, last = np.zeros((6, 3)), np.zeros((6, 3))
    first[0] = last[-1] = 1.0
    weighted = {form: [one_round_bound(setting, rows, 1.0, 1.0, form) for rows in (first, last)] for form in FORMS}
    assert weighted["printed"] == pytest.approx([0, 2.0 / 5])
    assert weighted["corrected"] == pytest.approx([2.0 / 5, 0])
    assert weighted["sharp"] == pytest.approx([1.0 / 5, 0])
