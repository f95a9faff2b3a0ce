r"""Fewest rounds where they depend on the average skew D and the mean number of local steps s (form ``law``).

Both couple the clusters. With largest volumes given by the two delays, a price :math:`\lambda` of local steps and a
ratio :math:`\rho` separate them: :math:`n(N)` and :math:`d(N)` being numerator and denominator of the average skew,

.. math:: F(\rho, \lambda) = \min_N\; n(N) - \rho\, d(N) - \lambda\, (s(N) - s_0)

is a sum of minima over single clusters. Volumes of an average skew of at most :math:`\rho` have
:math:`n - \rho d \le 0`, and therefore :math:`s \le s_0 - F(\rho, \lambda) / \lambda` at every price. The least of
these bounds is the largest number of steps on the convex hull of what volumes can reach, so that

.. math:: \min_N T \;\ge\; \min_\rho\; \min_{s \le \bar s(\rho)} T(\rho, s)

wherever T does not fall with skew. Minimisers of F are the supported points of the hull. Between two of them the bound
may be lower than any volumes reach: the difference is what is left unproven. F is concave in :math:`\rho`, hence
between two ratios at least its chord, and few ratios give bounds for all.

A limit on the average sharing ratio adds a price of leakage to F in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcast.allocation.allocation_problem import AllocationProblem
from fedcast.allocation.oracle.cost_table import CostTable, least_sums
from fedcast.typing import Floats, Ints

# Ratios for which F is computed, parts of each interval between them, and prices of local steps and of leakage.
RATIOS = 9
PARTS = 48
STEP_PRICES = 20
LEAK_PRICES = 9
# Knots of the table of expected rounds in each dimension, and numbers of steps at which it is evaluated.
_KNOTS = 25
_STEPS = 257
# Numbers in the largest temporary array.
_BLOCK = 2**22


@dataclass(frozen=True, eq=False)
class RoundsTable:
    """Least expected rounds with at least some average skew and at most some number of local steps."""

    ratios: Floats  # [R], ascending average skews
    log_steps: Floats  # [S], logarithms of numbers of local steps, evenly spaced
    least: Floats  # [R, S]

    def at(self, rows: Ints, steps: Floats) -> Floats:
        """Return the least rounds from the skews of some rows on, [N], and up to the given steps[N, C]."""
        width = self.log_steps[1] - self.log_steps[0]
        place = np.clip((np.log(steps) - self.log_steps[0]) / width, 0.0, len(self.log_steps) - 1)
        left = np.minimum(place.astype(np.int64), len(self.log_steps) - 2)
        low, high = self.least[rows[:, None], left], self.least[rows[:, None], left + 1]
        rounds: Floats = low + (place - left) * (high - low)
        return rounds


@dataclass(frozen=True, eq=False)
class Front:
    """Bounds of the rounds for given largest volumes, with the prices at which they are attained."""

    problem: AllocationProblem
    table: CostTable
    ratios: Floats  # [R], at which F is computed
    prices: Floats  # [L], of local steps, above 0
    leak_prices: Floats  # [P], of leakage; 0 first
    rounds: RoundsTable  # rows: PARTS for each interval of the ratios, and one for the last ratio

    def bounds(self, caps: Floats, *, cells: bool) -> tuple[Floats, Floats, Floats]:
        """Return lower bounds of the rounds with volumes up to caps[C, M], and ratio and price of each, float64[C].

        With `cells` they hold for all ratios; without, for those of the rows, which is closer to what is attained.
        """
        size = max(1, _BLOCK // (self.table.costs.shape[1] + len(self.prices) * PARTS))
        parts = [self._bounds(caps[start : start + size], cells) for start in range(0, len(caps), size)]
        least, ratio, price = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        return least, ratio, price

    def _bounds(self, caps: Floats, cells: bool) -> tuple[Floats, Floats, Floats]:
        first, here = self.problem.averages.steps_before, np.arange(len(caps))
        most = first + caps @ self.problem.averages.steps_gradient
        # F without local steps says whether a ratio can be reached at all.
        sums = [self._sums(ratio, caps) for ratio in (self.ratios if self.table.fractional else (0.0,))]
        if not self.table.fractional:
            sums = [sums[0] - ratio * self.table.total for ratio in self.ratios]
        # Beyond the last ratio nothing is known but the most steps.
        least = self.rounds.at(np.array([-1]), most[None])[0]
        ratio, price = np.full(len(caps), self.ratios[-1]), np.full(len(caps), self.prices[-1])
        upper = ((np.arange(PARTS) + cells) / PARTS)[:, None, None]
        for k in range(len(self.ratios) - 1):
            at = sums[k] + upper * (sums[k + 1] - sums[k])
            reached = -at[:, 1:] / self.prices[:, None]
            tightest = reached.argmin(axis=1)
            steps = np.minimum(first + np.take_along_axis(reached, tightest[:, None], axis=1)[:, 0], most)
            rows = np.arange(k * PARTS, (k + 1) * PARTS)
            rounds = self.rounds.at(rows, np.maximum(steps, first))
            rounds = np.where((at[:, 0] <= 0) & (steps >= first), rounds, np.inf)
            part = rounds.argmin(axis=0)
            better = rounds[part, here] < least
            least = np.where(better, rounds[part, here], least)
            ratio = np.where(better, self.rounds.ratios[rows[part]], ratio)
            price = np.where(better, self.prices[tightest[part, here]], price)
        return least, ratio, price

    def _sums(self, ratio: float, caps: Floats) -> Floats:
        """Return F at a ratio without and with each price of steps, float64[1 + L, C]; leakage at its best price."""
        problem, leaks = self.problem, self.problem.feasible.leak / self.problem.feasible.sizes
        sums = np.full((1 + len(self.prices), len(caps)), -np.inf)
        for leak in self.leak_prices:
            spent = leak * problem.feasible.max_leak if leak else 0.0
            for place, price in enumerate((0.0, *self.prices)):
                priced = self.table.priced(leak * leaks - price * problem.averages.steps_gradient)
                sums[place] = np.maximum(sums[place], least_sums(priced, caps, ratio) - spent)
        return sums


class FrontMaker:
    """Makes fronts of one problem; expected rounds are evaluated once, on a grid, and interpolated by cubic splines."""

    def __init__(self, problem: AllocationProblem, table: CostTable) -> None:
        from scipy.interpolate import RectBivariateSpline

        self.problem, self.table, self.all_ratios = problem, table, all_ratios(problem, table)
        first, slopes = problem.averages.steps_before, problem.averages.steps_gradient
        last = max(first + float(table.volumes[-1] @ slopes), first * (1 + 1e-9))
        skews = np.linspace(self.all_ratios[0], max(self.all_ratios[1], self.all_ratios[0] + 1e-9), _KNOTS)
        steps = np.geomspace(first, last, _KNOTS)
        rounds = [[problem.betas.expected(d, 0.0, s).rounds for s in steps.tolist()] for d in skews.tolist()]
        self._log_rounds = RectBivariateSpline(skews, np.log(steps), np.log(rounds))
        self._log_steps = np.linspace(np.log(first), np.log(last), _STEPS)

    def front(self, ratios: tuple[float, float], prices: Floats) -> Front:
        """Return the front for ratios of an interval and some prices of local steps."""
        knots = np.linspace(*ratios, RATIOS)
        fine = np.interp(np.arange((RATIOS - 1) * PARTS + 1) / PARTS, np.arange(RATIOS), knots)
        rounds = np.exp(self._log_rounds(fine, self._log_steps))
        # More steps may cost rounds beyond a turning point, and no bound assumes that skew does: running minima.
        least = np.minimum.accumulate(np.minimum.accumulate(rounds, axis=1)[::-1], axis=0)[::-1]
        table, leak_prices = RoundsTable(fine, self._log_steps, least), _leak_prices(self.problem, self.table)
        return Front(self.problem, self.table, knots, prices, leak_prices, table)


def all_ratios(problem: AllocationProblem, table: CostTable) -> tuple[float, float]:
    """Return the least and the largest average skew of interest: a ratio below any, and one that sharing can reach."""
    most = table.volumes[-1]
    ends = [problem.averages.at(volumes).skew for volumes in (np.zeros_like(most), most)]
    ratios = np.linspace(0.0, max(ends), 65)
    sums = [float(least_sums(table, most[None], ratio)[0]) for ratio in ratios]
    below = int(np.argmax(np.array(sums) <= 0))
    return float(ratios[max(below - 1, 0)]), float(max(ends))


def all_prices(problem: AllocationProblem, table: CostTable) -> Floats:
    """Return prices of local steps, float64[L], up to one at which every head sends all it may; denser where low."""
    slopes = problem.averages.steps_gradient
    steep = _steepest(table)[slopes > 0] / slopes[slopes > 0]
    return float(steep.max(initial=1e-9)) * (np.arange(1, STEP_PRICES + 1) / STEP_PRICES) ** 3


def _leak_prices(problem: AllocationProblem, table: CostTable) -> Floats:
    if not np.isfinite(problem.feasible.max_leak):
        return np.zeros(1)
    leaks = problem.feasible.leak / problem.feasible.sizes
    # The highest price outweighs a fall of the costs and the worth of local steps at their highest price.
    most = 2 * float((_steepest(table) / leaks).max(initial=0.0))
    return most * (np.arange(LEAK_PRICES) / (LEAK_PRICES - 1)) ** 3


def _steepest(table: CostTable) -> Floats:
    """Return the largest slope of each cluster's cost at any ratio, float64[M]."""
    rises = np.abs(np.diff(table.costs, axis=0)) / np.maximum(np.diff(table.volumes, axis=0), 1e-300)
    steepest: Floats = rises.max(axis=0) + (2 * table.members if table.fractional else 0.0)
    return steepest
