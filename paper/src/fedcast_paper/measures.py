"""What figures measure and say alike: convergence, rank correlation, whether JFVO ends lower, numbers as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedcast_paper.planning import METHODS, RIVALS
from fedcast_paper.result import Columns, Verdict, where
from fedcast_paper.wording import percent

# A search has converged once it stays this near to its end, and ends no farther apart are called equal. The paper does
# not say how near is near, and methods that are soon near may take long to come nearer: so both are measured.
NEAR, NEARER = 0.01, 0.001
PAPER_ITERATIONS = 6
# A relation is called one if chance alone would hardly make it.
LEVEL = 0.05


class Relation(NamedTuple):
    """Spearman's rank correlation, and how probable one as large is by chance."""

    correlation: float
    p_value: float

    @property
    def rises(self) -> bool:
        """Whether one value grows with the other, more than chance would have it."""
        return self.correlation > 0 and self.p_value < LEVEL

    def __str__(self) -> str:
        return f"{self.correlation:+z.2f} (p = {self.p_value:.2g})"


def rank_correlation(first: ArrayLike, second: ArrayLike) -> Relation:
    """How far the ranks of two values agree; values that are all equal have none, and agree with nothing.

    Example:
        >>> rank_correlation([1, 2, 3, 4], [10, 20, 30, 40]).correlation
        1.0
        >>> rank_correlation([1, 2, 3], [5, 5, 5])
        Relation(correlation=0.0, p_value=1.0)
    """
    from scipy.stats import spearmanr

    if np.size(first) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return Relation(0.0, 1.0)
    found = spearmanr(first, second)
    # Two pairs always agree or disagree in full: there is no chance to speak of.
    return Relation(round(float(found.statistic), 12), float(np.nan_to_num(found.pvalue, nan=1.0)))


def converged_after(trace: Sequence[float], end: float, near: float = NEAR) -> int:
    """The first iteration from which on a trace stays within a share `near` of an end; its length if it never does.

    Example:
        >>> converged_after([2.0, 1.001, 1.2, 1.005, 1.0], end=1.0)
        3
    """
    away = np.flatnonzero(np.abs(np.asarray(trace) / end - 1) > near)
    return int(away[-1]) + 1 if len(away) else 0


def excess_over_jfvo(rows: Columns, value: str) -> dict[str, float]:
    """By how much each other method's value is above JFVO's, as a share, mean over worlds.

    Args:
        rows: a table with a column ``method`` and the worlds of every method in the same order.
        value: the column compared.

    Example:
        >>> rows = {"method": ["jfvo", "smm", "jfvo", "smm"], "delay_s": [10.0, 11.0, 20.0, 22.0]}
        >>> {method: round(excess, 9) for method, excess in excess_over_jfvo(rows, "delay_s").items()}
        {'smm': 0.1}
    """
    jfvo = np.array(where(rows, method="jfvo")[value])
    others = [method for method in METHODS if method != "jfvo" and method in rows["method"]]
    return {method: float(np.mean(np.array(where(rows, method=method)[value]) / jfvo - 1)) for method in others}


def lower_verdict(rows: Columns, value: str, where_said: str = "") -> Verdict:
    """Whether JFVO ends lower than its rivals: partly if it is lower than one and equal to the other."""
    above = excess_over_jfvo(rows, value)
    lower = [above[method] > NEAR for method in RIVALS]
    higher = any(above[method] < -NEAR for method in RIVALS)
    each = {method: f"{100 * excess:+z.2f} %" for method, excess in above.items()}
    return Verdict(
        f"JFVO ends lower than SMM and SAA{where_said}",
        "yes" if all(lower) else "partly" if any(lower) and not higher else "no",
        f"mean delay above JFVO's: {listed(each)}; less than {percent(NEAR)} counts as equal",
    )


def listed(by_method: Mapping[str, Any], form: str = "") -> str:
    """Values by method as the end of a sentence.

    Example:
        >>> listed({"jfvo": 2.0, "saa": 7.25}, ".1f")
        'JFVO 2.0, SAA 7.2'
    """
    return ", ".join(f"{METHODS[method]} {value:{form}}" for method, value in by_method.items())
