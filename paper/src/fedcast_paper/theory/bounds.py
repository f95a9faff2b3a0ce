"""Lemma 2 (drift), Lemma 1 (one round) and Theorem 2 (many rounds), and the errors of the printed proof."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedcast.errors import FedcastError
from fedcast.typing import Floats
from fedcast_paper.theory.constants import ConvexProblem, Form, check_form, require, terms_of


def pair_drift_bound(
    setting: ConvexProblem, user: int, other: int, step: int | None = None, form: Form = "corrected"
) -> float:
    r"""Return Lemma 2 for two users: a bound on :math:`\mathbb E \lVert w_1^{(i)} - w_2^{(i)} \rVert^2`, w².

    ``printed`` and ``corrected`` give the same bound for all steps i ≤ E,

    .. math:: 2 E^2 \eta^2 G^2 (D_1 + D_2)^2 + 6 E \eta^2 G^2 (D_1^2 + D_2^2) + 4 E \eta^2 \sigma^2

    ``printed`` without the second :math:`G^2`. ``sharp`` is
    :math:`(i \eta G (D_1 + D_2) + \sqrt{2i}\, \eta \sigma)^2` and can be attained when :math:`\sigma = 0`.

    Args:
        setting: constants of the problem.
        user: index of the first user.
        other: index of the second user.
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


def user_drift_bound(setting: ConvexProblem, step: int | None = None, form: Form = "corrected") -> Floats:
    r"""Return Lemma 2 by user, a bound on :math:`\mathbb E \lVert w_k^{(i)} - \bar w^{(i)} \rVert^2`: float64[K], w².

    ``printed`` sets :math:`D_2 = 0` for the mean model, as if it descended the global loss. It does not, so the printed
    bound fails for single users: a user with :math:`D_k = 0` drifts if others do. ``corrected`` averages
    `pair_drift_bound` over the other users (Jensen), and ``sharp`` its root (Minkowski):

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
    """Return for each user k the sum of p_j x_j over all j except k."""
    rest: Floats = float(share @ values) - share * values
    return rest


def mean_drift_bound(setting: ConvexProblem, step: int | None = None, form: Form = "corrected") -> float:
    r"""Return Lemma 2 averaged over users, which the theorem needs: a bound on :math:`V_i`, w².

    .. math:: 2 E^2 \eta^2 G^2 \overline{D^2} + 6 E \eta^2 G^2 \overline{D^2} + 4 E \eta^2 \sigma^2

    for ``corrected``; ``printed`` lacks the second :math:`G^2` and still holds (the term is not needed).
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


def _step(setting: ConvexProblem, step: int | None, form: Form) -> int:
    """Return the step i of a round after validating it and the form."""
    check_form(setting, form)
    done = setting.local_steps if step is None else step
    require(0 <= done <= setting.local_steps, "step", step, f"0…{setting.local_steps}, the local steps of a round")
    return done


def one_round_bound(
    setting: ConvexProblem, drift: ArrayLike, start_distance: float, end_distance: float, form: Form = "corrected"
) -> float:
    r"""Return Lemma 1: a bound on the mean excess loss of one round.

    It bounds :math:`\frac1E \sum_{i=1}^E \mathbb E[F(\bar w^{(i)}) - F(w^*)]`. With
    :math:`V_i = \sum_k p_k \mathbb E \lVert w_k^{(i)} - \bar w^{(i)} \rVert^2`,

    .. math::
        \frac{\lVert \bar w^{(0)} - w^* \rVert^2 - \mathbb E \lVert \bar w^{(E)} - w^* \rVert^2}{2 \eta E}
        + \eta \sigma^2 \sum_k p_k^2 + \frac LE \sum_{i=0}^{E-1} V_i

    ``printed`` sums the drift over i = 1…E, which is never smaller, since :math:`V_0 = 0`. ``sharp`` has
    :math:`\frac\eta2 (1 + \eta L)` for the :math:`\eta` of the noise and L/2 for the L of the drift.

    Args:
        setting: constants of the problem.
        drift: [E + 1, K], :math:`\mathbb E \lVert w_k^{(i)} - \bar w^{(i)} \rVert^2` before the step i = 0…E, w²; the
            last row is just before the models are averaged.
        start_distance: square root of :math:`\mathbb E \lVert \bar w^{(0)} - w^* \rVert^2`, w.
        end_distance: square root of :math:`\mathbb E \lVert \bar w^{(E)} - w^* \rVert^2`, w.
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
        raise FedcastError(
            f"invalid shape {table.shape} of drift: expected {(steps + 1, setting.num_users)}, [E + 1, K]"
        )
    per_step = table @ setting.weights
    summed = per_step[1:] if form == "printed" else per_step[:-1]
    part = 0.5 if form == "sharp" else 1.0
    closer = (start_distance**2 - end_distance**2) / (2 * eta * steps)
    return float(closer + terms.noise(eta) + part * setting.smoothness * summed.mean())


@dataclass(frozen=True)
class Bound:
    """The terms of the bound of Theorem 2, in units of the loss.

    Attributes:
        start: of the initial distance, proportional to 1/T.
        noise: of the noise of the averaged gradient; decreases with the number of users.
        skew_drift: of the drift of local models by skew; 0 without skew.
        noise_drift: of the drift of local models by noise.
    """

    start: float
    noise: float
    skew_drift: float
    noise_drift: float

    @property
    def floor(self) -> float:
        """The limit of the bound for many rounds."""
        return self.noise + self.skew_drift + self.noise_drift

    @property
    def total(self) -> float:
        """The bound, the sum of all terms."""
        return self.start + self.floor


def convergence_bound(setting: ConvexProblem, rounds: int, form: Form = "corrected") -> Bound:
    r"""Return Theorem 2: a bound on the excess loss averaged over the steps of T rounds, at a fixed step size.

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

    with :math:`c = \sum_k p_k^2` and :math:`\overline{D^2} = \sum_k p_k D_k^2`. Since F is convex, the bound also
    holds for the mean of all :math:`\bar w^{(t,i)}`; it need not hold for the last model.

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


@dataclass(frozen=True)
class Slip:
    """An error of the printed proof.

    Attributes:
        where: the affected quantity.
        printed: its value as printed.
        corrected: its corrected value; if it is larger, the printed step is invalid.
    """

    where: str
    printed: float
    corrected: float


def slips(setting: ConvexProblem, rounds: int) -> tuple[Slip, ...]:
    r"""Return the effect of each error of the printed proof, for one problem and T rounds.

    Users 1 and 2 of the proof are the two users with the largest :math:`D_k`; the user whose drift is bounded with
    :math:`D_2 = 0` is the one with the smallest :math:`D_k`.

    Example:
        >>> from fedcast_paper.theory import problem
        >>> three = problem(smoothness=1, gradient_bound=5, gradient_variance=0, step_size=0.1, local_steps=2,
        ...                 initial_distance=4, divergences=[1, 1, 0])
        >>> for slip in slips(three, rounds=10):
        ...     print(f"{slip.where:28} {slip.printed:7.3f} {slip.corrected:7.3f}")
        start term, A for A²           1.000   4.000
        Eq. B, last term               4.000  10.000
        Eq. C, last two terms          6.000 150.000
        drift of one user, D₂ = 0      0.000   3.333
        K·D̄² for the mean of D²        1.333   0.667
    """
    shown, mended = convergence_bound(setting, rounds, "printed"), convergence_bound(setting, rounds)
    order = np.argsort(setting.divergences)
    pair = np.append(setting.divergences[order[-2:]], 0.0)[:2]
    gap = float(pair.sum()) * setting.gradient_bound
    squares, reach = 3 * float(pair @ pair), setting.step_size * setting.local_steps
    least = order[0]
    drifts = [float(user_drift_bound(setting, form=form)[least]) for form in ("printed", "corrected")]
    spread = terms_of(setting, "printed").skew_square
    return (
        Slip("start term, A for A²", shown.start, mended.start),
        Slip("Eq. B, last term", 2 * reach * gap, reach / 2 * gap**2),
        Slip("Eq. C, last two terms", squares, squares * setting.gradient_bound**2),
        Slip("drift of one user, D₂ = 0", drifts[0], drifts[1]),
        Slip("K·D̄² for the mean of D²", spread, setting.mean_square_divergence),
    )
