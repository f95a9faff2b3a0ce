"""Scales from values to positions, and round values for ticks and limits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fedcast.typing import Floats

ScaleKind = Literal["linear", "log", "asinh"]
_NICE_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_MAX_LOG_TICKS = 7


@dataclass(frozen=True)
class Scale:
    """A map from values to positions, so that `low` lies at `start` and `high` at `end`.

    An ``asinh`` scale is linear around 0 and logarithmic beyond `threshold`.
    """

    low: float
    high: float
    start: float
    end: float
    kind: ScaleKind = "linear"
    threshold: float = 1.0

    def __call__(self, value: ArrayLike) -> Floats:
        """Return the positions of values."""
        low, high = float(self._straight(self.low)), float(self._straight(self.high))
        share = (self._straight(value) - low) / ((high - low) or 1.0)
        return self.start + share * (self.end - self.start)

    def _straight(self, value: ArrayLike) -> Floats:
        values = np.asarray(value, dtype=np.float64)
        if self.kind == "log":
            return np.log(np.maximum(values, np.finfo(np.float64).tiny))
        return np.arcsinh(values / self.threshold) if self.kind == "asinh" else values


def nice_step(low: float, high: float, about: int = 5, whole: bool = False) -> float:
    """Return a round step, or a whole one, that cuts the range into some `about` parts.

    Example:
        >>> nice_step(0.0, 12.0), nice_step(0.0, 12.0, whole=True)
        (2.5, 5.0)
    """
    rough = max((high - low) / about, 1.0 if whole else 1e-12)
    decade = 10.0 ** math.floor(math.log10(rough))
    steps = (nice * decade for nice in _NICE_STEPS)
    return next(step for step in steps if step >= rough * 0.999 and not (whole and step % 1))


def ticks(low: float, high: float, about: int = 5, whole: bool = False) -> list[float]:
    """Return round values within a range."""
    step = nice_step(low, high, about, whole)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(place * step, 12) for place in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Return round values for a logarithmic scale: decades, with 2 and 5 between them where there is room.

    A range with fewer than two of them has the round values of a linear scale.

    Example:
        >>> log_ticks(0.3, 30.0), log_ticks(2.1, 4.3)
        ([0.5, 1.0, 2.0, 5.0, 10.0, 20.0], [2.5, 3.0, 3.5, 4.0])
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1,)):
        values = [float(f"{factor}e{power}") for power in powers for factor in factors]
        found = [value for value in values if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]
        if len(found) <= _MAX_LOG_TICKS:
            return found if len(found) > 1 else ticks(low, high)
    return found[:: math.ceil(len(found) / _MAX_LOG_TICKS)]


def upper_end(values: Iterable[float]) -> float:
    """Return a round value no less than any of these, to end a scale that begins at 0."""
    return ends_around([0.0, max([0.0, *values])])[1]


def ends_around(values: Sequence[float]) -> tuple[float, float]:
    """Return round values below and above all of these, for a scale that need not begin at 0."""
    low, high = min(values), max(values)
    if high == low:
        low, high = (0.5 * low, 1.5 * high) if low > 0 else (1.5 * low, 0.5 * low) if low else (0.0, 1.0)
    step = nice_step(low, high)
    return round(math.floor(low / step + 1e-9) * step, 12), round(math.ceil(high / step - 1e-9) * step, 12)
