"""The sharing plan: who shares how much with whom, how fast devices compute, and what it will cost.

Clustering needs volumes before allocation knows them. It starts at `clustering.sharing_ratio`, and both are repeated
with the volumes solved for, until the clusters stay as they are or `clustering.max_passes` is reached; the best plan is
kept. Users that share nothing are offered again before clusters count as settled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from fedcast.allocation import AllocationResult, allocate, method_options, part_of
from fedcast.clustering import Clustering, Problem, cluster
from fedcast.clustering.problem import ROUNDING
from fedcast.data import average_emd, average_js, distribution_shift
from fedcast.errors import FedcastError
from fedcast.plan.matching import numbering, renumbered
from fedcast.plan.sharing_plan import Delay, LeakagePoint, SharingPlan
from fedcast.plan.world import World, check_world, link_rates_bps, make_world, multicasts
from fedcast.rounds import load_rounds
from fedcast.scenario import Scenario
from fedcast.typing import Floats, Ints

_CURVE_SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
# A point of the curve needs few stochastic steps: the closing steps on all samples find the same volumes to 0.1 %.
_CURVE_STEPS = 4


def make_plan(
    scenario: Scenario,
    *,
    data_dir: str | Path | None = None,
    world: World | None = None,
    previous: SharingPlan | None = None,
    with_curve: bool = True,
) -> SharingPlan:
    """Plan a scenario, or a world already made for it.

    Args:
        scenario: all parameters.
        data_dir: where dataset files are looked for first.
        world: made of the same scenario, if it does not come from its dataset, or is at hand.
        previous: a plan of the same users before some joined, left or moved: its volumes are the start, and its
            clusters, as far as their links still hold, compete with new ones. Users are told apart by their names, or
            without names by their ids.
        with_curve: also find delay against leakage.

    Example:
        >>> plan = make_plan(Scenario(), with_curve=False)
        >>> plan.num_users, bool(plan.delay.total_s < plan.delay_without_s)
        (100, True)
    """
    world = make_world(scenario, data_dir) if world is None else check_world(world, scenario)
    planner = _Planner(world)
    if scenario.clustering.rule == "central":
        raise FedcastError(
            "clustering.rule = central: the server's broadcast has no volumes of heads to allocate; "
            "plan another rule, or train with `fedcast train --set clustering.rule=central`"
        )
    start, carried = _ratios(planner.problem), None
    if previous is not None:
        former = renumbered(previous, numbering(previous, world.population.num_users, world.population.names))
        start = _carried_ratios(planner.problem, *former)
        carried = _carried_clustering(planner.problem, former[0], previous.composition)
    best, passes = planner.settle(start, carried)
    without = planner.allocate(_without_sharing(planner.problem))
    curve = planner.leakage_curve(best, without) if with_curve else ()
    return _plan(planner, best, without, curve, passes)


def clustering_of(world: World, plan: SharingPlan) -> Clustering:
    """The clusters of a plan, with its volumes, in the world that it was made for."""
    settings = plan.scenario.clustering.model_copy(update={"composition": plan.composition})
    problem = replace(world.problem(settings), volumes=plan.shared.astype(np.float64))
    ignores_graph = settings.rule == "random" and not settings.respect_graph
    return Clustering(problem, plan.head_of, ignores_graph=ignores_graph)


class _Planner:
    """Clustering and allocation of one world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rounds = load_rounds(world.scenario.rounds)
        self.problem = world.problem()

    def allocate(self, clustering: Clustering, max_asr: float | None = None) -> AllocationResult:
        """Volumes and frequencies for given clusters, under the scenario's limits or, for the curve, a tighter one."""
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
            options=options,
        )

    def settle(self, ratios: Floats, carried: Clustering | None) -> tuple[AllocationResult, int]:
        """Repeat clustering and allocation until clusters stay, whatever is offered next, and keep the best."""
        found = [] if carried is None else [self.allocate(carried)]
        seen: set[bytes] = set()
        offers = [ratios]
        for _ in range(self.world.scenario.clustering.max_passes):
            clustering = self._unseen(offers, seen)
            if clustering is None:
                break
            found.append(self.allocate(clustering))
            offers = self._solved_ratios(found[-1])
        return min(found, key=lambda result: result.objective_s), len(seen)

    def _unseen(self, offers: Sequence[Floats], seen: set[bytes]) -> Clustering | None:
        """Clusters of the first offer, ratios of all users, that gives any not seen before; None: they stay."""
        for ratios in offers:
            volumes = np.floor(ratios * self.problem.skew.sizes + ROUNDING)
            clustering = cluster(replace(self.problem, volumes=volumes))
            key = clustering.head_of.tobytes()
            if key not in seen:
                seen.add(key)
                return clustering
        return None

    def _solved_ratios(self, result: AllocationResult) -> list[Floats]:
        """What to cluster with next: heads at their solved ratios, the others at the heads' mean.

        A head solved to 0 cannot lead the next clusters, and lowers the mean. That is tried first, since it mostly was
        a bad head. If it leads to nothing new, all but the heads that share are offered again: at the mean of these,
        then at the ratio that planning started with.
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
        """Ratios of all users: some heads as solved, the others as given, as far as they consent."""
        ratios: Floats = np.minimum(others, self.world.fleet.devices.consent)
        ratios[heads] = solved
        return ratios

    def leakage_curve(self, best: AllocationResult, without: AllocationResult) -> tuple[LeakagePoint, ...]:
        """Delay when the average sharing ratio is limited to parts of what the plan uses, clusters as they are."""
        points = []
        for share in _CURVE_SHARES:
            limit = share * best.average_sharing_ratio
            if limit == 0.0:
                result = without
            else:
                result = best if share == 1.0 else self.allocate(best.clustering, max_asr=limit)
            points.append(LeakagePoint(result.average_sharing_ratio, result.objective_s))
        return tuple(points)


def _ratios(problem: Problem) -> Floats:
    sizes = problem.skew.sizes
    ratios: Floats = np.divide(problem.volumes, sizes, out=np.zeros(len(sizes)), where=sizes > 0)
    return ratios


def _carried_ratios(problem: Problem, head_of: Ints, shared: Ints) -> Floats:
    """Start where the old plan ended: its heads' ratios for users that were heads, as far as they are allowed."""
    ratios, sizes = _ratios(problem), problem.skew.sizes
    heads = np.unique(head_of[head_of >= 0])
    known = heads[heads < problem.num_users]
    known = known[sizes[known] > 0]
    ratios[known] = np.minimum(shared[known] / sizes[known], 1.0)
    carried: Floats = np.where(problem.volumes > 0, ratios, 0.0)
    return carried


def _carried_clustering(problem: Problem, head_of: Ints, composition: str) -> Clustering:
    """The old clusters in the new world: users that are gone and links that no longer hold are dropped."""
    settings = problem.settings.model_copy(update={"composition": composition})
    problem = replace(problem, settings=settings)
    head_of = head_of[: problem.num_users].copy()
    head_of[head_of >= problem.num_users] = -1
    able = (head_of >= 0) & (problem.volumes[head_of] > 0)
    linked = Clustering(problem, np.where(able, head_of, -1), ignores_graph=True).links >= 0
    return Clustering(problem, np.where(able & linked, head_of, -1))


def _without_sharing(problem: Problem) -> Clustering:
    settings = problem.settings.model_copy(update={"rule": "none", "composition": "own"})
    return cluster(replace(problem, settings=settings))


def _without_idle_heads(clustering: Clustering) -> Clustering:
    """A head whose volume was solved to 0 sends nothing: its members have none."""
    return replace(clustering, head_of=np.where(clustering.received > 0, clustering.head_of, -1), proof=None)


def _plan(
    planner: _Planner,
    best: AllocationResult,
    without: AllocationResult,
    curve: Sequence[LeakagePoint],
    passes: int,
) -> SharingPlan:
    world, cost, clustering = planner.world, best.round, _without_idle_heads(best.clustering)
    sharing = multicasts(world, clustering)
    down, compute, up = cost.phases_s
    weighting = world.scenario.clustering.weighting
    before, after = part_of(world.skew, best.trained), part_of(clustering.after, best.trained)
    energy = np.zeros(world.skew.num_users)
    energy[best.trained] = cost.energy_j
    return SharingPlan(
        scenario=world.scenario,
        head_of=clustering.head_of,
        shared=clustering.shared.astype(np.int64),
        frequency_hz=best.frequency_hz,
        energy_j=energy,
        composition=clustering.problem.settings.composition,
        emd_before=average_emd(before),
        emd_after=average_emd(before, after, weighting),
        js_before=average_js(before),
        js_after=average_js(before, after, weighting),
        shift=distribution_shift(after),
        rounds=best.rounds,
        rounds_without=without.rounds,
        delay=Delay(sharing.sharing_s, best.rounds * down, best.rounds * compute, best.rounds * up),
        delay_without_s=without.objective_s,
        sharing_j=float(sharing.energy_j.sum()),
        sharing_bytes=sharing.sent_bytes,
        round_bytes=cost.uploaded_bytes + cost.broadcast_bytes,
        average_sharing_ratio=best.average_sharing_ratio,
        leakage=tuple(curve),
        passes=passes,
        fit=world.scenario.rounds.fit,
        form=planner.rounds.form,
        measure=planner.rounds.measure,
        names=world.population.names,
    )
