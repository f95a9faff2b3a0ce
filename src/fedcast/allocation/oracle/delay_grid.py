"""The least average skew on a grid of sharing delays and delays of a round, the two dimensions of the oracle."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedcast.allocation.allocation_problem import AllocationProblem
from fedcast.allocation.oracle.cost_table import CostTable
from fedcast.typing import Floats

# Cells of the grid on each side of the best one that are refined.
CELLS = 2
# Numbers in the largest temporary array, 64 MiB.
_BLOCK = 2**23


class Window(NamedTuple):
    """Intervals of the sharing delay t and of the delay s of a round."""

    sharing: tuple[float, float]
    round: tuple[float, float]


class DelayGrid(NamedTuple):
    """A grid over a window."""

    sharing: Floats  # [G], sharing delays
    round: Floats  # [H], delays of a round
    by_round: Floats  # [H, M], the largest volumes for each delay of a round
    per_second: Floats  # [M], volume that each head sends per second

    def caps(self, i: int, j: int) -> Floats:
        """Return the largest volumes at one point, float64[M]."""
        caps: Floats = np.minimum(self.sharing[i] * self.per_second, self.by_round[j])
        return caps

    def least_skew(self, table: CostTable, ratios: Floats) -> Floats:
        """Return the least average skew at every point, float64[G, H]; see `least_skew`."""
        rows = max(1, _BLOCK // self.by_round.size)
        blocks = [self.sharing[start : start + rows] for start in range(0, len(self.sharing), rows)]
        return np.concatenate(
            [
                least_skew(table, np.minimum(block[:, None, None] * self.per_second, self.by_round), ratios)
                for block in blocks
            ]
        )

    def around(self, i: int, j: int) -> Window:
        """Return the window around one point."""
        return Window(_around(self.sharing, i), _around(self.round, j))


def full_window(problem: AllocationProblem) -> Window:
    """Return the window of all delays that volumes within their bounds can have."""
    feasible = problem.feasible
    longest = feasible.delay.at(feasible.upper * feasible.sizes)
    return Window((0.0, float((feasible.upper / feasible.rate).max())), (feasible.delay.floor_s, longest))


def grid_in(problem: AllocationProblem, window: Window, points: int) -> DelayGrid:
    """Return a grid with the given number of points in each dimension; an empty interval is one point."""
    feasible = problem.feasible
    sharing, rounds = (np.unique(np.linspace(*ends, points)) for ends in window)
    by_round = np.stack([np.minimum(feasible.upper * feasible.sizes, feasible.delay.caps(s)[0]) for s in rounds])
    return DelayGrid(sharing, rounds, by_round, feasible.rate * feasible.sizes)


def task_delay(problem: AllocationProblem, grid: DelayGrid, skew: Floats) -> Floats:
    """Return the expected delay of the task at every point with average skews float64[G, H], s."""
    # E[T] is smooth in the skew: a fine table suffices for a choice that is evaluated exactly afterwards.
    skews = np.linspace(skew.min(), skew.max(), 400) if skew.max() > skew.min() else skew.reshape(-1)[:1]
    rounds = np.array([problem.betas.expected(float(d))[0] for d in skews])
    delay: Floats = grid.sharing[:, None] + np.interp(skew, skews, rounds) * grid.round
    return delay


def least_skew(table: CostTable, caps: Floats, ratios: Floats) -> Floats:
    """Return the least average skew with volumes up to caps[..., M], float64[...].

    `ratios` are ascending Dinkelbach ratios around the answer; ignored unless weighting is B.
    """
    row, part = table.places(caps)
    clusters = np.arange(caps.shape[-1])
    sums = []
    for ratio in ratios if table.fractional else ratios[:1]:
        priced, least, _ = table.running_least(float(ratio))
        at_cap = priced[row, clusters] * (1 - part) + priced[row + 1, clusters] * part
        cheapest = np.minimum(least[row, clusters], at_cap).sum(axis=-1)
        sums.append(table.rest + cheapest - (ratio * table.total if table.fractional else 0.0))
    if not table.fractional:
        average: Floats = sums[0] / table.total
        return average
    return _falling_root(ratios, np.stack(sums))


def _falling_root(ratios: Floats, sums: Floats) -> Floats:
    """Return where sums[R, ...], concave and decreasing in the ratios, cross 0, by linear interpolation."""
    if ratios[-1] <= ratios[0]:
        return np.full(sums.shape[1:], ratios[0])
    right = np.clip((sums > 0).sum(axis=0), 1, len(ratios) - 1)
    above, below = (np.take_along_axis(sums, place[None], axis=0)[0] for place in (right - 1, right))
    left_ratio, width = ratios[right - 1], ratios[right] - ratios[right - 1]
    root: Floats = left_ratio + width * above / np.maximum(above - below, 1e-300)
    return root


def _around(grid: Floats, place: int) -> tuple[float, float]:
    return float(grid[max(place - CELLS, 0)]), float(grid[min(place + CELLS, len(grid) - 1)])
