"""Checks that every allocation method must pass, functions of a method and its options, and random problems.

`gaps_to_optimum` says how good a method is: how far its delays are above the global optimum.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from fedcast.allocation import (
    AllocationProblem,
    AllocationResult,
    Method,
    evaluate,
    find_method,
    make_allocation_problem,
    make_result,
)  # fmt: skip
from fedcast.clustering import Clustering, cluster, disc_problem
from fedcast.cost import Fleet, fleet_of
from fedcast.network import layout_from_positions
from fedcast.random import generator
from fedcast.rounds import RoundsModel, load_fit
from fedcast.scenario import Allocation, Scenario
from fedcast.testing.common import unchanged

# Energy budget in joules and energy coefficient: energy limits the frequencies, both do, the highest frequency does.
REGIMES = {"energy": (0.005, 4e-26), "mixed": (0.05, 4e-27), "frequency": (0.5, 4e-28)}
BITS_PER_SAMPLE = 6272.0
# A user whose upload alone takes more than this share of its budget sends at less power instead.
_MAX_UPLOAD_SHARE = 0.9
# Ratios may exceed a limit, and delays the optimum's, by rounding errors only.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class AllocationCase:
    """Inputs of `allocate`; `rate_bps` is that of the link from each member's head, float64[K]."""

    clustering: Clustering
    fleet: Fleet
    model: RoundsModel
    rate_bps: np.ndarray

    def problem(self, settings: Allocation | None = None, **changes: Any) -> AllocationProblem:
        """Return the allocation problem; changes are arguments of `make_allocation_problem`."""
        given: dict[str, Any] = {"bits_per_sample": BITS_PER_SAMPLE, "rate_bps": self.rate_bps}
        return make_allocation_problem(self.clustering, self.fleet, self.model, settings, **(given | changes))


def fleet_at(positions_m: np.ndarray, budget_j: float, coefficient: float, **training: Any) -> Fleet:
    """Return devices at positions float64[K, 2] that all can upload within their energy budget."""
    devices = {"energy_budget_j": budget_j, "energy_coefficient": coefficient}
    scenario = Scenario.model_validate({"training": {"model": "cnn"} | training, "devices": devices})
    fleet = fleet_of(scenario, layout_from_positions(positions_m, scenario.geometry, [[0.0, 0.0]]))
    power = np.minimum(fleet.devices.power_w, _MAX_UPLOAD_SHARE * budget_j / fleet.upload_s)
    return replace(fleet, devices=replace(fleet.devices, power_w=power))


def random_case(
    seed: int, regime: str = "mixed", num_users: int = 60, reach_m: float = 700, **options: Any
) -> AllocationCase:
    """Return users at random places in a cell, half with one class; `options` are those of the clustering.

    Example:
        >>> random_case(0, "energy").problem().num_clusters
        11
    """
    problem = disc_problem(num_users, reach_m, seed=seed, **({"rule": "daca", "weighting": "C"} | options))
    clustering = cluster(problem)
    draw = generator(seed, "test/world")
    places = 1000 * np.sqrt(draw.random(num_users)) * np.exp(2j * np.pi * draw.random(num_users))
    of_head = 1e6 * np.exp(0.5 * draw.standard_normal(num_users))
    rate = np.where(clustering.head_of >= 0, of_head[clustering.head_of], np.nan)
    fleet = fleet_at(np.stack([places.real, places.imag], axis=1), *REGIMES[regime])
    return AllocationCase(clustering, fleet, load_fit("paper-0.95").model("paper", round_scale=100), rate)


def returns_feasible_ratios(method: Method, options: Any) -> None:
    """Ratios are numbers from 0 to the cap of each head, within the limit of the average sharing ratio."""
    for problem in _problems():
        x = method(problem, options).x
        assert x.shape == (problem.num_clusters,), f"ratios of shape {x.shape} for {problem.num_clusters} heads"
        assert np.isfinite(x).all(), "a ratio is not finite"
        assert (x >= 0).all(), f"a ratio is {x.min()}"
        above = float((x - problem.caps).max(initial=0.0))
        assert above <= _ROUNDING, f"a ratio is {above} above the cap or consent of its head"
        average, limit = float(problem.feasible.leak @ x), problem.feasible.max_leak
        assert average <= limit + _ROUNDING, f"the average sharing ratio is {average}, its limit is {limit}"


def keeps_limits_after_rounding(method: Method, options: Any) -> None:
    """Samples that are sent, energy and frequencies are within what the users allow and their devices can do."""
    for problem in _problems():
        result = _result(problem, method, options)
        allowed = problem.volumes_of_users(problem.caps)
        assert (result.shared <= allowed + _ROUNDING).all(), "a head sends more than it consents to"
        devices, trained = problem.fleet.devices, result.trained[problem.trained]
        assert (result.round.energy_j <= devices.energy_budget_j[trained] * (1 + _ROUNDING)).all(), "too much energy"
        assert (result.frequency_hz[problem.trained] <= devices.max_frequency_hz).all(), "a frequency is too high"


def repeats_itself(method: Method, options: Any) -> None:
    """The same problem gives the same ratios and the same trace, to the last bit."""
    for problem in _problems():
        first, second = method(problem, options), method(replace(problem), options)
        assert first.x.tolist() == second.x.tolist(), "two runs on one problem give different ratios"
        assert first.trace == second.trace, "two runs on one problem have different traces"


def leaves_the_problem_unchanged(method: Method, options: Any) -> None:
    """No array of the problem is written to."""
    for problem in _problems():
        with unchanged(problem, message="an array of the problem has changed"):
            method(problem, options)


def reports_the_true_delay(method: Method, options: Any) -> None:
    """The reported delays are those of the reported volumes, evaluated anew by the cost model."""
    for problem in _problems():
        result = _result(problem, method, options)
        reports = (result.objective_s, result.shared.astype(float)), (result.relaxed_objective_s, result.volumes)
        for reported, volumes in reports:
            again = evaluate(problem, volumes).objective_s
            assert np.isclose(reported, again, rtol=1e-9, atol=0), f"delay {reported} s, evaluated anew {again} s"


def is_no_worse_than_sharing_nothing(method: Method, options: Any) -> None:
    """A method that chooses volumes never exceeds the delay without sharing."""
    for problem in _problems() if method.optimises else ():
        found = method(problem, options).x
        delay, without = (problem.objective_s(problem.at(x)) for x in (found, np.zeros_like(found)))
        assert delay <= without * (1 + _ROUNDING), f"a delay of {delay} s, without sharing it is {without} s"


def handles_a_clustering_without_heads(method: Method, options: Any) -> None:
    """Without clusters there is no ratio to choose."""
    case = random_case(8, num_users=12)
    alone = replace(case, clustering=Clustering(case.clustering.problem, np.full(12, -1)), rate_bps=np.full(12, np.nan))
    result = _result(alone.problem(), method, options)
    assert result.shared.sum() == 0, "something is shared without heads"
    assert result.sharing_s == 0, "sharing takes time without heads"


CHECKS = (
    returns_feasible_ratios, keeps_limits_after_rounding, repeats_itself, leaves_the_problem_unchanged,
    reports_the_true_delay, is_no_worse_than_sharing_nothing, handles_a_clustering_without_heads,
)  # fmt: skip


def gaps_to_optimum(method: Method, options: Any) -> list[float]:
    """Return how far the method's delay is above the global optimum in each problem, relative to it.

    Example:
        >>> max(gaps_to_optimum(find_method("oracle"), None))
        0.0
    """
    gaps = []
    for problem in _problems():
        candidates = method(problem, options).x, find_method("oracle")(problem).x
        found, best = (problem.objective_s(problem.at(x)) for x in candidates)
        gaps.append(found / best - 1)
    return gaps


@cache
def _problems() -> tuple[AllocationProblem, ...]:
    """Return problems of every energy regime and weighting, with partial consent, caps and limits of the average."""
    kinds = [("energy", "A", "own", None), ("mixed", "B", "balanced", None), ("frequency", "C", "own", 0.03)]
    kinds += [("mixed", "B", "own", 0.0)]
    problems = []
    for seed, (regime, weighting, composition, limit) in enumerate(kinds):
        case = random_case(seed, regime, num_users=24, weighting=weighting, composition=composition)
        consent = generator(seed, "test/consent").uniform(0, 0.8, 24)
        fleet = replace(case.fleet, devices=replace(case.fleet.devices, consent=consent))
        settings = Allocation(max_sharing_ratio=0.6, max_asr=limit)
        problems.append(replace(case, fleet=fleet).problem(settings, seed=seed, beta_samples=20))
    return tuple(problems)


def _result(problem: AllocationProblem, method: Method, options: Any) -> AllocationResult:
    return make_result(problem, "checked", method(problem, options), free_rounding=method.optimises)
