r"""Account for what differentially private releases reveal, all of them together, as (ε, δ).

Two data sets are neighbours if one sample is replaced, its input *and* its label; their size is public. A release of a
vector of :math:`L_2` sensitivity :math:`\Delta` with Gaussian noise :math:`\sigma` is :math:`\mu`-GDP with
:math:`\mu = \Delta/\sigma` (Dong, Roth, Su 2022). Releases compose to :math:`\sqrt{\sum\mu^2}`, also if a later one was
chosen after looking at earlier ones, and :math:`\mu`-GDP is the same as :math:`(\varepsilon, \delta(\varepsilon))`-DP
for all :math:`\varepsilon \ge 0` (the analytic Gaussian mechanism, Balle and Wang 2018):

.. math::

    \delta(\varepsilon) = \Phi(\mu/2 - \varepsilon/\mu) - e^\varepsilon\,\Phi(-\mu/2 - \varepsilon/\mu)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from scipy.special import log_ndtr, ndtri

from fedcast.errors import FedcastError

#: δ where no other is given: below one in the samples of any user.
DEFAULT_DELTA = 1e-5

# Beyond these a guarantee means nothing, and e^ε is still a finite number.
MOST_EPSILON = 500.0
_MOST_MU = 100.0
_BISECTIONS = 100


@dataclass(frozen=True)
class Release:
    """One release, counted once however many users receive it: μ of a Gaussian mechanism, or ε of one with δ = 0."""

    what: str  #: a name for people
    mu: float = 0.0
    epsilon: float = 0.0


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the smallest δ for which μ-GDP implies (ε, δ)-DP.

    Example:
        >>> round(gaussian_delta(1.0, 0.0), 6), round(gaussian_delta(1.0, 4.0), 8)
        (0.382925, 4.712e-05)
    """
    if mu == 0:
        return 0.0
    first, second = float(log_ndtr(mu / 2 - epsilon / mu)), epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    # Not the difference of two exponentials, which for small δ would be rounding alone.
    return -math.exp(first) * math.expm1(min(second - first, 0.0))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest ε for which μ-GDP implies (ε, δ)-DP.

    Example:
        >>> round(gaussian_epsilon(1.0, 1e-5), 3)
        4.377
    """
    _check_delta(delta)
    if not 0 <= mu <= _MOST_MU:
        raise FedcastError(f"invalid value {mu:g} for mu: expected 0 … {_MOST_MU:g}")
    most = mu * (mu / 2 - float(ndtri(delta))) + 1.0  # the first term of δ(ε) alone is below δ there
    return _bisect(lambda epsilon: gaussian_delta(mu, epsilon) <= delta, 0.0, most)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest μ for which μ-GDP implies (ε, δ)-DP: noise Δ/μ is enough for a sensitivity Δ.

    Example:
        >>> round(1 / gaussian_mu(1.0, 1e-5), 3)
        3.731
    """
    _check_delta(delta)
    check_epsilon(epsilon)
    # The last μ that is still enough, not the first one that is not: rounding must not weaken the guarantee.
    return -_bisect(lambda negative: gaussian_delta(-negative, epsilon) <= delta, -_MOST_MU, 0.0)


def pure_mu(epsilon: float) -> float:
    r"""Return the smallest μ for which every ε-DP mechanism is μ-GDP: :math:`-2\,\Phi^{-1}(1/(1 + e^\varepsilon))`.

    Both trade-off functions are convex and symmetric and start at 1, so that they need to be compared only where they
    meet the diagonal (Liu, Sun, Kong et al. 2022).
    """
    check_epsilon(epsilon)
    return -2 * float(ndtri(1 / (1 + math.exp(epsilon))))


def total_mu(releases: Iterable[Release]) -> float:
    """Return μ of all releases together.

    Example:
        >>> total_mu([Release("today", mu=3.0), Release("tomorrow", mu=4.0)])
        5.0
    """
    return math.hypot(*(math.hypot(each.mu, pure_mu(each.epsilon) if each.epsilon else 0.0) for each in releases))


def total_epsilon(releases: Iterable[Release], delta: float) -> float:
    """Return ε of all releases together at this δ, the smaller of two bounds.

    Releases with δ = 0 add up their ε beside that of all Gaussian ones, or count as Gaussian ones themselves.

    Example:
        >>> total_epsilon([Release("counts", epsilon=0.5), Release("counts of other data", epsilon=0.2)], 1e-5)
        0.7
    """
    releases = list(releases)
    pure = math.fsum(each.epsilon for each in releases)
    beside = pure + gaussian_epsilon(math.hypot(*(each.mu for each in releases)), delta)
    return min(beside, gaussian_epsilon(total_mu(releases), delta)) if pure else beside


def check_budget(before: Iterable[Release], release: Release, budget: float | None, delta: float) -> float:
    """Return ε of all releases with a new one; raise an error if that is above the budget (None: no limit)."""
    before = list(before)
    spent = total_epsilon([*before, release], delta)
    if budget is not None and spent > budget * (1 + 1e-9):
        raise FedcastError(
            f"the privacy budget is spent: ε = {total_epsilon(before, delta):.4g} of {budget:g}, and {release.what} "
            f"would make it {spent:.4g} (δ = {delta:g}); raise the budget, or ask for a smaller epsilon"
        )
    return spent


def check_epsilon(epsilon: float) -> None:
    """Raise an error if this is no ε of a guarantee that means anything."""
    if not 0 <= epsilon <= MOST_EPSILON:
        raise FedcastError(f"invalid value {epsilon:g} for epsilon: expected 0 … {MOST_EPSILON:g}")


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise FedcastError(f"invalid value {delta:g} for delta: expected a number between 0 and 1, such as 1e-5")


def _bisect(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return the smallest number from which on a condition holds, rounded up; it holds at `high`."""
    if holds(low):
        return low
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
