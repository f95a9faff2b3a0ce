"""What is read off the bound: rounds to a target, their curve over skew, the best step size."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from fedcast.errors import FedcastError
from fedcast_paper.theory.bound import convergence_bound
from fedcast_paper.theory.checks import require
from fedcast_paper.theory.constants import Problem
from fedcast_paper.theory.forms import Form, step_size_limit, terms_of


def rounds_needed(setting: Problem, target: float, form: Form = "corrected") -> int:
    """The least T at which the bound is no more than the target excess loss.

    Raises:
        FedcastError: the floor of the bound is not below the target, so that no T will do at this step size.

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
        >>> from fedcast_paper.theory import problem
        >>> ten = problem(smoothness=1, gradient_bound=1, gradient_variance=0.5, step_size=0.01, local_steps=5,
        ...               initial_distance=3, divergences=[1.0] * 10)
        >>> curve = rounds_curve(ten, 0.1)
        >>> round(curve.beta, 3), round(curve.rounds(1.0), 1)
        (12.312, 994.5)
    """
    eta, terms = setting.step_size, terms_of(setting, form)
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
