r"""The number of rounds as a function of skew, with its uncertainty.

A `RoundsModel` is a fitted curve (see `fedcast.rounds.forms`) with its error, its range and the uncertainty of its
parameters. `RoundsModel.draw` returns a finite set of parameter vectors, the :math:`\beta` over which an allocation
takes its expectation :math:`\mathbb{E}_\beta[T]`.

With a Gaussian :math:`\beta` the denominator reaches 0 with positive density and :math:`\mathbb{E}_\beta[T]` does not
exist. Draws are therefore truncated: a vector is kept only if T is positive and nondecreasing on
[0, D before sharing] and at most `RoundsModel.max_rounds` there. Form ``law`` ends earlier, at the largest skew from
which the target is reached in as many rounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, get_args

import numpy as np

from fedcast.errors import FedcastError, NotReachableError, OutsideFitError
from fedcast.random import generator
from fedcast.rounds.forms import FORMS, ROUND_END, Curve, FormName
from fedcast.rounds.worth import Worth
from fedcast.typing import Floats

MeasureName = Literal["emd", "js", "kl"]

# Draws tried for each one requested before a fit counts as too uncertain.
_TRIES_PER_DRAW = 50
# Tolerance of the range: skews are computed in floating point.
_TOLERANCE = 1e-9
_BISECTIONS = 40


@dataclass(frozen=True, eq=False)
class AccuracyFit:
    """Final accuracy against skew, nonincreasing and piecewise linear."""

    skew: Floats  # [N], knots, ascending
    accuracy: Floats  # [N], at each knot, nonincreasing
    nmse: float  # squared error over the variance of the accuracies

    def at(self, skew: float) -> float:
        """Return the final accuracy at an average skew; beyond the knots that of the nearest.

        Example:
            >>> round(AccuracyFit(np.array([0.5, 1.5]), np.array([0.98, 0.94]), 0.0).at(1.0), 2)
            0.96
        """
        return float(np.interp(skew, self.skew, self.accuracy))


class ExpectedRounds(NamedTuple):
    """Expected rounds at one point, and their slopes."""

    rounds: float
    by_skew: float
    by_shift: float
    by_steps: float


@dataclass(frozen=True, eq=False)
class BetaSet:
    """A finite set of parameter vectors that are all valid up to some skew.

    Beyond `up_to` every curve continues along its tangent, so that a search that gets there meets neither a pole nor a
    decrease of T. Outside `steps_range` T continues as a power of the local steps, with the exponent that it has at the
    end of the range but not outside [-1, 0]: more steps never cost rounds, and save them in proportion at most.
    """

    form: FormName  # of the curve
    betas: Floats  # [S, P]
    round_scale: float  # rounds per unit of the curve
    up_to: float  # skew up to which every vector was checked
    rejected: int = 0  # number of vectors that were drawn and rejected
    steps_range: tuple[float, float] = (0.0, np.inf)  # local steps that the fit covers; used by ``law`` only

    @property
    def size(self) -> int:
        """Return the number of vectors S."""
        return len(self.betas)

    def only(self, chosen: int) -> BetaSet:
        """Return the set of one of its vectors."""
        return replace(self, betas=self.betas[chosen : chosen + 1])

    def curves(self, skew: float, shift: float = 0.0, steps: float = 1.0) -> Curve:
        """Return T and its derivatives for each vector, in rounds."""
        inside = min(skew, self.up_to)
        covered = min(max(steps, self.steps_range[0]), self.steps_range[1])
        curve = FORMS[self.form].curve(self.betas, inside, shift, covered)
        if covered != steps:
            curve = _at_other_steps(curve, covered, steps)
        beyond = skew - inside
        if beyond > 0:
            curve = curve._replace(rounds=curve.rounds + beyond * curve.slope, curvature=np.zeros_like(curve.rounds))
        return Curve(*(self.round_scale * part for part in curve))

    def expected(self, skew: float, shift: float = 0.0, steps: float = 1.0) -> ExpectedRounds:
        """Return the means over the vectors of T and its slopes, in rounds.

        Example:
            >>> BetaSet("theory", np.array([[4.0, 8.0]]), 100.0, 1.8).expected(0.0).rounds
            200.0
        """
        curve = self.curves(skew, shift, steps)
        means = (curve.rounds, curve.slope, curve.shift_slope, curve.steps_slope)
        return ExpectedRounds(*(float(values.sum()) / self.size for values in means))


def _at_other_steps(curve: Curve, covered: float, steps: float) -> Curve:
    """Return a curve of form ``law`` at other local steps than those it is given for."""
    exponent = np.clip(curve.steps_slope * covered / (curve.rounds - ROUND_END), -1.0, 0.0)
    factor = (steps / covered) ** exponent
    rounds = (curve.rounds - ROUND_END) * factor
    return Curve(
        rounds + ROUND_END,
        curve.slope * factor,
        curve.curvature * factor,
        curve.shift_slope * factor,
        exponent * rounds / steps,
    )


@dataclass(frozen=True, eq=False)
class RoundsModel:
    """A fit of the rounds to a target accuracy."""

    name: str  #: of the fit
    form: FormName  #: of the curve
    beta: Floats  #: float64[P], the best fit
    target_accuracy: float  #: accuracy reached after T rounds
    nmse: float  #: :math:`\sum_i (T_i - \hat T_i)^2 / \sum_i (T_i - \bar T)^2` over the runs
    skew_range: tuple[float, float]  #: least and largest average skew that the fit covers
    max_rounds: float  #: largest rounds, in the unit of the curve, that the fit covers; no draw exceeds it
    #: least and largest shift of the overall label distribution; used by ``extended`` only
    shift_range: tuple[float, float] = (0.0, 2.0)
    #: least and largest mean number of local steps in a round that the fit covers; used by ``law`` only, which is
    #: extrapolated beyond
    steps_range: tuple[float, float] = (0.0, np.inf)
    round_scale: float = 1.0  #: rounds per unit of the curve; 1 for fits in true rounds
    measure: MeasureName = "emd"  #: of the average skew D: ``emd``, ``js`` or ``kl``
    #: float64[S, P], bootstrap fits; empty: draws are `beta` with noise
    samples: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    relative_noise: float = 0.0  #: standard deviation of that noise, as a share of each parameter
    rejected: int = 0  #: number of bootstrap fits that were rejected
    accuracy: AccuracyFit | None = None  #: final accuracy against skew, if it is known
    source: str = ""  #: origin of the runs
    run_scale: float | None = None  #: scale of the logistic error of ln T of one run; None: not known
    worth: Mapping[str, Worth] = field(default_factory=dict)  #: of generated samples, by kind of sharing

    def __post_init__(self) -> None:
        known = get_args(MeasureName)
        if self.measure not in known:
            raise FedcastError(
                f"rounds.fit {self.name!r}: invalid measure {self.measure!r}: choose one of {', '.join(known)}"
            )

    def rounds(self, skew: float, shift: float = 0.0, steps: float = 1.0) -> float:
        """Return the rounds of the best fit; an error outside its range.

        Example:
            >>> from fedcast.rounds import load_fit
            >>> round(load_fit("paper-0.95").model("paper", round_scale=100).rounds(0.9))
            222
        """
        return float(self.curve(skew, shift, steps).rounds[0])

    def curve(self, skew: float, shift: float = 0.0, steps: float = 1.0) -> Curve:
        """Return the best fit and its derivatives, float64[1] each, in rounds; an error outside its range."""
        self.check(skew, shift)
        return self._set_of(self.beta[None, :], self.skew_range[1]).curves(skew, shift, steps)

    def interval(
        self, skew: float, steps: float, shift: float = 0.0, *, level: float = 0.9
    ) -> tuple[float, float] | None:
        """Return the prediction interval of the round in which one run meets the target; None: not known.

        It covers the noise of one run and the uncertainty of the parameters, as the bootstrap shows it.
        """
        if self.run_scale is None or not len(self.samples):
            return None
        covered = self._at_most_reachable(skew, steps)
        medians = np.log(self._set_of(self.samples, covered).curves(skew, shift, steps).rounds - ROUND_END)
        ends = (
            logistic_mixture_quantile(medians, self.run_scale, share) for share in ((1 - level) / 2, (1 + level) / 2)
        )
        low, high = (float(np.ceil(np.exp(end))) for end in ends)
        return low, high

    def reachable(self, steps: float) -> float:
        """Return the skew up to which form ``law`` reaches the target in `max_rounds` without a shift of labels.

        Of other forms, the end of their range.
        """
        low, high = self.skew_range
        if self._reaches(high, steps):
            return high
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._reaches(middle, steps) else (low, middle)
        return low

    def _reaches(self, skew: float, steps: float) -> bool:
        if self.form != "law":
            return True
        betas = self.samples if len(self.samples) else self.beta[None, :]
        if not (betas[:, 1] > skew**2).all():
            return False
        return bool((self._set_of(betas, skew).curves(skew, 0.0, steps).rounds <= self.max_rounds).all())

    def _at_most_reachable(self, skew: float, steps: float) -> float:
        """Return the smaller of a skew and `reachable`, which is mostly not needed for it."""
        inside = min(skew, self.skew_range[1])
        return inside if self._reaches(inside, steps) else min(inside, self.reachable(steps))

    def _set_of(self, betas: Floats, up_to: float, rejected: int = 0) -> BetaSet:
        return BetaSet(self.form, betas, self.round_scale, up_to, rejected, self.steps_range)

    def check(self, skew: float, shift: float = 0.0) -> None:
        """Raise an error if the fit does not cover a skew or shift."""
        asked = {f"average {self.measure.upper()}": (skew, self.skew_range)}
        if self.form == "extended":
            asked["shift of the overall label distribution"] = (shift, self.shift_range)
        for what, (value, (low, high)) in asked.items():
            if not low - _TOLERANCE <= value <= high + _TOLERANCE:
                raise OutsideFitError(
                    f"rounds.fit {self.name!r}: the {what} is {value:.6g}, the fit covers {low:.6g} to {high:.6g}; "
                    f"choose a fit that covers it, or make one with `fedcast fit-rounds`"
                )

    def check_target(self, skew: float, rounds: float = 0.0) -> None:
        """Raise an error if form ``law`` does not expect to reach the target accuracy at this skew."""
        if self.form == "law" and rounds > self.max_rounds:
            raise NotReachableError(
                f"an accuracy of {self.target_accuracy:g} is not reachable at an average {self.measure.upper()} of "
                f"{skew:.4g}: fit {self.name!r} predicts more than {self.max_rounds:,.0f} rounds; lower "
                f"rounds.target_accuracy, or share more"
            )

    def target_notes(self, skew: float) -> tuple[str, ...]:
        """Return a note if runs at this skew ended below the target accuracy, as far as the fit knows."""
        if self.accuracy is None or (reached := self.accuracy.at(skew)) >= self.target_accuracy:
            return ()
        return (
            f"rounds.target_accuracy = {self.target_accuracy:g}: runs of fit {self.name} reached {reached:.4f} at an "
            f"average {self.measure.upper()} of {skew:.4g}; lower the target, or share more",
        )

    def draw(self, count: int, up_to: float, seed: int = 0, steps: float = 1.0) -> BetaSet:
        """Draw parameter vectors for an expectation, all valid on skews from 0 to `up_to`.

        They are the bootstrap fits in random order, repeated if more are requested than there are; without bootstrap,
        the best fit with independent Gaussian noise on each parameter, truncated by rejection.

        Args:
            count: number of vectors.
            up_to: average skew before sharing; must be in range.
            seed: of the draws.
            steps: mean number of local steps in a round before sharing.

        Example:
            >>> from fedcast.rounds import load_fit
            >>> betas = load_fit("paper-0.95").model("paper", round_scale=100).draw(200, up_to=1.44)
            >>> betas.size, betas.rejected
            (200, 4)
        """
        self.check(up_to)
        up_to = self._at_most_reachable(up_to, steps)
        draw = generator(seed, f"rounds/{self.name}/{self.form}")
        candidates = self._candidates(count, draw)
        valid = self._valid(candidates, up_to, steps)
        kept = candidates[valid]
        if not len(kept) or (not len(self.samples) and len(kept) < count):
            raise OutsideFitError(
                f"rounds.fit {self.name!r}: {len(candidates) - len(kept)} of {len(candidates)} draws of its parameters "
                f"have a pole, a decrease or more than {self.round_scale * self.max_rounds:.4g} rounds below an "
                f"average {self.measure.upper()} of {up_to:.4g}; the fit is too uncertain there: make one with "
                f"`fedcast fit-rounds`"
            )
        if len(self.samples):
            kept, rejected = np.resize(kept, (count, kept.shape[1])), int((~valid).sum())
        else:
            last = int(np.flatnonzero(valid)[count - 1])
            kept, rejected = kept[:count], int((~valid[: last + 1]).sum())
        return self._set_of(kept, up_to, rejected)

    def _candidates(self, count: int, draw: np.random.Generator) -> Floats:
        if len(self.samples):
            return draw.permutation(self.samples)
        if self.relative_noise == 0:
            return np.tile(self.beta, (count, 1))
        noise = draw.standard_normal((_TRIES_PER_DRAW * count, len(self.beta)))
        return self.beta * (1 + self.relative_noise * noise)

    def _valid(self, betas: Floats, up_to: float, steps: float) -> np.ndarray:
        form = FORMS[self.form]
        covered = min(max(steps, self.steps_range[0]), self.steps_range[1])
        with np.errstate(divide="ignore", over="ignore"):
            # T is nondecreasing on the interval, so it is largest at its end.
            ends = replace(self._set_of(betas, up_to), round_scale=1.0).curves(up_to, self.shift_range[0], steps).rounds
        return form.valid(betas, up_to, covered) & (ends <= self.max_rounds)


def logistic_mixture_quantile(medians: Floats, scale: float, share: float) -> Floats:
    """Return the quantile of an equal mixture of logistic distributions with medians float64[S, ...], by bisection."""
    from scipy.special import expit

    spread = scale * abs(np.log(share / (1 - share)))
    low, high = medians.min(axis=0) - spread, medians.max(axis=0) + spread
    for _ in range(60):
        middle = (low + high) / 2
        with np.errstate(invalid="ignore"):
            below = expit((middle - medians) / scale).mean(axis=0) < share
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.where(np.isinf(medians).any(axis=0), np.inf, high)
