r"""Fit a rounds model to training runs: robust least squares, its error, and a bootstrap of its parameters.

Rounds are fitted in logarithms, so that a run of 20 rounds counts as much as one of 500, with the loss
:math:`2(\sqrt{1 + z^2} - 1)` (``soft_l1``): the influence of an outlier is bounded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedcast.errors import FedcastError
from fedcast.random import generator
from fedcast.rounds.forms import FORMS, FormName
from fedcast.rounds.model import AccuracyFit, MeasureName, RoundsModel
from fedcast.typing import Floats

# Forms of skew alone, which `fit_rounds` fits; `fedcast.rounds.fit_law` fits the law.
SKEW_FORMS: tuple[FormName, ...] = ("paper", "theory", "extended")
# Error of the logarithm from which a run counts as an outlier.
_LOG_SCALE = 0.1
_TINY = 1e-12
# A fit needs so many different points more than it has parameters: with fewer, its error says nothing.
SPARE_POINTS = 3
# A fit is trusted up to this multiple of the most rounds of any run.
TRUSTED_MULTIPLE = 5.0


class Runs(NamedTuple):
    """Training runs that reached the target: float64[R] each."""

    skew: Floats  # average skew of the run's data, after sharing
    shift: Floats  # shift of the overall label distribution
    rounds: Floats  # first round that met the target


class _Parametrisation(NamedTuple):
    """A form in parameters that need only bounds: start, bounds, and the map to the form's own parameters."""

    start: Floats
    low: Floats
    high: Floats
    to_beta: Callable[[Floats], Floats]


def fit_rounds(
    skew: ArrayLike,
    rounds: ArrayLike,
    *,
    target_accuracy: float,
    shift: ArrayLike | None = None,
    form: FormName = "paper",
    measure: MeasureName = "emd",
    bootstrap: int = 200,
    seed: int = 0,
    name: str = "own",
    source: str = "",
    accuracy: AccuracyFit | None = None,
) -> RoundsModel:
    r"""Fit one form to training runs.

    The parametrisation keeps the curve positive and nondecreasing on [0, largest skew seen]; beyond there may be a
    pole. The bootstrap refits runs drawn with replacement; a refit is rejected, and counted, if they do not determine
    the curve (fewer different skews than parameters) or it exceeds the largest trusted rounds.

    Args:
        skew: float[R], average skew of each run.
        rounds: float[R], first round at which the run met the target; leave out runs that never did.
        target_accuracy: that target.
        shift: float[R], shift of the overall label distribution; needed by ``extended``.
        form: of the curve.
        measure: of `skew`.
        bootstrap: number of refits.
        seed: of the refits.
        name: of the model.
        source: where the runs come from.
        accuracy: final accuracy against skew, see `fit_accuracy`.

    Example:
        >>> skew = np.linspace(0, 1.5, 12)
        >>> model = fit_rounds(skew, 20 / (3.0 - skew**2), target_accuracy=0.9, form="theory", bootstrap=20)
        >>> model.beta.round(3).tolist(), round(model.nmse, 6)
        ([3.0, 20.0], 0.0)
    """
    runs = _checked_runs(skew, shift, rounds, form)
    reach = float(runs.skew.max())
    beta = _fit(runs, form, reach)
    max_rounds = TRUSTED_MULTIPLE * float(runs.rounds.max())
    samples, rejected = _bootstrap(runs, form, reach, max_rounds, bootstrap, seed)
    return RoundsModel(
        name,
        form,
        beta,
        target_accuracy,
        nmse(runs.rounds, np.exp(_log_rounds(form, beta, runs))),
        skew_range=(0.0, reach),
        max_rounds=max_rounds,
        shift_range=(0.0, float(runs.shift.max())),
        measure=measure,
        samples=samples,
        rejected=rejected,
        accuracy=accuracy,
        source=source,
    )


def nmse(actual: ArrayLike, predicted: ArrayLike) -> float:
    r"""Return the squared error over the spread of the data, :math:`\sum (y - \hat y)^2 / \sum (y - \bar y)^2`.

    Example:
        >>> nmse([1.0, 3.0], [1.0, 2.0])
        0.5
    """
    truth = np.asarray(actual, dtype=np.float64)
    error = float(((truth - np.asarray(predicted)) ** 2).sum())
    spread = float(((truth - truth.mean()) ** 2).sum())
    return error / spread if spread > 0 else (0.0 if error == 0 else float("inf"))


def fit_accuracy(skew: ArrayLike, accuracy: ArrayLike) -> AccuracyFit:
    """Fit final accuracy against skew by a nonincreasing curve (isotonic regression).

    No formula is used: accuracy hardly falls over most skews and collapses over the last few, which no polynomial of
    low degree follows.

    Args:
        skew: float[R], average skew of each run.
        accuracy: float[R], accuracy each run ended with, in [0, 1].

    Example:
        >>> falling = fit_accuracy([0.0, 0.5, 1.0, 1.0, 1.5], [0.97, 0.98, 0.93, 0.95, 0.89])
        >>> falling.skew.tolist(), falling.accuracy.round(3).tolist()
        ([0.0, 0.5, 1.0, 1.5], [0.975, 0.975, 0.94, 0.89])
    """
    where, reached = np.asarray(skew, dtype=np.float64), np.asarray(accuracy, dtype=np.float64)
    if where.shape != reached.shape or where.ndim != 1 or len(np.unique(where)) < 3:
        raise FedcastError(
            f"accuracy fit: {where.shape} skews and {reached.shape} accuracies; expected as many of each, at three "
            f"different skews at least"
        )
    if not (np.isfinite(where) & (reached >= 0) & (reached <= 1)).all():
        raise FedcastError(
            f"accuracy fit: skews {where.min()} to {where.max()}, accuracies {reached.min()} to {reached.max()}; "
            f"expected finite skews and accuracies in [0, 1]"
        )
    from scipy.optimize import isotonic_regression

    at, place, count = np.unique(where, return_inverse=True, return_counts=True)
    falling = isotonic_regression(np.bincount(place, reached) / count, weights=count, increasing=False)
    # The curve is constant within a block: its two ends suffice.
    knots = np.unique([falling.blocks[:-1], falling.blocks[1:] - 1])
    return AccuracyFit(at[knots], falling.x[knots], nmse(reached, falling.x[place]))


def _checked_runs(skew: ArrayLike, shift: ArrayLike | None, rounds: ArrayLike, form: FormName) -> Runs:
    where, taken = np.asarray(skew, dtype=np.float64), np.asarray(rounds, dtype=np.float64)
    if form not in SKEW_FORMS:
        raise FedcastError(f"invalid value {form!r} for a fit against skew: choose one of {', '.join(SKEW_FORMS)}")
    if form == "extended" and shift is None:
        raise FedcastError("rounds.form: 'extended' needs the distribution shift of every run; give `shift`")
    moved = np.zeros_like(where) if shift is None else np.asarray(shift, dtype=np.float64)
    if where.ndim != 1 or where.shape != taken.shape or where.shape != moved.shape:
        raise FedcastError(
            f"fit of rounds: skew, shift and rounds have shapes {where.shape}, {moved.shape} and {taken.shape}; "
            f"expected one number of each for every run"
        )
    bad = np.flatnonzero(~(np.isfinite(where) & (where >= 0) & np.isfinite(moved) & (taken > 0) & np.isfinite(taken)))
    if len(bad):
        run = int(bad[0])
        raise FedcastError(
            f"fit of rounds, run {run}: skew {where[run]}, shift {moved[run]}, rounds {taken[run]}; expected finite "
            f"numbers, rounds above 0 (leave out runs that never met the target)"
        )
    different, parameters = _distinct(where, moved), len(FORMS[form].parameters)
    if different < parameters + SPARE_POINTS:
        raise FedcastError(
            f"fit of rounds: the runs that met the target are at {different} different skews, form {form!r} has "
            f"{parameters} parameters; expected {parameters + SPARE_POINTS} at least: add runs"
        )
    return Runs(where, moved, taken)


def _distinct(skew: Floats, shift: Floats) -> int:
    return len(np.unique(np.stack([skew, shift]), axis=1).T)


def _bootstrap(
    runs: Runs, form: FormName, reach: float, max_rounds: float, count: int, seed: int
) -> tuple[Floats, int]:
    kept, needed = [], len(FORMS[form].parameters)
    for sample in range(count):
        chosen = generator(seed, "rounds/bootstrap", round=sample).integers(len(runs.skew), size=len(runs.skew))
        again = Runs(*(column[chosen] for column in runs))
        if _distinct(again.skew, again.shift) < needed:
            continue
        beta = _fit(again, form, reach)
        end = FORMS[form].curve(beta[None, :], reach, 0.0, 1.0).rounds[0]
        if FORMS[form].valid(beta[None, :], reach, 1.0)[0] and end <= max_rounds:
            kept.append(beta)
    return np.array(kept).reshape(len(kept), needed), count - len(kept)


def _fit(runs: Runs, form: FormName, reach: float) -> Floats:
    """Return the robust fit of one form, in its own parameters."""
    from scipy.optimize import least_squares

    shape = {"paper": _paper_shape, "theory": _theory_shape, "extended": _extended_shape}[form](runs, reach)
    wanted = np.log(runs.rounds)

    def residuals(x: Floats) -> Floats:
        return (_log_rounds(form, shape.to_beta(x), runs) - wanted) / _LOG_SCALE

    bounds = (shape.low, shape.high)
    found = least_squares(residuals, shape.start, bounds=bounds, loss="soft_l1", x_scale="jac", xtol=1e-12, ftol=1e-12)
    return shape.to_beta(np.asarray(found.x, dtype=np.float64))


def _log_rounds(form: FormName, beta: Floats, runs: Runs) -> Floats:
    """Return the logarithm of the rounds that a form predicts for each run."""
    predicted: Floats
    match form:
        case "paper":
            predicted = -np.log((beta[0] * runs.skew + beta[1]) * runs.skew + beta[2])
        case "theory":
            predicted = np.log(beta[1]) - np.log(beta[0] - runs.skew**2)
        case _:
            predicted = beta[0] + beta[1] * runs.skew + beta[2] * runs.shift
    return predicted


def _paper_shape(runs: Runs, reach: float) -> _Parametrisation:
    """Parametrise the quadratic q by its end value and its decreases at both ends, all three nonnegative.

    With u = 1 - D/reach, q = end + fall_end u + (fall_start - fall_end) u²/2, scaled by the fastest run.
    """
    unit = float(1 / runs.rounds.min())
    last = float(1 / np.median(runs.rounds[runs.skew >= np.quantile(runs.skew, 0.8)]))
    drop = max(unit - last, 0.1 * unit)

    def to_beta(x: Floats) -> Floats:
        end, fall_end, bend = x[0] * unit, x[1] * unit, (x[2] - x[1]) * unit / 2
        return np.array([bend / reach**2, -(fall_end + 2 * bend) / reach, end + fall_end + bend])

    start = np.array([last, drop / 2, 1.5 * drop]) / unit
    return _Parametrisation(np.maximum(start, 1e-6), np.array([_TINY, 0.0, 0.0]), np.full(3, np.inf), to_beta)


def _theory_shape(runs: Runs, reach: float) -> _Parametrisation:
    """Parametrise beta by its distance above the largest D², which must be positive."""
    room = max(reach, 0.1) ** 2

    def to_beta(x: Floats) -> Floats:
        return np.array([reach**2 + x[0] * room, x[1] * room])

    start = np.array([0.5, float(np.median(runs.rounds))])
    return _Parametrisation(start, np.array([_TINY, _TINY]), np.full(2, np.inf), to_beta)


def _extended_shape(runs: Runs, reach: float) -> _Parametrisation:  # noqa: ARG001
    """Bound the effect of skew from below by 0; the shift may have either sign."""
    start = np.array([float(np.log(runs.rounds).mean()), 0.5, 0.0])
    return _Parametrisation(start, np.array([-np.inf, 0.0, -np.inf]), np.full(3, np.inf), lambda x: x)
