r"""What the convergence bound says: drift of local models, error after T rounds, rounds to a target.

The bound of Hu, Teng, Wang and Han (arXiv 2406.09776, Appendix B) for FedAvg on convex losses, in three forms:

``printed``
    As in the paper, slips included. Its users all weigh the same.
``corrected``
    The paper's own argument with its slips mended: the squared start distance, the lost :math:`G^2`, and the mean of
    :math:`D_k^2` in place of :math:`K \bar D^2`.
``sharp``
    A shorter argument (a gradient step is non-expansive), never above ``corrected``, and good up to four times the
    step size.

All have the shape

.. math:: \frac{A^2}{2 \eta E T} + \text{noise} + \text{drift by skew} + \text{drift by noise}

The derivations are in the documentation, "What the convergence bound says". Units: the loss has one unit, call it
*loss*, and the model's weights another, *w*; then :math:`L` is in loss/w², :math:`G` in loss/w, :math:`\sigma^2` in
(loss/w)², :math:`\eta` in w²/loss, distances in w and bounds in loss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcast.errors import FedcastError

Floats = NDArray[np.float64]
Form = Literal["printed", "corrected", "sharp"]

_LIMIT: dict[str, float] = {"printed": 0.25, "corrected": 0.25, "sharp": 1.0}
_LARGEST_DIVERGENCE = 2.0
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Problem:
    r"""The constants of a convex federated problem; checked when built (`problem` builds one from lists).

    Attributes:
        smoothness: L, every user's loss is L-smooth, loss/w².
        gradient_bound: G, no stochastic gradient is longer, loss/w.
        gradient_variance: :math:`\sigma^2`, of a user's stochastic gradient, (loss/w)²; at most :math:`G^2`. The
            noises of two users are independent.
        step_size: :math:`\eta`, of local SGD, w²/loss.
        local_steps: E, SGD *steps* of a round, not epochs (`local_steps` converts).
        initial_distance: :math:`A = \lVert w^{(0)} - w^* \rVert`, not squared, w.
        divergences: float64[K], :math:`D_k = \sum_y |P_k(y) - P(y)|` in [0, 2], from the mixture
            :math:`P = \sum_k p_k P_k` that is trained on (`divergences_of`).
        weights: float64[K], :math:`p_k` of the aggregation and of the loss :math:`F = \sum_k p_k F_k`; sum 1.
    """

    smoothness: float
    gradient_bound: float
    gradient_variance: float
    step_size: float
    local_steps: int
    initial_distance: float
    divergences: Floats
    weights: Floats

    def __post_init__(self) -> None:
        for name in ("smoothness", "gradient_bound", "step_size"):
            _require(0 < getattr(self, name) < math.inf, name, getattr(self, name), "a positive, finite number")
        for name in ("gradient_variance", "initial_distance"):
            _require(0 <= getattr(self, name) < math.inf, name, getattr(self, name), "0 or a positive, finite number")
        whole = isinstance(self.local_steps, int | np.integer) and not isinstance(self.local_steps, bool)
        _require(
            whole and self.local_steps >= 1, "local_steps", self.local_steps, "a whole number of SGD steps, 1 or more"
        )
        most = self.gradient_bound**2
        _require(
            self.gradient_variance <= most * (1 + _ROUNDING),
            "gradient_variance",
            self.gradient_variance,
            f"at most gradient_bound² = {most:g}, since no stochastic gradient is longer than gradient_bound",
        )
        _check_users(self.divergences, self.weights)

    @property
    def num_users(self) -> int:
        """Users K."""
        return len(self.divergences)

    @property
    def mean_square_divergence(self) -> float:
        r""":math:`\overline{D^2} = \sum_k p_k D_k^2`, the skew that the corrected bound sees."""
        return float(self.weights @ self.divergences**2)

    @property
    def concentration(self) -> float:
        r""":math:`\sum_k p_k^2`: what averaging leaves of the users' noise, 1/K for equal users."""
        return float(self.weights @ self.weights)


def _require(holds: bool, name: str, value: object, wanted: str) -> None:
    if not holds:
        raise FedcastError(f"{name}: {value} is refused, it must be {wanted}")


def _check_users(divergences: Floats, weights: Floats) -> None:
    if divergences.ndim != 1 or len(divergences) == 0 or weights.shape != divergences.shape:
        raise FedcastError(
            f"divergences and weights: shapes {divergences.shape} and {weights.shape}, "
            "but both must be one number per user, for at least one user"
        )
    out = np.flatnonzero(~((divergences >= 0) & (divergences <= _LARGEST_DIVERGENCE)))
    if len(out):
        _require(False, f"divergences of user {out[0]}", divergences[out[0]], "in [0, 2]")
    out = np.flatnonzero(~(weights >= 0))
    if len(out):
        _require(False, f"weights of user {out[0]}", weights[out[0]], "0 or more")
    _require(abs(weights.sum() - 1) <= _ROUNDING, "weights", f"a sum of {weights.sum()}", "1 in all")


def problem(
    *,
    smoothness: float,
    gradient_bound: float,
    gradient_variance: float,
    step_size: float,
    local_steps: int,
    initial_distance: float,
    divergences: ArrayLike,
    weights: ArrayLike | None = None,
) -> Problem:
    """A `Problem` from numbers and lists; without weights all users weigh the same.

    Example:
        >>> two = problem(smoothness=1, gradient_bound=1, gradient_variance=0, step_size=0.1, local_steps=5,
        ...               initial_distance=3, divergences=[1.0, 1.0])
        >>> two.weights.tolist(), two.mean_square_divergence
        ([0.5, 0.5], 1.0)
    """
    skew = np.array(divergences, dtype=np.float64)
    shares = np.full(skew.shape, 1 / max(skew.size, 1)) if weights is None else np.array(weights, dtype=np.float64)
    skew.flags.writeable = shares.flags.writeable = False
    return Problem(
        float(smoothness),
        float(gradient_bound),
        float(gradient_variance),
        float(step_size),
        local_steps,
        float(initial_distance),
        skew,
        shares,
    )


def divergences_of(distributions: ArrayLike, weights: ArrayLike | None = None) -> Floats:
    r"""How far each user is from the mixture that is trained on, float64[K].

    .. math:: D_k = \sum_y \Big| P_k(y) - \sum_j p_j P_j(y) \Big|

    This is the :math:`D_k` for which :math:`\lVert \nabla F_k(w) - \nabla F(w) \rVert \le D_k G` holds, provided
    that users differ in their labels alone, not in what a class looks like. After sharing it differs from D_EMD, which
    is measured from the mixture *before* sharing, by at most the shift of the mixture.

    Args:
        distributions: [K, Y], rows sum to 1.
        weights: [K], sum 1; None: all the same.

    Example:
        >>> divergences_of([[1, 0], [0, 1], [0.5, 0.5]]).tolist()
        [1.0, 1.0, 0.0]
    """
    rows = np.asarray(distributions, dtype=np.float64)
    shares = np.full(len(rows), 1 / len(rows)) if weights is None else np.asarray(weights, dtype=np.float64)
    distance: Floats = np.abs(rows - shares @ rows).sum(axis=1)
    return distance


def local_steps(epochs: int, samples: int, batch_size: int) -> int:
    r"""SGD steps of a round, :math:`E = \text{epochs} \cdot \lceil n / b \rceil`.

    The paper writes E for both. The bound counts steps: its drift grows with the *square* of them.

    Example:
        >>> local_steps(epochs=5, samples=600, batch_size=10)
        300
    """
    for name, value in (("epochs", epochs), ("samples", samples), ("batch_size", batch_size)):
        _require(value >= 1, name, value, "1 or more")
    return epochs * -(-samples // batch_size)


def step_size_limit(smoothness: float, form: Form = "corrected") -> float:
    r"""Largest step size for which a form holds: :math:`1/(4L)`, for ``sharp`` :math:`1/L`.

    Example:
        >>> step_size_limit(2.0), step_size_limit(2.0, "sharp")
        (0.125, 0.5)
    """
    if form not in _LIMIT:
        raise FedcastError(f"form: {form!r} is unknown, expected one of {', '.join(_LIMIT)}")
    return _LIMIT[form] / smoothness


def _check_form(setting: Problem, form: Form) -> None:
    limit = step_size_limit(setting.smoothness, form)
    if setting.step_size > limit * (1 + _ROUNDING):
        hint = "" if form == "sharp" else "; the form 'sharp' allows four times as much"
        raise FedcastError(
            f"step_size: {setting.step_size:g} is above {limit:g} = {_LIMIT[form]:g}/smoothness, where the {form} "
            f"bound ends; take a smaller step{hint}"
        )
    if form == "printed" and np.ptp(setting.weights) > _ROUNDING:
        raise FedcastError("weights: the printed form knows only users of equal weight; use 'corrected' or 'sharp'")


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
        >>> one = problem(smoothness=1, gradient_bound=1, gradient_variance=0, step_size=0.25, local_steps=2,
        ...               initial_distance=1, divergences=[0.0])
        >>> one_round_bound(one, [[0], [0], [0]], start_distance=1.0, end_distance=0.5)
        0.75
    """
    _check_form(setting, form)
    table = np.asarray(drift, dtype=np.float64)
    steps, eta = setting.local_steps, setting.step_size
    if table.shape != (steps + 1, setting.num_users):
        raise FedcastError(f"drift: shape {table.shape}, but it must be {(steps + 1, setting.num_users)}, [E + 1, K]")
    per_step = table @ setting.weights
    summed = per_step[1:] if form == "printed" else per_step[:-1]
    part = 0.5 if form == "sharp" else 1.0
    closer = (start_distance**2 - end_distance**2) / (2 * eta * steps)
    scale = _coefficients(setting, form)
    return float(closer + scale.noise(eta) + part * setting.smoothness * summed.mean())


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
        >>> two = problem(smoothness=1, gradient_bound=2, gradient_variance=0, step_size=0.1, local_steps=5,
        ...               initial_distance=3, divergences=[0.5, 0.5])
        >>> [round(pair_drift_bound(two, 0, 1, form=form), 3) for form in ("printed", "corrected", "sharp")]
        [2.15, 2.6, 1.0]
    """
    _check_form(setting, form)
    done = _step(setting, step)
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
        >>> three = problem(smoothness=1, gradient_bound=1, gradient_variance=0, step_size=0.1, local_steps=2,
        ...                 initial_distance=3, divergences=[1, 1, 0])
        >>> user_drift_bound(three, form="printed").round(3).tolist()
        [0.2, 0.2, 0.0]
        >>> user_drift_bound(three).round(3).tolist()
        [0.253, 0.253, 0.133]
    """
    _check_form(setting, form)
    done = _step(setting, step)
    skew, share = setting.divergences, setting.weights
    slope, variance = setting.gradient_bound, setting.gradient_variance
    eta, steps = setting.step_size, setting.local_steps
    if form == "printed":
        alone: Floats = eta**2 * steps * (skew**2 * (2 * steps * slope**2 + 6) + 4 * variance)
        return alone
    others, mean = 1 - share, float(share @ skew) - share * skew
    if form == "sharp":
        root = done * slope * (others * skew + mean) + others * math.sqrt(2 * done * variance)
        return np.square(eta * root)
    squares = setting.mean_square_divergence - share * skew**2
    sums = others * skew**2 + 2 * skew * mean + squares
    averaged = 2 * steps * slope**2 * sums + 6 * slope**2 * (others * skew**2 + squares) + 4 * variance * others
    result: Floats = eta**2 * steps * averaged
    return result


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
        >>> two = problem(smoothness=1, gradient_bound=1, gradient_variance=0, step_size=0.1, local_steps=5,
        ...               initial_distance=3, divergences=[1, 1])
        >>> round(mean_drift_bound(two), 3), round(mean_drift_bound(two, form="sharp"), 3)
        (0.8, 0.25)
    """
    _check_form(setting, form)
    done = _step(setting, step)
    square, variance = setting.mean_square_divergence, setting.gradient_variance
    slope, eta, steps = setting.gradient_bound, setting.step_size, setting.local_steps
    if form == "sharp":
        noise = math.sqrt(done * max(0.0, 1 - setting.concentration) * variance)
        return float(eta**2 * (done * slope * math.sqrt(square) + noise) ** 2)
    lost = 1.0 if form == "printed" else slope**2
    return float(eta**2 * steps * (square * (2 * steps * slope**2 + 6 * lost) + 4 * variance))


def _step(setting: Problem, step: int | None) -> int:
    done = setting.local_steps if step is None else step
    _require(0 <= done <= setting.local_steps, "step", step, f"in 0…{setting.local_steps}, the local steps of a round")
    return done


@dataclass(frozen=True)
class _Coefficients:
    """The bound as start/(ηET) + linear η + (square + drift + skew·D²) η², whatever the step size."""

    start: float
    linear: float
    square: float
    drift: float
    skew: float
    skew_square: float

    def noise(self, eta: float) -> float:
        return self.linear * eta + self.square * eta**2

    def floor(self, eta: float) -> float:
        return self.noise(eta) + (self.drift + self.skew * self.skew_square) * eta**2


def _coefficients(setting: Problem, form: Form) -> _Coefficients:
    smooth, slope2, variance = setting.smoothness, setting.gradient_bound**2, setting.gradient_variance
    steps, left = setting.local_steps, setting.concentration * setting.gradient_variance
    distance2, mean_square = setting.initial_distance**2, setting.mean_square_divergence
    if form == "printed":
        mean = float(setting.weights @ setting.divergences)
        skew = smooth * steps * (2 * steps * slope2 + 6)
        return _Coefficients(
            setting.initial_distance / 2, left, 0.0, 4 * smooth * steps * variance, skew, setting.num_users * mean**2
        )
    if form == "corrected":
        skew = smooth * slope2 * steps * (2 * steps + 6)
        return _Coefficients(distance2 / 2, left, 0.0, 4 * smooth * steps * variance, skew, mean_square)
    drift = smooth * max(0.0, variance - left) * (steps - 1) / 2
    skew = smooth * slope2 * (steps - 1) * (2 * steps - 1) / 6
    return _Coefficients(distance2 / 2, left / 2, smooth * left / 2, drift, skew, mean_square)


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
        >>> ten = problem(smoothness=1, gradient_bound=1, gradient_variance=0.5, step_size=0.01, local_steps=5,
        ...               initial_distance=3, divergences=[1.0] * 10)
        >>> [round(convergence_bound(ten, 100, form).total, 4) for form in ("printed", "corrected", "sharp")]
        [0.3815, 0.9095, 0.9009]
    """
    _check_form(setting, form)
    _require(rounds >= 1, "rounds", rounds, "1 or more")
    eta, terms = setting.step_size, _coefficients(setting, form)
    return Bound(
        terms.start / (eta * setting.local_steps * rounds),
        terms.noise(eta),
        terms.skew * terms.skew_square * eta**2,
        terms.drift * eta**2,
    )


def rounds_needed(setting: Problem, target: float, form: Form = "corrected") -> int:
    """The least T at which the bound is no more than the target excess loss.

    Raises:
        FedcastError: the floor of the bound is not below the target, so that no T will do at this step size.

    Example:
        >>> ten = problem(smoothness=1, gradient_bound=1, gradient_variance=0.5, step_size=0.01, local_steps=5,
        ...               initial_distance=3, divergences=[1.0] * 10)
        >>> rounds_needed(ten, 0.1), rounds_needed(ten, 0.1, "sharp")
        (995, 909)
    """
    _check_form(setting, form)
    terms = _coefficients(setting, form)
    floor = terms.floor(setting.step_size)
    if not floor < target < math.inf:
        raise FedcastError(
            f"target: {target:g} is not above {floor:g}, which the {form} bound keeps after any number of rounds at "
            f"step_size {setting.step_size:g}; take a smaller step (`best_step_size`), fewer local steps or less skew"
        )
    wanted = terms.start / (setting.step_size * setting.local_steps) / (target - floor)
    if not math.isfinite(wanted):
        raise FedcastError(f"target: {target:g} is too near to {floor:g}, the least that the bound can reach")
    rounds = max(1, math.ceil(wanted))
    if rounds > 1 and convergence_bound(setting, rounds - 1, form).total <= target:
        return rounds - 1  # the division was rounded up past a whole number
    return rounds if convergence_bound(setting, rounds, form).total <= target else rounds + 1


@dataclass(frozen=True)
class RoundsCurve:
    r"""Rounds to a target as the bound has them, :math:`T(D) = s / (\beta - D^2)`.

    Attributes:
        scale: s, rounds.
        beta: :math:`\beta`, the :math:`D^2` at which no number of rounds is enough.
    """

    scale: float
    beta: float

    def rounds(self, skew_square: float) -> float:
        r"""T, not rounded, at a given :math:`D^2`: the mean of the users' squares, for ``printed`` :math:`K \bar D^2`.

        Example:
            >>> RoundsCurve(scale=100.0, beta=2.0).rounds(1.0)
            100.0
        """
        if not 0 <= skew_square < self.beta:
            raise FedcastError(
                f"skew_square: {skew_square:g} is outside [0, {self.beta:g}), where the curve is defined"
            )
        return self.scale / (self.beta - skew_square)


def rounds_curve(setting: Problem, target: float, form: Form = "corrected") -> RoundsCurve:
    r"""The form :math:`1/(\beta - D^2)` that follows from the bound at a fixed step size.

    Solving the bound for T, with all terms but the skew's in :math:`r`:

    .. math::
        T = \frac{A^2 / (2 \eta E)}{\theta - r - \kappa D^2} = \frac{s}{\beta - D^2}, \qquad
        \beta = \frac{\theta - r}{\kappa}, \quad s = \frac{A^2}{2 \eta E \kappa}

    :math:`\beta` is no mere normalisation: it moves with the target, the step size and E. The pole is the fixed step
    size's; at `best_step_size` T has none and ends up in proportion to D.

    Args:
        setting: constants of the problem; its divergences play no part, its weights do.
        target: excess loss :math:`\theta`.
        form: which of the three.

    Example:
        >>> ten = problem(smoothness=1, gradient_bound=1, gradient_variance=0.5, step_size=0.01, local_steps=5,
        ...               initial_distance=3, divergences=[1.0] * 10)
        >>> curve = rounds_curve(ten, 0.1)
        >>> round(curve.beta, 3), round(curve.rounds(1.0), 1)
        (12.312, 994.5)
    """
    _check_form(setting, form)
    eta, terms = setting.step_size, _coefficients(setting, form)
    if terms.skew == 0:
        raise FedcastError("local_steps: with 1 local step there is no drift, and rounds do not depend on skew")
    rest = terms.noise(eta) + terms.drift * eta**2
    if not rest < target < math.inf:
        raise FedcastError(f"target: {target:g} is not above {rest:g}, which noise alone leaves at step_size {eta:g}")
    slope = terms.skew * eta**2
    return RoundsCurve(terms.start / (eta * setting.local_steps) / slope, (target - rest) / slope)


def best_step_size(setting: Problem, target: float, form: Form = "corrected") -> float:
    r"""The step size at which the bound reaches a target excess loss in the fewest rounds, w²/loss.

    The bound is :math:`\frac{s}{\eta E T} + a \eta + b \eta^2`, so T is least where
    :math:`\eta (\theta - a \eta - b \eta^2)` is largest,

    .. math:: \eta = \frac{\theta}{a + \sqrt{a^2 + 3 b \theta}}

    or at `step_size_limit` if that is less. Every positive target can be reached, whatever the skew.

    Example:
        >>> from dataclasses import replace
        >>> ten = problem(smoothness=1, gradient_bound=1, gradient_variance=0.5, step_size=0.01, local_steps=5,
        ...               initial_distance=3, divergences=[1.0] * 10)
        >>> eta = best_step_size(ten, 0.1)
        >>> round(eta, 4), rounds_needed(replace(ten, step_size=eta), 0.1)
        (0.0191, 712)
    """
    limit = step_size_limit(setting.smoothness, form)
    _check_form(replace(setting, step_size=limit), form)
    _require(0 < target < math.inf, "target", target, "a positive, finite excess loss")
    terms = _coefficients(setting, form)
    curvature = terms.square + terms.drift + terms.skew * terms.skew_square
    root = terms.linear + math.sqrt(terms.linear**2 + 3 * curvature * target)
    return limit if root == 0 else min(limit, target / root)


@dataclass(frozen=True)
class Slip:
    """A quantity of the proof as printed and as it must be.

    Attributes:
        where: which.
        printed: its printed value.
        corrected: its corrected value; larger than printed: the printed step does not follow.
    """

    where: str
    printed: float
    corrected: float


def slips(setting: Problem, rounds: int) -> tuple[Slip, ...]:
    r"""What each slip of the printed proof changes, for one problem and T rounds.

    The two users of largest :math:`D_k` stand for users 1 and 2 of the proof; the user of least :math:`D_k` for the
    one whose drift is bounded with :math:`D_2 = 0`.

    Example:
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
    spread = _coefficients(setting, "printed").skew_square
    return (
        Slip("start term, A for A²", shown.start, mended.start),
        Slip("Eq. B, last term", 2 * reach * gap, reach / 2 * gap**2),
        Slip("Eq. C, last two terms", squares, squares * setting.gradient_bound**2),
        Slip("drift of one user, D₂ = 0", drifts[0], drifts[1]),
        Slip("K·D̄² for the mean of D²", spread, setting.mean_square_divergence),
    )
