r"""Social closeness :math:`e_{ij}` of two users, in [0, 1], as a function of (seed, i, j).

No pair is stored. The uniform number :math:`u_{ij}` of a pair is a stateless hash, and its closeness is the inverse
of a cumulative distribution function at that number. Closeness is therefore symmetric, does not change when users are
added, and increases with :math:`u_{ij}`: whether a pair meets a threshold follows from :math:`u_{ij}` alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from fedcast.errors import FedcastError
from fedcast.random import pair_uniform, user_uniform
from fedcast.typing import Floats, Ints

if TYPE_CHECKING:
    from fedcast.scenario import Trust

PURPOSE = "closeness"

# Far above the rounding error of a distribution function and of its inverse, far below any relevant probability.
_ROUNDING = 1e-9


def closeness(
    first: ArrayLike, second: ArrayLike, trust: Trust, seed: int, distance_m: ArrayLike | None = None
) -> Floats:
    r"""Return the closeness of each pair of users; it is 1 for a user and itself.

    With :math:`u` uniform per unordered pair, the generators are

    - ``uniform``: :math:`u`;
    - ``community``: :math:`\mathrm{Beta}^{-1}(u)`, with one Beta distribution within a community and one across two;
    - ``contact``: :math:`1 - e^{-\lambda T}`, the probability to meet within :math:`T`, with contact rate
      :math:`\lambda \sim \mathrm{Gamma}`;
    - ``distance``: :math:`\rho\, e^{-d/d_0} + (1 - \rho)\, u`, which needs `distance_m`.

    Example:
        >>> from fedcast.scenario import Trust
        >>> pairs = closeness([3, 8, 5], [8, 3, 5], Trust(), seed=0)
        >>> bool(pairs[0] == pairs[1]), float(pairs[2])
        (True, 1.0)
    """
    together: ArrayLike = True
    if trust.generator == "community":
        together = np.equal(communities_of(first, trust, seed), communities_of(second, trust, seed))
    close = closeness_of_draws(pair_uniform(seed, PURPOSE, first, second), trust, together, distance_m)
    return np.where(np.asarray(first) == np.asarray(second), 1.0, close)


def closeness_of_draws(
    draws: ArrayLike, trust: Trust, together: ArrayLike = True, distance_m: ArrayLike | None = None
) -> Floats:
    """Return the closeness of pairs with given uniform numbers; it is non-decreasing in them.

    `together` says whether both users are in one community, for ``community``; `distance_m` is for ``distance``.
    """
    uniform = np.asarray(draws, dtype=np.float64)
    match trust.generator:
        case "uniform":
            return uniform
        case "community":
            from scipy.special import betaincinv

            return np.asarray(betaincinv(*_beta_parameters(trust, together), uniform))
        case "contact":
            from scipy.special import gammaincinv

            contacts = gammaincinv(trust.contact_shape, uniform)
            return np.asarray(-np.expm1(-contacts * trust.contact_time_s / trust.contact_scale_s))
        case "distance":
            return trust.distance_share * _nearness(trust, distance_m) + (1 - trust.distance_share) * uniform


def least_draws(trust: Trust, distance_m: float = 0.0) -> tuple[float, float]:
    """Return the draws below which no pair at that distance or further can meet `trust.min_closeness`.

    The first is for pairs within one community, the second for pairs across two. They are reduced by a rounding
    margin, so pairs above them must still be compared with the threshold.
    """
    inside, across = (_least_draw(trust, together, distance_m) for together in (True, False))
    return inside - _ROUNDING, across - _ROUNDING


def greatest_distance_m(trust: Trust) -> float:
    """Return the distance beyond which no pair can meet the threshold, m; infinite if closeness ignores distance."""
    if trust.generator != "distance":
        return np.inf
    needed = trust.min_closeness - (1 - trust.distance_share)
    if needed <= 0:
        return np.inf
    return float(trust.distance_scale_m * np.log(trust.distance_share / needed)) * (1 + _ROUNDING)


def communities_of(users: ArrayLike, trust: Trust, seed: int) -> Ints:
    """Return the community of each user, int64[...]; all communities are equally likely."""
    return (user_uniform(seed, "community", users) * trust.communities).astype(np.int64)


def _beta_parameters(trust: Trust, together: ArrayLike) -> tuple[Floats, Floats]:
    (inside_a, inside_b), (across_a, across_b) = trust.inside_beta, trust.across_beta
    return np.where(together, inside_a, across_a), np.where(together, inside_b, across_b)


def _nearness(trust: Trust, distance_m: ArrayLike | None) -> Floats:
    if distance_m is None:
        raise FedcastError("trust.generator = distance needs distance_m, the distance of each pair")
    return np.exp(-np.asarray(distance_m, dtype=np.float64) / trust.distance_scale_m)


def _least_draw(trust: Trust, together: bool, distance_m: float) -> float:
    """Return the distribution function at the threshold: the smallest draw that meets it (above 1 if none does)."""
    threshold = np.float64(trust.min_closeness)
    match trust.generator:
        case "uniform":
            least = threshold
        case "community":
            from scipy.special import betainc

            least = betainc(*_beta_parameters(trust, together), threshold)
        case "contact":
            from scipy.special import gammainc

            with np.errstate(divide="ignore"):
                contacts = -np.log1p(-threshold) * trust.contact_scale_s / trust.contact_time_s
            least = gammainc(trust.contact_shape, contacts)
        case "distance":
            needed = threshold - trust.distance_share * float(_nearness(trust, distance_m))
            with np.errstate(divide="ignore"):
                least = needed / (1 - trust.distance_share) if needed > 0 else np.float64(0)
    return float(least)
