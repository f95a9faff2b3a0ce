"""The three forms of the bound: where each holds, and its terms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from fedcast.errors import FedcastError
from fedcast_paper.theory.checks import ROUNDING
from fedcast_paper.theory.constants import Problem

Form = Literal["printed", "corrected", "sharp"]

_LIMIT: dict[str, float] = {"printed": 0.25, "corrected": 0.25, "sharp": 1.0}


def step_size_limit(smoothness: float, form: Form = "corrected") -> float:
    r"""Largest step size for which a form holds: :math:`1/(4L)`, for ``sharp`` :math:`1/L`.

    Example:
        >>> step_size_limit(2.0), step_size_limit(2.0, "sharp")
        (0.125, 0.5)
    """
    if form not in _LIMIT:
        raise FedcastError(f"form: {form!r} is unknown, expected one of {', '.join(_LIMIT)}")
    return _LIMIT[form] / smoothness


def check_form(setting: Problem, form: Form) -> None:
    """Refuse a problem to which a form does not apply."""
    limit = step_size_limit(setting.smoothness, form)
    if setting.step_size > limit * (1 + ROUNDING):
        hint = "" if form == "sharp" else "; the form 'sharp' allows four times as much"
        raise FedcastError(
            f"step_size: {setting.step_size:g} is above {limit:g} = {_LIMIT[form]:g}/smoothness, where the {form} "
            f"bound ends; take a smaller step{hint}"
        )
    if form == "printed" and np.ptp(setting.weights) > ROUNDING:
        raise FedcastError("weights: the printed form knows only users of equal weight; use 'corrected' or 'sharp'")


@dataclass(frozen=True)
class Terms:
    """The bound as start/(ηET) + linear η + (square + drift + skew·skew_square) η², whatever the step size.

    Attributes:
        start: what the distance at the start costs.
        linear: noise of the averaged gradient.
        square: the same, in η².
        drift: drift of local models by noise.
        skew: drift of local models by a skew of 1.
        skew_square: the skew D² as the form has it.
    """

    start: float
    linear: float
    square: float
    drift: float
    skew: float
    skew_square: float

    def noise(self, eta: float) -> float:
        """What the noise of the averaged gradient leaves."""
        return self.linear * eta + self.square * eta**2

    def floor(self, eta: float) -> float:
        """What no number of rounds removes."""
        return self.noise(eta) + (self.drift + self.skew * self.skew_square) * eta**2


def terms_of(setting: Problem, form: Form) -> Terms:
    """The terms of a form, for a problem to which it applies."""
    check_form(setting, form)
    return {"printed": _printed, "corrected": _corrected, "sharp": _sharp}[form](setting)


def _printed(setting: Problem) -> Terms:
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


def _corrected(setting: Problem) -> Terms:
    steps = setting.local_steps
    return replace(
        _printed(setting),
        start=setting.initial_distance**2 / 2,
        skew=setting.smoothness * setting.gradient_bound**2 * steps * (2 * steps + 6),
        skew_square=setting.mean_square_divergence,
    )


def _sharp(setting: Problem) -> Terms:
    smooth, steps, variance = setting.smoothness, setting.local_steps, setting.gradient_variance
    averaged = setting.concentration * variance
    return replace(
        _corrected(setting),
        linear=averaged / 2,
        square=smooth * averaged / 2,
        drift=smooth * max(0.0, variance - averaged) * (steps - 1) / 2,
        skew=smooth * setting.gradient_bound**2 * (steps - 1) * (2 * steps - 1) / 6,
    )
