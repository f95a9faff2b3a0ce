r"""The forms of rounds against skew and local work, with derivatives, for many parameter vectors at once.

.. math::
    \text{paper (Eq. 31)}\quad & T(D) = \frac{1}{\beta_1 D^2 + \beta_2 D + \beta_3} \\
    \text{theory (Theorem 2)}\quad & T(D) = \frac{\sigma}{\beta - D^2} \\
    \text{extended}\quad & \ln T(D, h) = b_0 + b_1 D + b_2 h \\
    \text{law}\quad & \ln(T(D, s, h) - \tfrac12) = a - \ln(\beta - D^2) + \gamma \ln s + \kappa \ln^2 s
    + D^2 (\delta \ln s + \epsilon) + \zeta h

with D the average skew after sharing, h the shift of the overall label distribution, s the mean number of local steps
in a round. The learning rate is fixed here and is in the parameters (`fedcast.rounds.law` has the law for all of them).
The law's own time is continuous and training ends with a whole round: half a round later on average.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcast.typing import Floats

FormName = Literal["paper", "theory", "extended", "law"]

# Mean time from when the target is met to the end of that round; in the whole rounds of form ``law``.
ROUND_END = 0.5
# Of ln T, for parameters of few runs far from these: fewer and more rounds than any task has, and far from an overflow.
_LOG_RANGE = (-20.0, 100.0)


class Curve(NamedTuple):
    """Rounds at one point, one entry for each parameter vector, float64[S] each."""

    rounds: Floats  # T
    slope: Floats  # dT/dD
    curvature: Floats  # d²T/dD²
    shift_slope: Floats  # dT/dh; 0 for forms without shift
    steps_slope: Floats  # dT/ds; 0 for forms without local steps


@dataclass(frozen=True)
class Form:
    """A form of rounds against skew."""

    parameters: tuple[str, ...]  # names of the entries of a parameter vector
    #: (betas[S, P], skew, shift, steps) to the curve there; betas are not checked
    curve: Callable[[Floats, float, float, float], Curve]
    #: (betas[S, P], up_to, steps) to bool[S]: T is positive, finite and nondecreasing in skew on [0, up_to], with so
    #: many local steps
    valid: Callable[[Floats, float, float], NDArray[np.bool_]]


def _inverse(denominator: Floats, slope: Floats, curvature: Floats) -> Curve:
    """Return the curve of 1/q from q, q' and q''."""
    rounds = 1 / denominator
    first = -slope * rounds**2
    second = (2 * slope**2 * rounds - curvature) * rounds**2
    return Curve(rounds, first, second, np.zeros_like(rounds), np.zeros_like(rounds))


def paper_curve(betas: Floats, skew: float, *_: float) -> Curve:
    """Return the curve of Eq. 31, in the unit of the fit."""
    first, second, third = betas.T
    return _inverse((first * skew + second) * skew + third, 2 * first * skew + second, 2 * first)


def _paper_valid(betas: Floats, up_to: float, _: float) -> NDArray[np.bool_]:
    first, second, third = betas.T
    # q' is linear, so q decreases on the whole interval iff it does at both ends; then q is least at the end.
    falls = (second <= 0) & (2 * first * up_to + second <= 0)
    positive: NDArray[np.bool_] = falls & ((first * up_to + second) * up_to + third > 0)
    return positive


def theory_curve(betas: Floats, skew: float, *_: float) -> Curve:
    """Return the curve of Theorem 2; parameters beta and scale."""
    beta, scale = betas.T
    curve = _inverse(beta - skew**2, np.full_like(beta, -2 * skew), np.full_like(beta, -2.0))
    return Curve(*(scale * part for part in curve))


def _theory_valid(betas: Floats, up_to: float, _: float) -> NDArray[np.bool_]:
    beta, scale = betas.T
    valid: NDArray[np.bool_] = (beta > up_to**2) & (scale > 0)
    return valid


def extended_curve(betas: Floats, skew: float, shift: float, _: float) -> Curve:
    """Return the curve that is log-linear in skew and shift."""
    base, by_skew, by_shift = betas.T
    rounds = np.exp(base + by_skew * skew + by_shift * shift)
    return Curve(rounds, by_skew * rounds, by_skew**2 * rounds, by_shift * rounds, np.zeros_like(rounds))


def _extended_valid(betas: Floats, *_: float) -> NDArray[np.bool_]:
    return np.isfinite(betas).all(axis=1) & (betas[:, 1] >= 0)


def law_curve(betas: Floats, skew: float, shift: float, steps: float) -> Curve:
    """Return the curve of the law of rounds at one learning rate."""
    base, beta, by_steps, square, skew_steps, by_square, by_shift = betas.T
    log_steps = np.log(steps)
    # Derivative by D² of all but the pole.
    room, rise = beta - skew**2, skew_steps * log_steps + by_square
    at_room = base + (by_steps + square * log_steps) * log_steps + rise * skew**2 + by_shift * shift
    rounds = np.exp(np.clip(at_room, *_LOG_RANGE)) / room
    # Derivatives of ln T: first = 2 D half.
    half = 1 / room + rise
    first, second = 2 * skew * half, 2 * half + (2 * skew / room) ** 2
    by_log_steps = by_steps + 2 * square * log_steps + skew_steps * skew**2
    slopes = (by_shift * rounds, by_log_steps * rounds / steps)
    derivatives = (first * rounds, (second + first**2) * rounds, *slopes)
    return Curve(rounds + ROUND_END, *derivatives)


def _law_valid(betas: Floats, up_to: float, steps: float) -> NDArray[np.bool_]:
    _, beta, _, _, skew_steps, by_square, _ = betas.T
    # ln T increases with D² by 1/(beta - D²) + skew_steps ln s + by_square, which is least at D = 0.
    rises = 1 / beta + skew_steps * np.log(steps) + by_square >= 0
    valid: NDArray[np.bool_] = np.isfinite(betas).all(axis=1) & (beta > up_to**2) & rises
    return valid


FORMS: dict[FormName, Form] = {
    "paper": Form(("beta1", "beta2", "beta3"), paper_curve, _paper_valid),
    "theory": Form(("beta", "scale"), theory_curve, _theory_valid),
    "extended": Form(("b0", "b1", "b2"), extended_curve, _extended_valid),
    "law": Form(("a", "beta", "steps", "steps_square", "skew_steps", "skew", "shift"), law_curve, _law_valid),
}
