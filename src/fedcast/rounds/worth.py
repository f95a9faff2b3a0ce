r"""The worth of generated samples: how many raw samples one of them counts as in the law of rounds.

A head that sends N samples of worth w lowers the skew of its members and adds local work as w N raw samples would,
while all N are sent and trained on. What noise leaves of a private kind grows with the signal of the head,

.. math:: v = \mu \sum_y n_y^2 \Big/ \sum_y n_y, \qquad w = \frac{\text{top} \cdot v}{v + \text{half}},

its privacy loss :math:`\mu` times the size of the class in which its average sample is, since the noise of a class mean
falls as :math:`1/(\mu n_y)`. Samples without noise (:math:`v = \infty`) are worth `top`, raw ones 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from fedcast.typing import Floats


@dataclass(frozen=True, eq=False)
class Worth:
    """Fitted worth of the samples of one kind of sharing."""

    top: float  #: worth without noise, in [0, 1]
    half: float  #: signal at which half of it is left, ≥ 0
    signal_range: tuple[float, float] = (0.0, 0.0)  #: least and largest finite signal of the heads of the runs
    num_runs: int = 0  #: number of runs that it was fitted to
    source: str = ""  #: origin of these runs
    samples: Floats = field(default_factory=lambda: np.zeros((0, 2)))  #: [S, 2], bootstrap fits of (top, half)

    def at(self, signal: ArrayLike) -> Floats:
        """Return the worth of samples of heads with these signals, in [0, 1].

        Example:
            >>> Worth(0.8, 100.0).at([0.0, 100.0, np.inf]).tolist()
            [0.0, 0.4, 0.8]
        """
        return worth_at(self.top, self.half, signal)

    def interval(self, signal: float, level: float = 0.9) -> tuple[float, float]:
        """Return the bootstrap interval of the worth at one signal."""
        found = worth_at(self.samples[:, 0], self.samples[:, 1], signal)
        low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
        return float(low), float(high)

    def mixed(self, other: Worth, part: float) -> Worth:
        """Return the worth between this (part 0) and another that was fitted to the same runs (part 1)."""
        return replace(
            self,
            top=(1 - part) * self.top + part * other.top,
            half=(1 - part) * self.half + part * other.half,
            samples=(1 - part) * self.samples + part * other.samples,
        )


def worth_at(top: ArrayLike, half: ArrayLike, signal: ArrayLike) -> Floats:
    """Return top · v/(v + half), also for v = ∞."""
    signals = np.asarray(signal, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        left = np.where(signals > 0, 1 / (1 + np.asarray(half) / signals), 0.0)
    return np.asarray(top) * left


def signal_of(mu: ArrayLike, counts: ArrayLike) -> Floats:
    """Return the signals of users with class counts float[K, Y] that release with privacy loss μ; ∞: without noise.

    Example:
        >>> signal_of(0.5, [[600, 0], [300, 300], [0, 0]]).tolist()
        [300.0, 150.0, 0.0]
    """
    held = np.asarray(counts, dtype=np.float64)
    totals = held.sum(axis=1)
    sizes = np.divide((held**2).sum(axis=1), totals, out=np.zeros(len(held)), where=totals > 0)
    signals: Floats = np.where(sizes > 0, np.asarray(mu, dtype=np.float64), 0.0) * np.maximum(sizes, 1e-300)
    return np.where(sizes > 0, signals, 0.0)
