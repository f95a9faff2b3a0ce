"""Lemma 2: how far local models drift apart within a round."""

from __future__ import annotations

import math

import numpy as np

from fedcast.typing import Floats
from fedcast_paper.theory.checks import require
from fedcast_paper.theory.constants import Problem
from fedcast_paper.theory.forms import Form, check_form


def pair_drift_bound(
    setting: Problem, user: int, other: int, step: int | None = None, form: Form = "corrected"
) -> float:
    r"""Lemma 2 for two users: the most that :math:`\mathbb E \lVert w_1^{(i)} - w_2^{(i)} \rVert^2` can be, w².

    ``printed`` and ``corrected`` give one number for all steps i ≤ E,

    .. math:: 2 E^2 \eta^2 G^2 (D_1 + D_2)^2 + 6 E \eta^2 G^2 (D_1^2 + D_2^2) + 4 E \eta^2 \sigma^2

    the printed one without the second :math:`G^2`. ``sharp`` is
    :math:`(i \eta G (D_1 + D_2) + \sqrt{2i}\, \eta \sigma)^2` and can be attained when :math:`\sigma = 0`.

    Args:
        setting: constants of the problem.
        user: index of the first user.
        other: index of the second.
        step: i in 0…E; None: E.
        form: which of the three.

    Example:
        >>> from fedcast_paper.theory import problem
        >>> two = problem(smoothness=1, gradient_bound=2, gradient_variance=0, step_size=0.1, local_steps=5,
        ...               initial_distance=3, divergences=[0.5, 0.5])
        >>> [round(pair_drift_bound(two, 0, 1, form=form), 3) for form in ("printed", "corrected", "sharp")]
        [2.15, 2.6, 1.0]
    """
    done = _step(setting, step, form)
    if user == other:
        return 0.0
    first, second = float(setting.divergences[user]), float(setting.divergences[other])
    slope, variance = setting.gradient_bound, setting.gradient_variance
    eta, steps = setting.step_size, setting.local_steps
    if form == "sharp":
        return eta**2 * (done * slope * (first + second) + math.sqrt(2 * done * variance)) ** 2
    lost = 1.0 if form == "printed" else slope**2
    skew = 2 * steps * slope**2 * (first + second) ** 2 + 6 * lost * (first**2 + second**2)
    return eta**2 * steps * (skew + 4 * variance)


def user_drift_bound(setting: Problem, step: int | None = None, form: Form = "corrected") -> Floats:
    r"""Lemma 2 for each user: a bound on :math:`\mathbb E \lVert w_k^{(i)} - \bar w^{(i)} \rVert^2`, float64[K], w².

    ``printed`` puts :math:`D_2 = 0` for the mean model, as if that descended the global loss. It does not, so the
    printed bound fails for single users: one with :math:`D_k = 0` drifts where others do. ``corrected`` averages
    `pair_drift_bound` over the others (Jensen), and ``sharp`` its root (Minkowski):

    .. math::
        \sum_{j \ne k} p_j \, \text{pair}(k, j)
        \qquad\text{and}\qquad
        \eta^2 \Big( i G \sum_{j \ne k} p_j (D_k + D_j) + (1 - p_k) \sqrt{2i}\, \sigma \Big)^2

    Args:
        setting: constants of the problem.
        step: i in 0…E; None: E. Only ``sharp`` depends on it.
        form: which of the three.

    Example:
        >>> from fedcast_paper.theory import problem
        >>> three = problem(smoothness=1, gradient_bound=1, gradient_variance=0, step_size=0.1, local_steps=2,
        ...                 initial_distance=3, divergences=[1, 1, 0])
        >>> user_drift_bound(three, form="printed").round(3).tolist()
        [0.2, 0.2, 0.0]
        >>> user_drift_bound(three).round(3).tolist()
        [0.253, 0.253, 0.133]
    """
    done = _step(setting, step, form)
    skew, share = setting.divergences, setting.weights
    slope, variance = setting.gradient_bound, setting.gradient_variance
    eta, steps = setting.step_size, setting.local_steps
    if form == "printed":
        alone: Floats = eta**2 * steps * (skew**2 * (2 * steps * slope**2 + 6) + 4 * variance)
        return alone
    others, mean, squares = 1 - share, _over_others(share, skew), _over_others(share, skew**2)
    if form == "sharp":
        root = done * slope * (others * skew + mean) + others * math.sqrt(2 * done * variance)
        return np.square(eta * root)
    sums = others * skew**2 + 2 * skew * mean + squares
    averaged = 2 * steps * slope**2 * sums + 6 * slope**2 * (others * skew**2 + squares) + 4 * variance * others
    result: Floats = eta**2 * steps * averaged
    return result


def _over_others(share: Floats, values: Floats) -> Floats:
    """Of each user k, the sum of p_j x_j over all j but k."""
    rest: Floats = float(share @ values) - share * values
    return rest


def mean_drift_bound(setting: Problem, step: int | None = None, form: Form = "corrected") -> float:
    r"""Lemma 2 averaged over users, all that the theorem needs: the most that :math:`V_i` can be, w².

    .. math:: 2 E^2 \eta^2 G^2 \overline{D^2} + 6 E \eta^2 G^2 \overline{D^2} + 4 E \eta^2 \sigma^2

    for ``corrected``; ``printed`` lacks the second :math:`G^2`, and holds all the same (the term is not needed).
    ``sharp`` is :math:`\eta^2 (i G \sqrt{\overline{D^2}} + \sqrt{i (1 - \sum_k p_k^2)}\, \sigma)^2`, attained when
    :math:`\sigma = 0` and all gradients are constant.

    Args:
        setting: constants of the problem.
        step: i in 0…E; None: E. Only ``sharp`` depends on it.
        form: which of the three.

    Example:
        >>> from fedcast_paper.theory import problem
        >>> two = problem(smoothness=1, gradient_bound=1, gradient_variance=0, step_size=0.1, local_steps=5,
        ...               initial_distance=3, divergences=[1, 1])
        >>> round(mean_drift_bound(two), 3), round(mean_drift_bound(two, form="sharp"), 3)
        (0.8, 0.25)
    """
    done = _step(setting, step, form)
    square, variance = setting.mean_square_divergence, setting.gradient_variance
    slope, eta, steps = setting.gradient_bound, setting.step_size, setting.local_steps
    if form == "sharp":
        noise = math.sqrt(done * max(0.0, 1 - setting.concentration) * variance)
        return float(eta**2 * (done * slope * math.sqrt(square) + noise) ** 2)
    lost = 1.0 if form == "printed" else slope**2
    return float(eta**2 * steps * (square * (2 * steps * slope**2 + 6 * lost) + 4 * variance))


def _step(setting: Problem, step: int | None, form: Form) -> int:
    """The step i of a round, where both it and the form are possible."""
    check_form(setting, form)
    done = setting.local_steps if step is None else step
    require(0 <= done <= setting.local_steps, "step", step, f"in 0…{setting.local_steps}, the local steps of a round")
    return done
