"""Invalid arguments of the bounds."""

from __future__ import annotations

import numpy as np
import pytest

from fedcast.errors import FedcastError
from fedcast_paper.theory import (
    Form,
    best_step_size,
    convergence_bound,
    divergences_of,
    local_steps,
    mean_drift_bound,
    one_round_bound,
    pair_drift_bound,
    rounds_curve,
    rounds_needed,
    step_size_limit,
    user_drift_bound,
)
from tests.paper.theory.worlds import FORMS, plain


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"smoothness": 0.0}, "invalid value 0.0 for smoothness"),
        ({"smoothness": float("nan")}, "invalid value nan for smoothness"),
        ({"gradient_bound": -1.0}, "gradient_bound"),
        ({"gradient_variance": 2.3}, "gradient_bound²"),
        ({"gradient_variance": -0.1}, "gradient_variance"),
        ({"step_size": float("inf")}, "step_size"),
        ({"local_steps": 0}, "local_steps"),
        ({"local_steps": 2.5}, "local_steps"),
        ({"initial_distance": -1.0}, "initial_distance"),
        ({"divergences": [0.1, 2.1]}, "user 1"),
        ({"divergences": [float("nan")]}, "user 0"),
        ({"divergences": []}, "at least one user"),
        ({"divergences": [[1.0]]}, "one number per user"),
        ({"weights": [0.5, 0.5]}, "one number per user"),
        ({"weights": [0.5, 0.5, 0.5]}, "1.5"),
        ({"weights": [1.5, -0.5, 0.0]}, "user 1"),
    ],
)
def test_invalid_constants(changes: dict, message: str) -> None:
    with pytest.raises(FedcastError, match=message):
        plain(**changes)


@pytest.mark.parametrize("form", FORMS)
def test_step_size_condition(form: Form) -> None:
    limit = step_size_limit(2.0, form)
    assert convergence_bound(plain(step_size=limit), 1, form).total > 0
    wrong = plain(step_size=limit * 1.001)
    calls = (
        lambda: convergence_bound(wrong, 1, form),
        lambda: one_round_bound(wrong, np.zeros((6, 3)), 1.0, 1.0, form),
        lambda: pair_drift_bound(wrong, 0, 1, form=form),
        lambda: user_drift_bound(wrong, form=form),
        lambda: mean_drift_bound(wrong, form=form),
        lambda: rounds_needed(wrong, 100.0, form),
        lambda: rounds_curve(wrong, 100.0, form),
    )
    for call in calls:
        with pytest.raises(FedcastError, match="smaller step"):
            call()


def test_other_invalid_arguments() -> None:
    setting = plain()
    uneven = plain(weights=[0.5, 0.3, 0.2])
    with pytest.raises(FedcastError, match="equal weight"):
        convergence_bound(uneven, 1, "printed")
    with pytest.raises(FedcastError, match="equal weight"):
        best_step_size(uneven, 1.0, "printed")
    with pytest.raises(FedcastError, match="invalid value 'exact' for form"):
        step_size_limit(1.0, "exact")  # type: ignore[arg-type]
    with pytest.raises(FedcastError, match="rounds"):
        convergence_bound(setting, 0)
    with pytest.raises(FedcastError, match="invalid value 6 for step"):
        mean_drift_bound(setting, 6)
    with pytest.raises(FedcastError, match=r"\[E \+ 1, K\]"):
        one_round_bound(setting, np.zeros((5, 3)), 1.0, 1.0)
    with pytest.raises(FedcastError, match="target"):
        best_step_size(setting, 0.0)
    with pytest.raises(FedcastError, match="batch_size"):
        local_steps(1, 10, 0)
    tiny = plain(gradient_variance=0.0, divergences=[0.0], initial_distance=1e150)
    with pytest.raises(FedcastError, match="too close"):
        rounds_needed(tiny, 5e-324)


@pytest.mark.parametrize(
    ("distributions", "weights", "message"),
    [
        ([], None, "1 or more users"),
        ([0.5, 0.5], None, "a row for each"),
        ([[0.5, 0.5], [0.5, 0.4]], None, "user 1"),
        ([[1.5, -0.5]], None, "user 0"),
        ([[float("nan"), 1.0]], None, "user 0"),
        ([[0.5, 0.5], [float("nan"), 0.0]], [1.0, 0.0], "user 1"),
        ([[0.5, 0.5]], [0.5, 0.5], r"one number per user, \(1,\)"),
        ([[1.0, 0.0], [0.0, 1.0]], [0.5, 0.4], "invalid value 0.9 for the sum of weights"),
    ],
)
def test_invalid_distributions(distributions: list, weights: list | None, message: str) -> None:
    with pytest.raises(FedcastError, match=message):
        divergences_of(distributions, weights)
