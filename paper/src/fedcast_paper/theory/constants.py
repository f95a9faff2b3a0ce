"""The constants of a convex federated problem, and where they come from."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedcast.errors import FedcastError
from fedcast.typing import Floats
from fedcast_paper.theory.checks import ROUNDING, require

_SINGLE_PRECISION = 1e-5  # what rows of float32 may miss a sum of 1 by
_LARGEST_DIVERGENCE = 2.0


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


def _check_users(divergences: Floats, weights: Floats) -> None:
    if divergences.ndim != 1 or len(divergences) == 0:
        raise FedcastError(
            f"divergences: shape {divergences.shape}, but it must be one number per user, for at least one user"
        )
    out = np.flatnonzero(~((divergences >= 0) & (divergences <= _LARGEST_DIVERGENCE)))
    if len(out):
        require(False, f"divergences of user {out[0]}", divergences[out[0]], "in [0, 2]")
    _check_weights(weights, len(divergences))


def _check_weights(weights: Floats, users: int) -> None:
    if weights.shape != (users,):
        raise FedcastError(f"weights: shape {weights.shape}, but it must be one number per user, {users} in all")
    out = np.flatnonzero(~(weights >= 0))
    if len(out):
        require(False, f"weights of user {out[0]}", weights[out[0]], "0 or more")
    require(abs(weights.sum() - 1) <= ROUNDING, "weights", f"a sum of {weights.sum()}", "1 in all")


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
    if rows.ndim != 2 or len(rows) == 0:
        raise FedcastError(
            f"distributions: shape {rows.shape}, but it must be [K, Y], a row for each of 1 or more users"
        )
    shares = np.full(len(rows), 1 / len(rows)) if weights is None else np.asarray(weights, dtype=np.float64)
    _check_weights(shares, len(rows))
    # A user that weighs nothing may hold nothing.
    whole = (np.abs(rows.sum(axis=1) - 1) <= _SINGLE_PRECISION) | (shares == 0)
    out = np.flatnonzero(~((rows >= 0).all(axis=1) & whole))
    if len(out):
        require(False, f"distributions of user {out[0]}", rows[out[0]].tolist(), "shares of 0 or more that sum to 1")
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
        require(value >= 1, name, value, "1 or more")
    return epochs * -(-samples // batch_size)
