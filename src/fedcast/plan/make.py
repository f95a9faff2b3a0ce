"""Make a sharing plan: who shares how much with whom, how fast devices compute, and what it costs.

Clustering needs volumes before allocation has chosen them. It starts with `clustering.sharing_ratio`; clustering and
allocation are then repeated with the volumes found, until the clusters stay the same or `clustering.max_passes` is
reached, and the best plan is kept. Users that share nothing are offered again before the repetition ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcast.allocation import AllocationResult, allocate, method_options, part_of
from fedcast.clustering import ROUNDING, RULES, Clustering, Problem, allocates, cluster
from fedcast.cost import TaskCost, feasibility, metrics_of, task_cost
from fedcast.errors import FedcastError, OutsideFitError
from fedcast.plan.diff import match_users
from fedcast.plan.sharing_plan import LeakagePoint, SharingPlan
from fedcast.plan.world import World, check_world, link_rates_bps, make_world, sharing_cost_of
from fedcast.rounds import load_fit, load_rounds
from fedcast.scenario import Scenario
from fedcast.typing import Floats, Ints

# Limits on the average sharing ratio in the curve, as shares of the plan's; none and all of it come without a search.
_CURVE_SHARES = (0.2, 0.4, 0.6, 0.8)
# A point of the curve needs few stochastic steps: the final steps on all samples find the same volumes to 0.1 %.
_CURVE_STEPS = 4


@dataclass(frozen=True, eq=False)
class Planned:
    """A plan with the values that it was made from; the clustering has the volumes of the plan."""

    world: World
    clustering: Clustering
    cost: TaskCost
    plan: SharingPlan


def make_plan(
    scenario: Scenario,
    *,
    data_dir: str | Path | None = None,
    world: World | None = None,
    previous: SharingPlan | None = None,
    with_curve: bool = True,
) -> SharingPlan:
    """Plan a scenario, or a world made from it.

    Every rule gives a plan. If the fit of rounds does not cover the scenario, rounds and delay of the task are not
    predicted (None); methods that optimise the delay need them, and raise an error.

    Args:
        scenario: all parameters.
        data_dir: where dataset files are looked for first.
        world: made from the same scenario; None: make it.
        previous: a plan of the same users before some joined, left or moved: planning starts with its volumes, and its
            clusters, as far as their links still exist, compete with new ones. Users are matched by name, or by id if
            they have no names. Rules without heads do not use it.
        with_curve: also find the delay against leakage.

    Example:
        >>> plan = make_plan(Scenario(), with_curve=False)
        >>> plan.num_users, bool(plan.delay.total_s < plan.delay_without_s)
        (100, True)
    """
    world = make_world(scenario, data_dir) if world is None else check_world(world, scenario)
    return plan_world(world, previous=previous, with_curve=with_curve).plan


def plan_world(world: World, *, previous: SharingPlan | None = None, with_curve: bool = True) -> Planned:
    """Plan a world; see `make_plan`."""
    try:
        return _predicted(world, previous, with_curve)
    except OutsideFitError as error:
        scenario = world.scenario
        # A fixed ratio needs no prediction to choose volumes, and rules without heads choose none.
        if scenario.allocation.method == "fixed" or not allocates(scenario.clustering.rule):
            return _not_predicted(world, str(error))
        raise OutsideFitError(f"{error}; or share a fixed ratio: allocation.method = fixed") from None


def clustering_of(world: World, plan: SharingPlan) -> Clustering:
    """Return the clusters of a loaded plan, with its volumes, in the world that it was made for."""
    settings = plan.scenario.clustering.model_copy(update={"composition": plan.composition})
    problem = replace(world.problem(settings), volumes=plan.shared.astype(np.float64))
    if plan.server_samples:
        return cluster(replace(problem, server_volume=plan.server_samples))
    options = settings.options("clustering") if settings.rule in RULES else None
    return Clustering(problem, plan.head_of, ignores_graph=not getattr(options, "respect_graph", True))


def _predicted(world: World, previous: SharingPlan | None, with_curve: bool) -> Planned:
    """Plan with predicted rounds and delay of the task."""
    planner = _Planner(world)
    start, carried = _ratios(planner.problem), None
    if previous is not None and allocates(world.scenario.clustering.rule):
        former = match_users(previous, world.population.num_users, world.population.names)
        start = _carried_ratios(planner.problem, former.head_of, former.shared)
        carried = _carried_clustering(planner.problem, former.head_of, previous.composition)
    best, passes = planner.best_of_passes(start, carried)
    alone = planner.problem.settings.model_copy(update={"rule": "none", "composition": "own"})
    without = planner.allocate(cluster(replace(planner.problem, settings=alone)))
    curve = planner.leakage_curve(best, without) if with_curve and best.clustering.broadcast is None else ()
    clustering = _without_idle_heads(best.clustering)
    cost = TaskCost(sharing_cost_of(world, clustering), best.round)
    planned = _planned(world, clustering, cost, best.trained)
    plan = replace(planned.plan, rounds=best.rounds, rounds_without=without.rounds, leakage=curve, passes=passes)
    return replace(planned, plan=replace(plan, delay_without_s=without.objective_s))


def _not_predicted(world: World, reason: str) -> Planned:
    """Plan the fixed ratio or the rule without heads where the fit of rounds does not cover the scenario."""
    scenario, settings = world.scenario, world.scenario.allocation
    clustering = cluster(world.problem())
    if clustering.broadcast is None:
        ratio = min(settings.options("allocation", "fixed").ratio, settings.max_sharing_ratio)
        clustering = cluster(world.problem(scenario.clustering.model_copy(update={"sharing_ratio": ratio})))
        average, limit = clustering.average_sharing_ratio, settings.max_asr
        if limit is not None and average > limit:
            volumes = np.floor(clustering.problem.volumes * (limit / average) + ROUNDING)
            clustering = _without_idle_heads(clustering.with_volumes(volumes))
    sizes = clustering.after.sizes
    trained = sizes > 0
    cost = task_cost(sharing_cost_of(world, clustering), world.fleet, sizes, trained)
    if not np.isfinite(cost.round.round_s):
        report = feasibility(world.fleet, sizes)
        few = "; ".join(report.explain(int(user)) for user in report.infeasible_users[:3])
        raise FedcastError(f"{len(report.infeasible_users)} users cannot take part within their energy budget: {few}")
    planned = _planned(world, clustering, cost, trained)
    return replace(planned, plan=replace(planned.plan, not_predicted=reason))


class _Planner:
    """Clustering and allocation of one world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rounds = load_rounds(world.scenario.rounds, world.scenario.training.learning_rate)
        self.problem = world.problem()

    def allocate(self, clustering: Clustering, max_asr: float | None = None) -> AllocationResult:
        """Return volumes and frequencies for given clusters; `max_asr` replaces the scenario's limit for the curve."""
        scenario = self.world.scenario
        settings, options = scenario.allocation, None
        if max_asr is not None:
            settings = settings.model_copy(update={"max_asr": max_asr})
            options = method_options(settings, steps=_CURVE_STEPS)
        return allocate(
            clustering,
            self.world.fleet,
            self.rounds,
            settings,
            bits_per_sample=self.world.bits_per_sample,
            rate_bps=link_rates_bps(self.world, clustering),
            beta_samples=scenario.rounds.beta_samples,
            seed=scenario.seed,
            batch_size=scenario.training.batch_size,
            options=options,
        )

    def best_of_passes(self, ratios: Floats, carried: Clustering | None) -> tuple[AllocationResult, int]:
        """Repeat clustering and allocation until no offer gives new clusters; return the best and the passes."""
        found = [] if carried is None else [self.allocate(carried)]
        offers, seen = [ratios], set[bytes]()
        for _ in range(self.world.scenario.clustering.max_passes):
            if (clustering := self._unseen(offers, seen)) is None:
                break
            found.append(self.allocate(clustering))
            offers = self._solved_ratios(found[-1])
        return min(found, key=lambda result: result.objective_s), len(seen)

    def _unseen(self, offers: Sequence[Floats], seen: set[bytes]) -> Clustering | None:
        """Return clusters of the first offer (ratios of all users) that gives clusters not seen before."""
        for ratios in offers:
            volumes = np.floor(ratios * self.problem.skew.sizes + ROUNDING)
            clustering = cluster(replace(self.problem, volumes=volumes))
            if (key := clustering.head_of.tobytes()) not in seen:
                seen.add(key)
                return clustering
        return None

    def _solved_ratios(self, result: AllocationResult) -> list[Floats]:
        """Return the offers for the next pass: heads at their solved ratios, the others at the heads' mean.

        A head solved to 0 cannot be a head in the next pass, and lowers the mean. That is tried first, since it was
        mostly a bad head. If it gives nothing new, all users but the heads that share are offered again: at the mean
        of these heads, then at the ratio that planning started with.
        """
        heads = result.clustering.heads
        solved = result.shared[heads] / self.problem.skew.sizes[heads]
        shares = solved > 0
        offers = [self._offer(_ratios(self.problem), heads[shares], solved[shares])]
        if shares.any():
            offers.insert(0, self._offer(solved[shares].mean(), heads[shares], solved[shares]))
        if not shares.all():
            offers.insert(0, self._offer(solved.mean(), heads, solved))
        return offers

    def _offer(self, others: ArrayLike, heads: Ints, solved: Floats) -> Floats:
        """Return ratios of all users: some heads as solved, the others as given, as far as they consent."""
        ratios: Floats = np.minimum(others, self.world.fleet.devices.consent)
        ratios[heads] = solved
        return ratios

    def leakage_curve(self, best: AllocationResult, without: AllocationResult) -> tuple[LeakagePoint, ...]:
        """Return the delay under limits on the average sharing ratio, in parts of the plan's, for its clusters."""
        limits = [share * best.average_sharing_ratio for share in _CURVE_SHARES]
        between = [self.allocate(best.clustering, max_asr=limit) if limit else without for limit in limits]
        results = (without, *between, best if best.average_sharing_ratio else without)
        return tuple(LeakagePoint(result.average_sharing_ratio, result.objective_s) for result in results)


def _ratios(problem: Problem) -> Floats:
    sizes = problem.skew.sizes
    ratios: Floats = np.divide(problem.volumes, sizes, out=np.zeros(len(sizes)), where=sizes > 0)
    return ratios


def _carried_ratios(problem: Problem, head_of: Ints, shared: Ints) -> Floats:
    """Return start ratios: those of the previous plan for its heads, as far as they are allowed."""
    ratios, sizes = _ratios(problem), problem.skew.sizes
    heads = np.intersect1d(head_of, np.flatnonzero(sizes > 0))
    ratios[heads] = np.minimum(shared[heads] / sizes[heads], 1.0)
    carried: Floats = np.where(problem.volumes > 0, ratios, 0.0)
    return carried


def _carried_clustering(problem: Problem, head_of: Ints, composition: str) -> Clustering:
    """Return the previous clusters without users that left and links that no longer exist."""
    problem = replace(problem, settings=problem.settings.model_copy(update={"composition": composition}))
    head_of = head_of[: problem.num_users].copy()
    head_of[head_of >= problem.num_users] = -1
    able = (head_of >= 0) & (problem.volumes[head_of] > 0)
    linked = Clustering(problem, np.where(able, head_of, -1), ignores_graph=True).links >= 0
    return Clustering(problem, np.where(able & linked, head_of, -1))


def _without_idle_heads(clustering: Clustering) -> Clustering:
    """Return the clustering without heads whose volume was solved to 0: they send nothing."""
    return replace(clustering, head_of=np.where(clustering.received > 0, clustering.head_of, -1), proof=None)


def _planned(world: World, clustering: Clustering, cost: TaskCost, trained: NDArray[np.bool_]) -> Planned:
    """Put a plan together, without rounds and delay of the task."""
    before, after = part_of(world.skew, trained), part_of(clustering.after, trained)
    weighting = world.scenario.clustering.weighting
    frequency, energy = np.zeros((2, world.skew.num_users))
    frequency[trained], energy[trained] = cost.round.frequency_hz, cost.round.energy_j
    plan = SharingPlan(
        **vars(metrics_of(before, after, weighting, clustering.average_sharing_ratio, cost)),
        scenario=world.scenario,
        head_of=clustering.head_of,
        shared=clustering.shared.astype(np.int64),
        server_samples=0.0 if clustering.broadcast is None else clustering.broadcast.volume,
        frequency_hz=frequency,
        energy_j=energy,
        composition=clustering.problem.settings.composition,
        fit=world.scenario.rounds.fit,
        form=world.scenario.rounds.form,
        measure=load_fit(world.scenario.rounds.fit).measure,
        names=world.population.names,
    )
    return Planned(world, clustering, cost, plan)
