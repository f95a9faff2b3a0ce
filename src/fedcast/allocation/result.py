r"""What an allocation says: volumes, frequencies, what they cost, and how the search went.

Volumes are whole samples in the end. Rounding down never breaks a constraint: caps and the limit on the average sharing
ratio are upper bounds, and the energy constraint is met by the frequencies, which are recomputed for the whole volumes.
Rounding to the nearest whole number is taken instead where it breaks none either and is better.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcast.allocation.engine import Found, Step
from fedcast.allocation.problem import AllocationProblem, part_of, skew_of_users
from fedcast.clustering import Clustering
from fedcast.clustering.problem import ROUNDING
from fedcast.cost import RoundCost, round_cost, sharing_cost, task_s
from fedcast.data import distribution_shift
from fedcast.rounds.model import BetaSet
from fedcast.typing import Floats, Ints


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What given volumes cost, by `fedcast.data.skew` and `fedcast.cost` alone.

    Attributes:
        clustering: with these volumes.
        skew: average skew after sharing, of the measure that the rounds model takes.
        shift: of the overall mixture.
        rounds: expected rounds.
        sharing_s: sharing delay.
        trained: bool[K], who trains: users that hold samples after sharing, without those left out.
        round: cost of a round, of the users that train.
        objective_s: expected delay of the task.
    """

    clustering: Clustering
    skew: float
    shift: float
    rounds: float
    sharing_s: float
    trained: NDArray[np.bool_]
    round: RoundCost
    objective_s: float


@dataclass(frozen=True, eq=False)
class AllocationResult:
    r"""How much is shared and how fast devices compute.

    Attributes:
        method: that made it.
        clustering: with whole volumes; users that are left out have no head.
        volumes: float64[K], real volumes as optimised; 0 for all but heads.
        shared: int64[K], whole samples that each head sends to each member.
        frequency_hz: float64[K], CPU frequencies; 0 for users that do not train.
        trained: bool[K], who trains: users that can, and hold samples after sharing.
        skew: average skew after sharing.
        shift: of the overall mixture.
        rounds: expected rounds to the target.
        sharing_s: sharing delay.
        round: cost of one round, of the users that train, in the order of their ids.
        objective_s: expected delay of the task, :math:`\tau^s + E[T] \tau`, with whole volumes.
        relaxed_objective_s: the same with real volumes.
        trace: one entry for each iteration.
        betas: the set over which every expectation here is taken.
        gap: objective with real volumes above the global optimum, as a share of it; None: not asked for.
    """

    method: str
    clustering: Clustering
    volumes: Floats
    shared: Ints
    frequency_hz: Floats
    trained: NDArray[np.bool_]
    skew: float
    shift: float
    rounds: float
    sharing_s: float
    round: RoundCost
    objective_s: float
    relaxed_objective_s: float
    trace: tuple[Step, ...]
    betas: BetaSet
    gap: float | None = None

    @property
    def round_s(self) -> float:
        """Delay of one round, s."""
        return self.round.round_s

    @property
    def average_sharing_ratio(self) -> float:
        """Leakage, in [0, 1]."""
        return self.clustering.average_sharing_ratio

    @property
    def left_out(self) -> Ints:
        """Ids of the users that do not train."""
        return np.flatnonzero(~self.trained)


def evaluate(problem: AllocationProblem, volumes: Floats) -> Evaluation:
    """Cost of volumes float64[K]; nothing of the searches' own arithmetic is used."""
    clustering = problem.clustering.with_volumes(volumes)
    # A head that sends nothing leaves an empty member without work.
    trained = problem.trained & (clustering.after.sizes > 0)
    before, after = part_of(clustering.problem.skew, trained), part_of(clustering.after, trained)
    skew = skew_of_users(before, after, problem.model, clustering.problem.weighting)
    shift = distribution_shift(after)
    rounds = problem.betas.expected(skew, shift)[0]
    cost = round_cost(problem.fleet.of(trained[problem.trained]), after.sizes)
    sharing_s = sharing_cost(
        clustering.head_of, clustering.shared, problem.rate_bps, problem.bits_per_sample, power_w=1.0
    ).sharing_s
    total_s = task_s(sharing_s, cost.round_s, rounds)
    return Evaluation(clustering, skew, shift, rounds, sharing_s, trained, cost, total_s)


def make_result(
    problem: AllocationProblem, method: str, found: Found, best_s: float | None = None, *, free_rounding: bool = True
) -> AllocationResult:
    """The result of a search: rounded, evaluated, and compared with the global optimum `best_s` if that is known."""
    volumes = problem.volumes_of_users(found.x)
    relaxed_s = problem.objective_s(problem.at(found.x))
    whole = min(
        (evaluate(problem, candidate) for candidate in _rounded(problem, volumes, free=free_rounding)),
        key=lambda evaluation: evaluation.objective_s,
    )
    frequency = np.zeros(len(volumes))
    frequency[whole.trained] = whole.round.frequency_hz
    return AllocationResult(
        method,
        whole.clustering,
        volumes,
        whole.clustering.problem.volumes.astype(np.int64),
        frequency,
        whole.trained,
        whole.skew,
        whole.shift,
        whole.rounds,
        whole.sharing_s,
        whole.round,
        whole.objective_s,
        relaxed_s,
        found.trace,
        problem.betas,
        None if best_s is None else (relaxed_s - best_s) / best_s,
    )


def _rounded(problem: AllocationProblem, volumes: Floats, *, free: bool) -> list[Floats]:
    """Whole volumes near the given ones that meet every constraint: rounded down, and to the nearest if allowed."""
    down = np.floor(volumes + ROUNDING)
    if not free:
        return [down]
    heads, feasible = problem.clustering.heads, problem.feasible
    nearest = np.round(volumes)
    nearest[heads] = np.minimum(nearest[heads], np.floor(feasible.upper * feasible.sizes + ROUNDING))
    if np.array_equal(nearest, down) or not feasible.allows(nearest[heads] / feasible.sizes):
        return [down]
    return [down, nearest]
