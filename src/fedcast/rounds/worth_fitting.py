"""Fit the worth of generated samples to training runs, with a law of rounds that was fitted to runs with raw ones.

The likelihood is that of the law (see `fedcast.rounds.law`); of its two parameters the best on a grid is taken. Every
bootstrap fit draws runs with replacement and takes one of the bootstrap fits of the law, so that the interval has the
uncertainty of both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fedcast.errors import FedcastError
from fedcast.random import generator
from fedcast.rounds.law import Conditions, RoundsLaw, log_likelihood, log_rounds
from fedcast.rounds.worth import Worth, worth_at
from fedcast.typing import Floats

_TOPS = np.linspace(0.0, 1.0, 41)
# Halves in units of the median signal; above 0, since a sample that is all noise is worth nothing.
_HALVES = np.geomspace(0.03, 30.0, 13)
# Fewer runs of a kind are not fitted.
LEAST_RUNS = 3


@dataclass(frozen=True, eq=False)
class GeneratedRun:
    """A run whose heads sent generated samples."""

    signals: Floats  #: [M], of the heads, see `signal_of`
    #: skew, local steps and shift from the worth of each head's samples
    conditions: Callable[[Floats], tuple[float, float, float]]
    learning_rate: float
    rounds: int  #: first round that met the target; if none did, the last one
    met: bool  #: whether the target was met


def fit_worth(law: RoundsLaw, runs: Sequence[GeneratedRun], source: str = "", seed: int = 0) -> Worth:
    """Fit the worth of one kind's samples, for the target of a law.

    Raises:
        FedcastError: fewer than three runs.

    Example:
        >>> from fedcast.rounds import load_fit
        >>> law, truth = load_fit("digits").law(0.85), Worth(0.6, 0.0)
        >>> def run(skew):
        ...     conditions = lambda worth: (skew * (1 - 0.5 * float(worth[0])), 30.0 + 10 * float(worth[0]), 0.0)
        ...     at = Conditions(*conditions(truth.at([50.0]))[:2], 0.2)
        ...     return GeneratedRun(np.array([50.0]), conditions, 0.2, int(np.ceil(law.rounds(at))), True)
        >>> float(fit_worth(law, [run(skew) for skew in (1.2, 1.3, 1.4, 1.5)]).at(50.0).round(1))
        0.6
    """
    if len(runs) < LEAST_RUNS:
        raise FedcastError(f"worth of generated samples: {len(runs)} runs; expected {LEAST_RUNS} or more")
    signals = np.concatenate([run.signals for run in runs])
    finite = signals[np.isfinite(signals) & (signals > 0)]
    halves = _HALVES * float(np.median(finite)) if len(finite) else np.zeros(1)
    grid = np.array([(top, half) for top in _TOPS for half in halves])
    at = _conditions(runs, grid)
    rounds, met = np.array([float(run.rounds) for run in runs]), np.array([run.met for run in runs])

    def likelihood(theta: Floats) -> Floats:
        """Return the log-likelihood of each run at each point of the grid, float64[G, R]."""
        medians = np.minimum(log_rounds(theta, at), np.log(law.max_rounds))
        return log_likelihood(medians, law.scale, rounds, met)[0]

    best = grid[likelihood(law.theta).sum(axis=1).argmax()]
    samples = []
    for number, theta in enumerate(law.samples):
        drawn = generator(seed, "rounds/worth", round=number).integers(len(runs), size=len(runs))
        samples.append(grid[likelihood(theta)[:, drawn].sum(axis=1).argmax()])
    ends = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    return Worth(float(best[0]), float(best[1]), ends, len(runs), source, np.array(samples).reshape(-1, 2))


def _conditions(runs: Sequence[GeneratedRun], grid: Floats) -> Conditions:
    """Return the conditions of each run at each point of the grid, float64[G, R] each."""
    found = np.array([[run.conditions(worth_at(top, half, run.signals)) for run in runs] for top, half in grid])
    rates = np.array([run.learning_rate for run in runs])
    return Conditions(found[..., 0], found[..., 1], np.broadcast_to(rates, found.shape[:2]), found[..., 2])
