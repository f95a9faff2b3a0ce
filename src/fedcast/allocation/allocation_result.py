r"""The result of an allocation: volumes, frequencies, their cost, and the trace of the search.

The final volumes are integers. Rounding down never breaks a constraint: caps and the limit on the average sharing ratio
are upper bounds, and the energy constraint is met by the frequencies, which are recomputed for the rounded volumes.
Rounding to the nearest integer is used instead where it breaks no constraint either and is better.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcast.allocation.allocation_problem import AllocationProblem, part_of, skew_for_model
from fedcast.allocation.engine import Solution, Step
from fedcast.clustering import ROUNDING, Clustering
from fedcast.cost import RoundCost, round_cost, sharing_cost, task_s
from fedcast.data import distribution_shift
from fedcast.rounds import BetaSet
from fedcast.typing import Floats, Ints


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The cost of given volumes, by `fedcast.data.skew` and `fedcast.cost` alone."""

    clustering: Clustering  # with these volumes; users that are left out have no head
    skew: float  # average skew after sharing, by the measure of the rounds model
    shift: float  # of the global label distribution
    rounds: float  # expected rounds to the target
    sharing_s: float  # sharing delay
    trained: NDArray[np.bool_]  # [K], which users train: those that can, and hold samples after sharing
    round: RoundCost  # cost of one round, of the users that train, in the order of their ids
    objective_s: float  # expected delay of the task, sharing delay + rounds x delay of a round


@dataclass(frozen=True, eq=False)
class AllocationResult(Evaluation):
    """Volumes of heads and frequencies of devices, with the cost of rounded volumes.

    Attributes:
        method: name of the method.
        volumes: float64[K], real volumes as optimised; 0 for all but heads.
        shared: int64[K], samples that each head sends to each member.
        frequency_hz: float64[K], CPU frequencies; 0 for users that do not train.
        relaxed_objective_s: expected delay of the task with real volumes.
        trace: one entry for each iteration.
        betas: parameter vectors over which every expectation is taken.
        gap: excess of `relaxed_objective_s` over the global optimum, relative to it; None: not computed.
    """

    method: str
    volumes: Floats
    shared: Ints
    frequency_hz: Floats
    relaxed_objective_s: float
    trace: tuple[Step, ...]
    betas: BetaSet
    gap: float | None = None

    @property
    def round_s(self) -> float:
        """Return the delay of one round, s."""
        return self.round.round_s

    @property
    def average_sharing_ratio(self) -> float:
        """Return the average sharing ratio (leakage), in [0, 1]."""
        return self.clustering.average_sharing_ratio

    @property
    def left_out(self) -> Ints:
        """Return the ids of the users that do not train."""
        return np.flatnonzero(~self.trained)


def evaluate(problem: AllocationProblem, volumes: Floats) -> Evaluation:
    """Return the cost of volumes float64[K], computed independently of the searches."""
    clustering = problem.clustering.with_volumes(volumes)
    # A member without samples whose head sends nothing has nothing to train on.
    trained = problem.trained & (clustering.after.sizes > 0)
    before, after = part_of(clustering.problem.skew, trained), part_of(clustering.after, trained)
    skew = skew_for_model(before, after, problem.model, clustering.problem.weighting)
    shift = distribution_shift(after)
    rounds = problem.betas.expected(skew, shift)[0]
    cost = round_cost(problem.fleet.of(trained[problem.trained]), after.sizes)
    sharing_s = sharing_cost(
        clustering.head_of, clustering.shared, problem.rate_bps, problem.bits_per_sample, power_w=1.0
    ).sharing_s
    total_s = task_s(sharing_s, cost.round_s, rounds)
    return Evaluation(clustering, skew, shift, rounds, sharing_s, trained, cost, total_s)


def make_result(
    problem: AllocationProblem, method: str, found: Solution, best_s: float | None = None, *, free_rounding: bool = True
) -> AllocationResult:
    """Return the result of a search: rounded, evaluated, and compared with the global optimum `best_s` if given."""
    volumes = problem.volumes_of_users(found.x)
    relaxed_s = problem.objective_s(problem.at(found.x))
    rounded = min(
        (evaluate(problem, candidate) for candidate in _rounded(problem, volumes, free=free_rounding)),
        key=lambda evaluation: evaluation.objective_s,
    )
    frequency = np.zeros(len(volumes))
    frequency[rounded.trained] = rounded.round.frequency_hz
    return AllocationResult(
        **vars(rounded),
        method=method,
        volumes=volumes,
        shared=rounded.clustering.problem.volumes.astype(np.int64),
        frequency_hz=frequency,
        relaxed_objective_s=relaxed_s,
        trace=found.trace,
        betas=problem.betas,
        gap=None if best_s is None else (relaxed_s - best_s) / best_s,
    )


def _rounded(problem: AllocationProblem, volumes: Floats, *, free: bool) -> list[Floats]:
    """Return feasible integer volumes near the given ones: rounded down and, if allowed, to the nearest."""
    down = np.floor(volumes + ROUNDING)
    if not free:
        return [down]
    heads, feasible = problem.clustering.heads, problem.feasible
    nearest = np.round(volumes)
    nearest[heads] = np.minimum(nearest[heads], np.floor(feasible.upper * feasible.sizes + ROUNDING))
    if np.array_equal(nearest, down) or not feasible.allows(nearest[heads] / feasible.sizes):
        return [down]
    return [down, nearest]
