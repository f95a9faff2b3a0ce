r"""The law of rounds: rounds to a target accuracy against skew, local work and learning rate, fitted to training runs.

.. math:: \ln T = a - \ln(\beta - D^2) + \gamma_s \ln s + \gamma_\eta \ln \eta + \kappa_s \ln^2 s
    + \kappa_\eta \ln^2 \eta + \kappa \ln s \ln \eta + D^2 (\delta_s \ln s + \delta_\eta \ln \eta) + \zeta h

with D the average skew after sharing, s the mean number of local steps of a round, :math:`\eta` the learning rate and
h the shift of the overall label distribution by sharing, which never saves rounds (:math:`\zeta \ge 0`). At
:math:`D^2 \ge \beta` the target is not reachable. ``studies/rounds`` compares this form with others on settings that
they were not fitted to.

A run that meets its target in round T has met it after T - 1 rounds and not later than T; a run that ends before says
only that it needs longer. The parameters maximise the likelihood of these intervals, with a logistic error of ln T (a
log-logistic accelerated failure time model): its tails are heavier than Gaussian, so that outliers count less.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcast.errors import FedcastError, OutsideFitError
from fedcast.random import generator
from fedcast.rounds.fitting import TRUSTED_MULTIPLE, nmse
from fedcast.rounds.model import RoundsModel, logistic_mixture_quantile
from fedcast.rounds.worth import Worth
from fedcast.typing import Floats

PARAMETERS = (
    "a", "beta", "steps", "rate", "steps_square", "rate_square", "steps_rate", "skew_steps", "skew_rate", "shift",
)  # fmt: skip
# Distance of the pole from the largest skew seen, as a share of its square, where searches start.
_POLES = (0.05, 0.4, 2.7)
# Bounds of the logarithms of that share and of the scale of the errors.
_POLE_RANGE, _SCALE_RANGE = (-7.0, 4.0), (np.log(0.01), 0.0)
# Weak prior, in units of log-likelihood: it decides only between parameters that the runs cannot tell apart.
_PRIOR = 1e-3
# Normal prior of the squares and products, of standard deviation 1/2: few runs do not tell them from noise, and a large
# one extrapolates wildly.
_SQUARES, _PRIOR_OF_SQUARES = slice(4, 9), 2.0
_LEAST_LIKELY = 1e-12
# The learning rate may be outside the range of the runs by this factor.
_NEAR = 1.5
# No average EMD is larger; that of the runs, with ten classes, is at most 1.8.
_LARGEST_SKEW = 2.0


class Conditions(NamedTuple):
    """Conditions of a task that decide its rounds: numbers, or one number for each run, float64[R]."""

    skew: ArrayLike  # average skew D after sharing
    steps: ArrayLike  # mean number of local steps in a round, see `local_steps`
    learning_rate: ArrayLike
    shift: ArrayLike = 0.0  # of the overall label distribution, see `fedcast.data.distribution_shift`


def local_steps(own: ArrayLike, sizes: ArrayLike, epochs: int, batch_size: int) -> float:
    r"""Return the mean number of local steps in a round, :math:`E (\sum_k n_k \tilde n_k / (B \sum_k n_k) + 1/2)`.

    Users are weighted by their own samples, so that it is linear in what they receive; half a step stands for the last
    batch, which is smaller. `own` and `sizes` are samples before and after sharing, float[K].

    Example:
        >>> local_steps([100, 300], [200, 300], epochs=2, batch_size=10)
        56.0
    """
    held, after = np.asarray(own, dtype=np.float64), np.asarray(sizes, dtype=np.float64)
    return float(epochs * (held @ after / (batch_size * held.sum()) + 0.5))


@dataclass(frozen=True, eq=False)
class RoundsLaw:
    """A fitted law of rounds for one target accuracy."""

    target_accuracy: float
    theta: Floats  # [10], in the order of `PARAMETERS`
    scale: float  # scale of the logistic error of ln T of one run
    nmse: float  # squared error over the variance, of runs that met the target
    max_rounds: float  # more than so many are not trusted
    samples: Floats  # [S, 10], bootstrap fits
    skew_range: tuple[float, float]  # least and largest of the runs
    steps_range: tuple[float, float]
    rate_range: tuple[float, float]
    worth: Mapping[str, Worth] = field(default_factory=dict)  # of generated samples, by kind of sharing

    def rounds(self, at: Conditions) -> Floats:
        """Return the median number of rounds; infinite where the target is not reachable."""
        with np.errstate(over="ignore"):
            predicted: Floats = np.exp(log_rounds(self.theta, at))
        return predicted

    def interval(self, at: Conditions, level: float = 0.9) -> tuple[Floats, Floats]:
        """Return the prediction interval of the round in which a new run meets the target.

        It covers the noise of one run and the uncertainty of the parameters, as the bootstrap shows it.
        """
        medians = np.stack([log_rounds(theta, at) for theta in self.samples])
        tail = (1 - level) / 2
        ends = [logistic_mixture_quantile(medians, self.scale, share) for share in (tail, 1 - tail)]
        with np.errstate(over="ignore"):
            low, high = (np.ceil(np.exp(end)) for end in ends)
        return low, high

    def model(self, name: str, learning_rate: float, source: str = "") -> RoundsModel:
        """Return the rounds as a function of skew and local steps, at one learning rate."""
        low, high = self.rate_range
        if not low / _NEAR <= learning_rate <= high * _NEAR:
            raise OutsideFitError(
                f"training.learning_rate = {learning_rate:g}: fit {name!r} covers {low:g} to {high:g}; choose a rate "
                f"in this range, or another fit (rounds.fit)"
            )
        return RoundsModel(
            name,
            "law",
            _at_rate(self.theta[None], learning_rate)[0],
            self.target_accuracy,
            self.nmse,
            skew_range=(0.0, _LARGEST_SKEW),
            max_rounds=self.max_rounds,
            steps_range=self.steps_range,
            samples=_at_rate(self.samples, learning_rate),
            source=source,
            run_scale=self.scale,
            worth=self.worth,
        )


def _at_rate(thetas: Floats, learning_rate: float) -> Floats:
    """Return the parameters of form ``law`` at one learning rate, float64[S, 7]."""
    base, beta, steps, rate, steps_square, rate_square, steps_rate, skew_steps, skew_rate, shift = thetas.T
    log_rate = np.log(learning_rate)
    moved, slope = base + (rate + rate_square * log_rate) * log_rate, steps + steps_rate * log_rate
    return np.stack([moved, beta, slope, steps_square, skew_steps, skew_rate * log_rate, shift], axis=1)


def log_rounds(theta: Floats, at: Conditions) -> Floats:
    """Return the median of ln T for one parameter vector; infinite at the pole and beyond."""
    skew, steps, rate, shift = (np.asarray(value, dtype=np.float64) for value in at)
    room = theta[1] - skew**2
    linear: Floats = _terms(skew, steps, rate, shift) @ np.delete(theta, 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        predicted: Floats = np.where(room > 0, linear - np.log(room), np.inf)
    return predicted


def fit_law(
    at: Conditions,
    rounds: ArrayLike,
    met: ArrayLike,
    *,
    target_accuracy: float,
    bootstrap: int = 200,
    seed: int = 0,
) -> RoundsLaw:
    """Fit the law to training runs.

    Args:
        at: conditions of the runs, float[R] each; one shift may stand for all.
        rounds: int[R], first round that met the target; of runs that did not meet it, their last round.
        met: bool[R], whether the target was met.
        target_accuracy: that target.
        bootstrap: number of refits to runs drawn with replacement.
        seed: of these draws.

    Raises:
        FedcastError: invalid runs, or fewer that met the target, at different conditions, than parameters + 3.

    Example:
        >>> draw = np.random.default_rng(0)
        >>> at = Conditions(draw.uniform(0, 1.6, 80), draw.uniform(10, 300, 80), draw.choice([0.05, 0.1], 80))
        >>> truth = np.array([4.0, 3.3, -0.8, -0.7, *[0.0] * 6])
        >>> rounds = np.ceil(np.exp(log_rounds(truth, at)))
        >>> law = fit_law(at, rounds, rounds < 100, target_accuracy=0.9, bootstrap=0)
        >>> here = Conditions(skew=1.0, steps=60.0, learning_rate=0.1)
        >>> bool(abs(law.rounds(here) / np.exp(log_rounds(truth, here)) - 1) < 0.05)
        True
    """
    runs = _checked(at, rounds, met)
    reach = float(runs.skew.max())
    theta, scale = _fit(runs, reach)
    refits = []
    for sample in range(bootstrap):
        chosen = generator(seed, "rounds/law", round=sample).integers(len(runs.skew), size=len(runs.skew))
        refits.append(_fit(runs.chosen(chosen), reach, theta)[0])
    samples = np.array(refits).reshape(bootstrap, len(PARAMETERS))
    error = nmse(runs.rounds[runs.met], np.exp(log_rounds(theta, runs.conditions))[runs.met])
    most = TRUSTED_MULTIPLE * float(runs.rounds.max())
    skews, steps, rates = ((float(column.min()), float(column.max())) for column in (runs.skew, runs.steps, runs.rate))
    return RoundsLaw(target_accuracy, theta, scale, error, most, samples, skews, steps, rates)


def between(lower: RoundsLaw, upper: RoundsLaw, target_accuracy: float) -> RoundsLaw:
    """Return the law for a target between those of two laws that were fitted to the same runs with the same seed."""
    part = (target_accuracy - lower.target_accuracy) / (upper.target_accuracy - lower.target_accuracy)

    def mixed(low: Floats, high: Floats) -> Floats:
        return (1 - part) * low + part * high

    return replace(
        lower,
        target_accuracy=target_accuracy,
        theta=mixed(lower.theta, upper.theta),
        scale=(1 - part) * lower.scale + part * upper.scale,
        nmse=max(lower.nmse, upper.nmse),
        samples=mixed(lower.samples, upper.samples),
        worth={kind: low.mixed(upper.worth[kind], part) for kind, low in lower.worth.items() if kind in upper.worth},
    )


@dataclass(frozen=True, eq=False)
class _Runs:
    """Training runs."""

    skew: Floats  # [R]
    steps: Floats
    rate: Floats
    shift: Floats
    rounds: Floats
    met: NDArray[np.bool_]

    @property
    def conditions(self) -> Conditions:
        return Conditions(self.skew, self.steps, self.rate, self.shift)

    def chosen(self, runs: NDArray[np.int64]) -> _Runs:
        return _Runs(**{name: column[runs] for name, column in vars(self).items()})


def _checked(at: Conditions, rounds: ArrayLike, met: ArrayLike) -> _Runs:
    values = (at.skew, at.steps, at.learning_rate, rounds)
    skew, steps, rate, taken = (np.atleast_1d(np.asarray(value, dtype=np.float64)) for value in values)
    shift = np.asarray(at.shift, dtype=np.float64)
    shift = np.broadcast_to(shift, skew.shape) if shift.ndim == 0 else shift
    runs = _Runs(skew, steps, rate, shift, taken, np.atleast_1d(np.asarray(met, dtype=bool)))
    shapes = [column.shape for column in vars(runs).values()]
    if len(set(shapes)) > 1 or skew.ndim != 1:
        raise FedcastError(f"fit of rounds: arrays of shapes {', '.join(map(str, shapes))}; expected equal lengths")
    valid = np.isfinite([skew, steps, rate, shift, taken]).all(axis=0)
    valid &= (skew >= 0) & (shift >= 0) & (steps > 0) & (rate > 0) & (taken >= 1)
    if not valid.all():
        run = int(np.argmin(valid))
        raise FedcastError(
            f"fit of rounds, run {run}: skew {skew[run]:g}, local steps {steps[run]:g}, learning rate {rate[run]:g}, "
            f"shift {shift[run]:g}, rounds {taken[run]:g}; expected finite numbers, skew and shift ≥ 0, rounds ≥ 1, "
            f"the others > 0"
        )
    different, needed = len(np.unique(np.stack([skew, steps, rate, shift])[:, runs.met], axis=1).T), len(PARAMETERS) + 3
    if different < needed:
        raise FedcastError(
            f"fit of rounds: {int(runs.met.sum())} of {len(skew)} runs met the target, at {different} different "
            f"settings; expected {needed} at least: add runs, or lower the target"
        )
    return runs


def _terms(skew: Floats, steps: Floats, rate: Floats, shift: Floats) -> Floats:
    """Return the terms of ln T that are linear in the parameters, float64[..., 9]."""
    work, speed, square = np.log(steps), np.log(rate), skew**2
    return np.stack(
        np.broadcast_arrays(
            1.0, work, speed, work**2, speed**2, work * speed, square * work, square * speed, shift
        ),
        axis=-1,
    )  # fmt: skip


def _fit(runs: _Runs, reach: float, start: Floats | None = None) -> tuple[Floats, float]:
    """Return the parameters of largest likelihood, with the pole above `reach`², and the scale of the errors."""
    from scipy.optimize import minimize

    terms, squares = _terms(runs.skew, runs.steps, runs.rate, runs.shift), runs.skew**2

    def loss(x: Floats) -> tuple[float, Floats]:
        # x: logarithm of the distance of the pole, weights of the terms, logarithm of the scale.
        gap = reach**2 * np.exp(x[0])
        room = reach**2 + gap - squares
        likelihood, by_median, by_scale = log_likelihood(
            terms @ x[1:-1] - np.log(room), np.exp(x[-1]), runs.rounds, runs.met
        )
        slope = np.concatenate([[-gap * (by_median / room).sum()], terms.T @ by_median, [by_scale.sum()]])
        prior = np.full(len(x), _PRIOR)
        prior[[1, -1]] = 0.0
        prior[_SQUARES] = _PRIOR_OF_SQUARES
        return float(prior @ x**2 - likelihood.sum()), 2 * prior * x - slope

    bounds = [_POLE_RANGE, *[(None, None)] * (terms.shape[1] - 1), (0.0, None), _SCALE_RANGE]
    gaps = _POLES if start is None else (max(start[1] / reach**2 - 1, np.exp(_POLE_RANGE[0])),)
    found = []
    for gap in gaps:
        room = np.log(reach**2 * (1 + gap) - squares)
        weights = np.linalg.lstsq(terms[runs.met], (np.log(runs.rounds) + room)[runs.met], rcond=None)[0]
        weights[-1] = max(weights[-1], 0.0)
        first = np.concatenate([[np.log(gap)], weights, [np.log(0.12)]])
        found.append(minimize(loss, first, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 500}))
    best = min(found, key=lambda result: result.fun).x
    return np.insert(best[1:-1], 1, reach**2 * (1 + np.exp(best[0]))), float(np.exp(best[-1]))


def log_likelihood(
    median: Floats, scale: float, rounds: Floats, met: NDArray[np.bool_]
) -> tuple[Floats, Floats, Floats]:
    """Return the log-likelihood of each run and its slopes by the median and by the logarithm of the scale.

    The likelihood is P(T - 1 < t <= T) of a run that met the target in round T, and P(t > T) of one that did not.
    """
    from scipy.special import expit

    with np.errstate(divide="ignore"):
        above = (np.log(rounds) - median) / scale
        below = (np.log(rounds - 1) - median) / scale
    upper, lower = expit(above), expit(below)
    density, density_below = upper * (1 - upper), lower * (1 - lower)
    inside = np.maximum(upper - lower, _LEAST_LIKELY)
    by_median = np.where(met, (density_below - density) / inside, upper) / scale
    moved = density_below * np.where(np.isfinite(below), below, 0.0) - density * above
    by_scale = np.where(met, moved / inside, upper * above)
    outside = np.maximum(expit(-above), _LEAST_LIKELY)
    return np.log(np.where(met, inside, outside)), by_median, by_scale
