"""Rounds to a target from the convergence bound, as a function of skew, and the best step size."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from fedcast.errors import FedcastError
from fedcast_paper.theory.bounds import convergence_bound
from fedcast_paper.theory.constants import ConvexProblem, Form, require, step_size_limit, terms_of


def rounds_needed(setting: ConvexProblem, target: float, form: Form = "corrected") -> int:
    """Return the smallest T at which the bound is at most the target excess loss.

    Raises:
        FedcastError: the floor of the bound is not below the target, so no T is sufficient at this step size.

    Example:
        >>> from fedcast_paper.theory import problem
        >>> ten = problem(smoothness=1, gradient_bound=1, gradient_variance=0.5, step_size=0.01, local_steps=5,
        ...               initial_distance=3, divergences=[1.0] * 10)
        >>> rounds_needed(ten, 0.1), rounds_needed(ten, 0.1, "sharp")
        (995, 909)
    """
    terms = terms_of(setting, form)
    floor = terms.floor(setting.step_size)
    if not floor < target < math.inf:
        raise FedcastError(
            f"invalid value {target:g} for target: expected more than {floor:g}, the floor of the {form} bound at "
            f"step_size {setting.step_size:g}; choose a smaller step size (`best_step_size`), fewer local "
            f"steps or less skew"
        )
    wanted = terms.start / (setting.step_size * setting.local_steps) / (target - floor)
    if not math.isfinite(wanted):
        raise FedcastError(f"invalid value {target:g} for target: too close to {floor:g}, the floor of the bound")
    rounds = max(1, math.ceil(wanted))
    if rounds > 1 and convergence_bound(setting, rounds - 1, form).total <= target:
        return rounds - 1  # the division was rounded up past a whole number
    return rounds if convergence_bound(setting, rounds, form).total <= target else rounds + 1


@dataclass(frozen=True)
class RoundsCurve:
    r"""Rounds to a target by the bound, :math:`T(D) = s / (\beta - D^2)`.

    Attributes:
        scale: s, rounds.
        beta: :math:`\beta`, the :math:`D^2` above which no number of rounds is sufficient.
    """

    scale: float
    beta: float

    def rounds(self, skew_square: float) -> float:
        r"""Return T, not rounded, for :math:`D^2`: the mean of the users' squares, for ``printed`` :math:`K \bar D^2`.

        Example:
            >>> RoundsCurve(scale=100.0, beta=2.0).rounds(1.0)
            100.0
        """
        if not 0 <= skew_square < self.beta:
            raise FedcastError(f"invalid value {skew_square:g} for skew_square: expected a value in [0, {self.beta:g})")
        return self.scale / (self.beta - skew_square)


def rounds_curve(setting: ConvexProblem, target: float, form: Form = "corrected") -> RoundsCurve:
    r"""Return the curve :math:`s/(\beta - D^2)` that follows from the bound at a fixed step size.

    Solve the bound for T, with :math:`r` for all terms except that of the skew:

    .. math::
        T = \frac{A^2 / (2 \eta E)}{\theta - r - \kappa D^2} = \frac{s}{\beta - D^2}, \qquad
        \beta = \frac{\theta - r}{\kappa}, \quad s = \frac{A^2}{2 \eta E \kappa}

    :math:`\beta` depends on the target, the step size and E. The pole is due to the fixed step size; at
    `best_step_size` T has no pole and is asymptotically proportional to D.

    Args:
        setting: constants of the problem; its weights are used, its divergences are not.
        target: excess loss :math:`\theta`.
        form: which of the three.

    Example:
        >>> from fedcast_paper.theory import problem
        >>> ten = problem(smoothness=1, gradient_bound=1, gradient_variance=0.5, step_size=0.01, local_steps=5,
        ...               initial_distance=3, divergences=[1.0] * 10)
        >>> curve = rounds_curve(ten, 0.1)
        >>> round(curve.beta, 3), round(curve.rounds(1.0), 1)
        (12.312, 994.5)
    """
    eta, terms = setting.step_size, terms_of(setting, form)
    if terms.skew == 0:
        raise FedcastError(
            "invalid value 1 for local_steps: with one local step there is no drift, and rounds do not depend on skew"
        )
    rest = terms.noise(eta) + terms.drift * eta**2
    if not rest < target < math.inf:
        raise FedcastError(
            f"invalid value {target:g} for target: expected more than {rest:g}, the floor due to noise at "
            f"step_size {eta:g}"
        )
    slope = terms.skew * eta**2
    return RoundsCurve(terms.start / (eta * setting.local_steps) / slope, (target - rest) / slope)


def best_step_size(setting: ConvexProblem, target: float, form: Form = "corrected") -> float:
    r"""Return the step size at which the bound reaches a target excess loss in the fewest rounds, w²/loss.

    The bound is :math:`\frac{s}{\eta E T} + a \eta + b \eta^2`, so T is smallest where
    :math:`\eta (\theta - a \eta - b \eta^2)` is largest,

    .. math:: \eta = \frac{\theta}{a + \sqrt{a^2 + 3 b \theta}}

    or at `step_size_limit` if that is smaller. Every positive target can be reached at any skew.

    Example:
        >>> from dataclasses import replace
        >>> from fedcast_paper.theory import problem
        >>> ten = problem(smoothness=1, gradient_bound=1, gradient_variance=0.5, step_size=0.01, local_steps=5,
        ...               initial_distance=3, divergences=[1.0] * 10)
        >>> eta = best_step_size(ten, 0.1)
        >>> round(eta, 4), rounds_needed(replace(ten, step_size=eta), 0.1)
        (0.0191, 712)
    """
    limit = step_size_limit(setting.smoothness, form)
    terms = terms_of(replace(setting, step_size=limit), form)
    require(0 < target < math.inf, "target", target, "a positive, finite excess loss")
    curvature = terms.square + terms.drift + terms.skew * terms.skew_square
    root = terms.linear + math.sqrt(terms.linear**2 + 3 * curvature * target)
    return limit if root == 0 else min(limit, target / root)
