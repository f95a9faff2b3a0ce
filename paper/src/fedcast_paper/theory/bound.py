"""Lemma 1 and Theorem 2: the excess loss of one round and of many."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedcast.errors import FedcastError
from fedcast_paper.theory.checks import require
from fedcast_paper.theory.constants import Problem
from fedcast_paper.theory.forms import Form, terms_of


def one_round_bound(
    setting: Problem, drift: ArrayLike, start_distance: float, end_distance: float, form: Form = "corrected"
) -> float:
    r"""Lemma 1: the mean excess loss :math:`\frac1E \sum_{i=1}^E \mathbb E[F(\bar w^{(i)}) - F(w^*)]` of one round.

    With :math:`V_i = \sum_k p_k \mathbb E \lVert w_k^{(i)} - \bar w^{(i)} \rVert^2`,

    .. math::
        \frac{\lVert \bar w^{(0)} - w^* \rVert^2 - \mathbb E \lVert \bar w^{(E)} - w^* \rVert^2}{2 \eta E}
        + \eta \sigma^2 \sum_k p_k^2 + \frac LE \sum_{i=0}^{E-1} V_i

    ``printed`` sums the drift over i = 1…E, which is never less, as :math:`V_0 = 0`. ``sharp`` has
    :math:`\frac\eta2 (1 + \eta L)` for the :math:`\eta` of the noise and L/2 for the L of the drift.

    Args:
        setting: constants of the problem.
        drift: [E + 1, K], :math:`\mathbb E \lVert w_k^{(i)} - \bar w^{(i)} \rVert^2` before the step i = 0…E, w²; the
            last row is just before the models are averaged.
        start_distance: root of :math:`\mathbb E \lVert \bar w^{(0)} - w^* \rVert^2`, w.
        end_distance: root of :math:`\mathbb E \lVert \bar w^{(E)} - w^* \rVert^2`, w.
        form: which of the three.

    Example:
        >>> from fedcast_paper.theory import problem
        >>> one = problem(smoothness=1, gradient_bound=1, gradient_variance=0, step_size=0.25, local_steps=2,
        ...               initial_distance=1, divergences=[0.0])
        >>> one_round_bound(one, [[0], [0], [0]], start_distance=1.0, end_distance=0.5)
        0.75
    """
    terms = terms_of(setting, form)
    table = np.asarray(drift, dtype=np.float64)
    steps, eta = setting.local_steps, setting.step_size
    if table.shape != (steps + 1, setting.num_users):
        raise FedcastError(f"drift: shape {table.shape}, but it must be {(steps + 1, setting.num_users)}, [E + 1, K]")
    per_step = table @ setting.weights
    summed = per_step[1:] if form == "printed" else per_step[:-1]
    part = 0.5 if form == "sharp" else 1.0
    closer = (start_distance**2 - end_distance**2) / (2 * eta * steps)
    return float(closer + terms.noise(eta) + part * setting.smoothness * summed.mean())


@dataclass(frozen=True)
class Bound:
    """The bound of Theorem 2, term by term; all in units of the loss.

    Attributes:
        start: what the distance at the start still costs, falls as 1/T.
        noise: noise of the averaged gradient; falls with the number of users.
        skew_drift: drift of local models by skew; 0 without skew.
        noise_drift: drift of local models by noise.
    """

    start: float
    noise: float
    skew_drift: float
    noise_drift: float

    @property
    def floor(self) -> float:
        """What no number of rounds removes."""
        return self.noise + self.skew_drift + self.noise_drift

    @property
    def total(self) -> float:
        """The bound."""
        return self.start + self.floor


def convergence_bound(setting: Problem, rounds: int, form: Form = "corrected") -> Bound:
    r"""Theorem 2: the excess loss averaged over the steps of T rounds, at a fixed step size.

    .. math::
        \frac{1}{ET} \sum_{t=0}^{T-1} \sum_{i=1}^{E} \mathbb E [F(\bar w^{(t,i)}) - F(w^*)] \le
        \begin{cases}
        \frac{A}{2 \eta E T} + \frac{\eta \sigma^2}{K} + L E \eta^2 (2 E G^2 + 6) K \bar D^2 + 4 L E \eta^2 \sigma^2
        & \text{printed} \\
        \frac{A^2}{2 \eta E T} + \eta \sigma^2 c + L E \eta^2 G^2 (2 E + 6) \overline{D^2} + 4 L E \eta^2 \sigma^2
        & \text{corrected} \\
        \frac{A^2}{2 \eta E T} + \frac\eta2 (1 + \eta L) \sigma^2 c
        + \frac{L \eta^2 G^2}{6} (E - 1)(2E - 1) \overline{D^2} + \frac{L \eta^2 \sigma^2}{2} (E - 1)(1 - c)
        & \text{sharp}
        \end{cases}

    with :math:`c = \sum_k p_k^2` and :math:`\overline{D^2} = \sum_k p_k D_k^2`. As F is convex, the loss of the mean
    of all :math:`\bar w^{(t,i)}` obeys the bound too; the last model need not.

    Args:
        setting: constants of the problem.
        rounds: T.
        form: which of the three.

    Example:
        >>> from fedcast_paper.theory import problem
        >>> ten = problem(smoothness=1, gradient_bound=1, gradient_variance=0.5, step_size=0.01, local_steps=5,
        ...               initial_distance=3, divergences=[1.0] * 10)
        >>> [round(convergence_bound(ten, 100, form).total, 4) for form in ("printed", "corrected", "sharp")]
        [0.3815, 0.9095, 0.9009]
    """
    eta, terms = setting.step_size, terms_of(setting, form)
    require(rounds >= 1, "rounds", rounds, "1 or more")
    return Bound(
        terms.start / (eta * setting.local_steps * rounds),
        terms.noise(eta),
        terms.skew * terms.skew_square * eta**2,
        terms.drift * eta**2,
    )
