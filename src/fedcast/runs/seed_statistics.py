"""Means over seeds with 95 % confidence intervals, and paired tests."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedcast.errors import FedcastError
from fedcast.formatting import mean_and_interval
from fedcast.typing import Floats

LEVEL = 0.95

# Differences whose spread is below this, relative to the values, are equal up to rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Interval:
    """A mean over seeds and its 95 % confidence interval by Student's t, mean ± half_width."""

    mean: float
    half_width: float | None  #: None for one seed, and for differences that are equal up to rounding
    count: int  #: number of seeds

    def text(self, unit: str = "") -> str:
        """Return it for people, with a unit; % is the unit of shares."""
        return " ".join(filter(None, mean_and_interval(self.mean, self.half_width, unit)))


@dataclass(frozen=True)
class PairedTest:
    """A two-sided paired t test of a strategy against FedAvg on the same seeds."""

    difference: Interval  #: strategy minus FedAvg
    p_value: float | None  #: None for one seed, and for differences that are equal up to rounding

    @property
    def is_degenerate(self) -> bool:
        """Return whether there are several seeds, but no spread of differences that a test could be based on."""
        return self.p_value is None and self.difference.count > 1


def interval(values: Sequence[float]) -> Interval:
    """Return the mean and its 95 % confidence interval.

    Example:
        >>> found = interval([1.0, 2.0, 3.0])
        >>> found.mean, round(found.half_width, 4)
        (2.0, 2.4841)
    """
    if not len(values):
        raise FedcastError("an interval needs at least one value")
    mean = float(np.mean(values))
    return Interval(mean, None if len(values) == 1 else float(half_widths(np.array(values))), len(values))


def half_widths(values: Floats) -> Floats:
    """Return half the width of the 95 % confidence interval of the mean over the first axis, by Student's t.

    Example:
        >>> half_widths(np.array([[1.0, 1.0], [2.0, 1.0], [3.0, 1.0]])).round(4).tolist()
        [2.4841, 0.0]
    """
    from scipy import stats

    count = len(values)
    quantile = float(stats.t.ppf(0.5 + LEVEL / 2, count - 1))
    found: Floats = quantile * np.std(values, axis=0, ddof=1) / math.sqrt(count)
    return found


def interval_columns(name: str, found: Iterable[Interval | None]) -> dict[str, list[float | None]]:
    """Return two columns of a table: means, and half widths of their intervals; None where there is none."""
    known = list(found)
    means, halves = ([getattr(each, part) if each else None for each in known] for part in ("mean", "half_width"))
    return {name: means, f"{name}_half_width": halves}


def paired_test(values: Sequence[float], others: Sequence[float]) -> PairedTest:
    """Return the two-sided paired t test of values against others, seed by seed.

    Example:
        >>> round(paired_test([3.0, 4.0, 6.0], [1.0, 3.0, 3.0]).p_value, 4)
        0.0742
    """
    differences = [value - other for value, other in zip(values, others, strict=True)]
    found = interval_of_differences(differences, float(np.abs([values, others]).max(initial=0.0)))
    if found.half_width is None:
        return PairedTest(found, None)
    from scipy import stats

    return PairedTest(found, float(stats.ttest_rel(values, others).pvalue))


def interval_of_differences(differences: Sequence[float], scale: float) -> Interval:
    """Return the interval of differences of values of a scale; without half width if rounding alone spreads them."""
    found = interval(differences)
    return found if np.ptp(differences) > _ROUNDING * scale else replace(found, half_width=None)
