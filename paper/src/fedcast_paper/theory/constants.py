"""The constants of a convex federated problem, and the terms of the bound that follow from them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fedcast.errors import FedcastError
from fedcast.typing import Floats

ROUNDING = 1e-9  # relative tolerance of sums and limits


def require(holds: bool, name: str, value: object, wanted: str) -> None:
    """Raise an error that names the value and what is expected unless the condition holds."""
    if not holds:
        raise FedcastError(f"invalid value {value} for {name}: expected {wanted}")


_SINGLE_PRECISION = 1e-5  # tolerance of a sum of 1 over float32 values
_LARGEST_DIVERGENCE = 2.0


@dataclass(frozen=True, eq=False)
class ConvexProblem:
    r"""The constants of a convex federated problem, validated on construction (`problem` makes one from lists).

    Attributes:
        smoothness: L, every user's loss is L-smooth, loss/w².
        gradient_bound: G, upper bound on the norm of stochastic gradients, loss/w.
        gradient_variance: :math:`\sigma^2`, variance of a user's stochastic gradient, (loss/w)²; at most
            :math:`G^2`. The noise of different users is independent.
        step_size: :math:`\eta`, step size of local SGD, w²/loss.
        local_steps: E, SGD *steps* per round, not epochs (`local_steps` converts).
        initial_distance: :math:`A = \lVert w^{(0)} - w^* \rVert`, not squared, w.
        divergences: float64[K], :math:`D_k = \sum_y |P_k(y) - P(y)|` in [0, 2], from the
            distribution :math:`P = \sum_k p_k P_k` of the training data (`divergences_of`).
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
            require(0 < getattr(self, name) < math.inf, name, getattr(self, name), "a positive, finite number")
        for name in ("gradient_variance", "initial_distance"):
            require(0 <= getattr(self, name) < math.inf, name, getattr(self, name), "0 or a positive, finite number")
        whole = isinstance(self.local_steps, int | np.integer) and not isinstance(self.local_steps, bool)
        require(
            whole and self.local_steps >= 1, "local_steps", self.local_steps, "a whole number of SGD steps, 1 or more"
        )
        most = self.gradient_bound**2
        require(
            self.gradient_variance <= most * (1 + ROUNDING),
            "gradient_variance",
            self.gradient_variance,
            f"at most gradient_bound² = {most:g}, since gradient_bound limits the norm of stochastic gradients",
        )
        _check_users(self.divergences, self.weights)

    @property
    def num_users(self) -> int:
        """The number of users K."""
        return len(self.divergences)

    @property
    def mean_square_divergence(self) -> float:
        r""":math:`\overline{D^2} = \sum_k p_k D_k^2`, the skew in the corrected bound."""
        return float(self.weights @ self.divergences**2)

    @property
    def concentration(self) -> float:
        r""":math:`\sum_k p_k^2`: the fraction of the noise that remains after averaging, 1/K for equal users."""
        return float(self.weights @ self.weights)


def _check_users(divergences: Floats, weights: Floats) -> None:
    if divergences.ndim != 1 or len(divergences) == 0:
        raise FedcastError(
            f"invalid shape {divergences.shape} of divergences: expected one number per user, for at least one user"
        )
    out = np.flatnonzero(~((divergences >= 0) & (divergences <= _LARGEST_DIVERGENCE)))
    if len(out):
        require(False, f"divergences of user {out[0]}", divergences[out[0]], "in [0, 2]")
    _check_weights(weights, len(divergences))


def _check_weights(weights: Floats, users: int) -> None:
    if weights.shape != (users,):
        raise FedcastError(f"invalid shape {weights.shape} of weights: expected one number per user, ({users},)")
    out = np.flatnonzero(~(weights >= 0))
    if len(out):
        require(False, f"weights of user {out[0]}", weights[out[0]], "0 or more")
    require(abs(weights.sum() - 1) <= ROUNDING, "the sum of weights", weights.sum(), "1")


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
) -> ConvexProblem:
    """Return a `ConvexProblem` from numbers and lists; by default all users have the same weight.

    Example:
        >>> two = problem(smoothness=1, gradient_bound=1, gradient_variance=0, step_size=0.1, local_steps=5,
        ...               initial_distance=3, divergences=[1.0, 1.0])
        >>> two.weights.tolist(), two.mean_square_divergence
        ([0.5, 0.5], 1.0)
    """
    skew = np.array(divergences, dtype=np.float64)
    shares = np.full(skew.shape, 1 / max(skew.size, 1)) if weights is None else np.array(weights, dtype=np.float64)
    skew.flags.writeable = shares.flags.writeable = False
    return ConvexProblem(
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
    r"""Return the distance of each user from the distribution of the training data, float64[K].

    .. math:: D_k = \sum_y \Big| P_k(y) - \sum_j p_j P_j(y) \Big|

    This is the :math:`D_k` for which :math:`\lVert \nabla F_k(w) - \nabla F(w) \rVert \le D_k G` holds, provided
    that users differ in their labels only, not in the features of a class. After sharing it differs from D_EMD, which
    is measured from the global label distribution *before* sharing, by at most the shift of that distribution.

    Args:
        distributions: [K, Y], rows sum to 1.
        weights: [K], sum 1; None: equal.

    Example:
        >>> divergences_of([[1, 0], [0, 1], [0.5, 0.5]]).tolist()
        [1.0, 1.0, 0.0]
    """
    rows = np.asarray(distributions, dtype=np.float64)
    if rows.ndim != 2 or len(rows) == 0:
        raise FedcastError(
            f"invalid shape {rows.shape} of distributions: expected [K, Y], a row for each of 1 or more users"
        )
    shares = np.full(len(rows), 1 / len(rows)) if weights is None else np.asarray(weights, dtype=np.float64)
    _check_weights(shares, len(rows))
    # The row of a user with weight 0 may be all zeros.
    whole = (np.abs(rows.sum(axis=1) - 1) <= _SINGLE_PRECISION) | (shares == 0)
    out = np.flatnonzero(~((rows >= 0).all(axis=1) & whole))
    if len(out):
        require(
            False, f"distributions of user {out[0]}", rows[out[0]].tolist(), "proportions of 0 or more that sum to 1"
        )
    distance: Floats = np.abs(rows - shares @ rows).sum(axis=1)
    return distance


def local_steps(epochs: int, samples: int, batch_size: int) -> int:
    r"""Return the SGD steps of a round, :math:`E = \text{epochs} \cdot \lceil n / b \rceil`.

    The paper writes E for epochs and steps. The bound uses steps: its drift term grows with their *square*.

    Example:
        >>> local_steps(epochs=5, samples=600, batch_size=10)
        300
    """
    for name, value in (("epochs", epochs), ("samples", samples), ("batch_size", batch_size)):
        require(value >= 1, name, value, "1 or more")
    return epochs * -(-samples // batch_size)


Form = Literal["printed", "corrected", "sharp"]

_LIMIT: dict[str, float] = {"printed": 0.25, "corrected": 0.25, "sharp": 1.0}


def step_size_limit(smoothness: float, form: Form = "corrected") -> float:
    r"""Return the largest step size for which a form holds: :math:`1/(4L)`, for ``sharp`` :math:`1/L`.

    Example:
        >>> step_size_limit(2.0), step_size_limit(2.0, "sharp")
        (0.125, 0.5)
    """
    if form not in _LIMIT:
        raise FedcastError(f"invalid value {form!r} for form: expected one of {', '.join(_LIMIT)}")
    return _LIMIT[form] / smoothness


def check_form(setting: ConvexProblem, form: Form) -> None:
    """Raise an error if a form does not apply to a problem."""
    limit = step_size_limit(setting.smoothness, form)
    if setting.step_size > limit * (1 + ROUNDING):
        hint = "" if form == "sharp" else ", or use the form 'sharp', which allows four times as much"
        raise FedcastError(
            f"invalid value {setting.step_size:g} for step_size: the {form} bound holds up to {limit:g} = "
            f"{_LIMIT[form]:g}/smoothness; choose a smaller step size{hint}"
        )
    if form == "printed" and np.ptp(setting.weights) > ROUNDING:
        raise FedcastError("invalid weights: the form 'printed' requires equal weights; use 'corrected' or 'sharp'")


@dataclass(frozen=True)
class Terms:
    """The coefficients of the bound start/(ηET) + linear η + (square + drift + skew·skew_square) η².

    Attributes:
        start: of the initial distance.
        linear: of the noise of the averaged gradient, in η.
        square: of the noise of the averaged gradient, in η².
        drift: of the drift of local models by noise.
        skew: of the drift of local models by skew, for D² = 1.
        skew_square: D² as the form defines it.
    """

    start: float
    linear: float
    square: float
    drift: float
    skew: float
    skew_square: float

    def noise(self, eta: float) -> float:
        """Return the term of the noise of the averaged gradient."""
        return self.linear * eta + self.square * eta**2

    def floor(self, eta: float) -> float:
        """Return the limit of the bound for many rounds."""
        return self.noise(eta) + (self.drift + self.skew * self.skew_square) * eta**2


def terms_of(setting: ConvexProblem, form: Form) -> Terms:
    """Return the coefficients of a form for a problem."""
    check_form(setting, form)
    return {"printed": _printed, "corrected": _corrected, "sharp": _sharp}[form](setting)


def _printed(setting: ConvexProblem) -> Terms:
    smooth, steps, variance = setting.smoothness, setting.local_steps, setting.gradient_variance
    mean = float(setting.weights @ setting.divergences)
    return Terms(
        start=setting.initial_distance / 2,
        linear=setting.concentration * variance,
        square=0.0,
        drift=4 * smooth * steps * variance,
        skew=smooth * steps * (2 * steps * setting.gradient_bound**2 + 6),
        skew_square=setting.num_users * mean**2,
    )


def _corrected(setting: ConvexProblem) -> Terms:
    steps = setting.local_steps
    return replace(
        _printed(setting),
        start=setting.initial_distance**2 / 2,
        skew=setting.smoothness * setting.gradient_bound**2 * steps * (2 * steps + 6),
        skew_square=setting.mean_square_divergence,
    )


def _sharp(setting: ConvexProblem) -> Terms:
    smooth, steps, variance = setting.smoothness, setting.local_steps, setting.gradient_variance
    averaged = setting.concentration * variance
    return replace(
        _corrected(setting),
        linear=averaged / 2,
        square=smooth * averaged / 2,
        drift=smooth * max(0.0, variance - averaged) * (steps - 1) / 2,
        skew=smooth * setting.gradient_bound**2 * (steps - 1) * (2 * steps - 1) / 6,
    )
