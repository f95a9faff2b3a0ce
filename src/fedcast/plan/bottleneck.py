"""The bottlenecks of a plan: which users set the delay of sharing and of a round, and what would shorten it.

A change is evaluated with the clusters as planned. Volumes and local epochs are chosen anew for it, since a plan leaves
no slack: it shares so much that several users finish at the same time. With many users, or an allocation method that
takes long, volumes and epochs stay as planned too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedcast.allocation import part_of, skew_for_model
from fedcast.clustering import Clustering
from fedcast.cost import RoundCost, SharingCost, round_cost
from fedcast.data import distribution_shift
from fedcast.errors import NotReachableError, OutsideFitError
from fedcast.plan.kind_choice import with_kinds, worth_of
from fedcast.plan.make import clustering_of
from fedcast.plan.search import Search
from fedcast.plan.sharing_plan import SharingPlan
from fedcast.plan.world import World, link_rates_bps, sharing_cost_of
from fedcast.rounds import RoundsModel, load_rounds, local_steps
from fedcast.scenario import with_overrides
from fedcast.typing import Bools, Floats, Ints

Part = Literal["sharing", "download", "round", "compute", "upload"]

# Users that are listed by the time at which they finish a round, and heads by the duration of their multicast.
_SLOWEST = 10
# Users that finish within this share of the round before its end are bottlenecks too, at most so many.
_ALMOST, _MOST_ALMOST = 0.05, 4
# How many of them are relieved together.
_TOGETHER = (3, 10)
# Of more users, and by other methods, volumes are not chosen anew.
MAX_ADAPTED = 2_000
_QUICK_METHODS = ("jfvo", "saa", "smm", "fixed")
# Less than any device has: a user with this budget cannot take part.
_NO_ENERGY_J = 1e-15
# A change that saves less of the task is not worth a line.
_LEAST_SAVED = 1e-3


@dataclass(frozen=True)
class TaskDelays:
    """Delays of a task; rounds are None where they are not predicted, or the target is not reachable."""

    sharing_s: float
    round_s: float
    rounds: float | None

    @property
    def task_s(self) -> float | None:
        """Return the delay of the task, s."""
        return None if self.rounds is None else self.sharing_s + self.rounds * self.round_s


@dataclass(frozen=True, eq=False)
class Bottleneck:
    """One user that sets a part of the delay."""

    #: `round`: the user that a round waits for, then users that finish almost as late; `compute` and `upload`: others
    #: that take longer for these
    part: Part
    user: int
    seconds: float  #: that this part takes
    peer: int | None  #: of sharing: the member at the slowest link of a head, or the head of that member
    without: TaskDelays | None  #: without this user: it neither shares nor trains; None: nobody else trains
    reliefs: Mapping[str, TaskDelays]  #: changes that help, the best first


@dataclass(frozen=True, eq=False)
class Bottlenecks:
    """The bottlenecks of a plan, and the users that come next."""

    planned: TaskDelays
    parts: tuple[Bottleneck, ...]  #: in the order of `Part`
    slowest: Ints  #: users that finish a round last, the last one first
    phases_s: Floats  #: float64[N, 3], download, compute and upload of their rounds
    #: how many of `slowest` are relieved together, and what each change of all of them gives
    together: Mapping[int, Mapping[str, TaskDelays]]
    adapted: bool  #: whether volumes and local epochs are chosen anew for each change
    heads: Ints  #: with the longest multicasts, the longest first; -1: the server
    multicast_s: Floats  #: duration of each
    slowest_members: Ints  #: of each

    @property
    def worst(self) -> Bottleneck | None:
        """Return the user without whom most would be saved, at the part that is best relieved; None: nobody costs."""
        costs = {part: saved(self.planned, part.without) for part in self.parts if part.without is not None}
        relief = {part: [saved(self.planned, changed) for changed in part.reliefs.values()] for part in costs}
        found = max(costs, key=lambda part: (costs[part], max(relief[part], default=0.0)), default=None)
        return found if found is not None and costs[found] > _LEAST_SAVED else None


def find_bottlenecks(plan: SharingPlan, world: World) -> Bottlenecks:
    """Return the bottlenecks of a plan in the world that it was made for.

    Example:
        >>> from fedcast.plan import make_plan, make_world
        >>> from fedcast.scenario import load_scenario
        >>> quick = ["clustering.rule=gain", "training.local_epochs=1"]
        >>> world = make_world(load_scenario(overrides=quick))
        >>> found = find_bottlenecks(make_plan(world.scenario, world=world, with_curve=False), world)
        >>> [part.part for part in found.parts][:5]
        ['sharing', 'sharing', 'download', 'round', 'round']
        >>> bool(found.together[3]["without them"].round_s < found.planned.round_s)
        True
    """
    if plan.kinds is not None:
        world = with_kinds(world, np.array(plan.kinds, dtype=np.str_))
    world = replace(world, fleet=replace(world.fleet, local_epochs=plan.local_epochs))
    rounds, rate, dataset = plan.scenario.rounds, plan.scenario.training.learning_rate, plan.scenario.data.dataset
    model = None if plan.rounds is None else load_rounds(rounds, rate, dataset)
    task = _Task(world, clustering_of(world, plan), plan.trained, model)
    sharing, cost, users = task.sharing, task.round, np.flatnonzero(plan.trained)
    phases = np.stack([cost.broadcast_s, cost.compute_s, cost.span_s], axis=1)
    last = np.argsort(-phases.sum(axis=1), kind="stable")[:_SLOWEST]
    order = np.argsort(-sharing.delay_s, kind="stable")[:_SLOWEST]
    return Bottlenecks(
        task.outcome,
        (*_of_sharing(task), *_of_round(task, users, cost)),
        users[last],
        phases[last],
        {count: _together(task, users[last[:count]]) for count in _TOGETHER if count <= len(last)},
        task.adapts,
        sharing.heads[order],
        sharing.delay_s[order],
        np.array([task.slowest_member(head) for head in sharing.heads[order].tolist()], dtype=np.int64),
    )


def saved(planned: TaskDelays, changed: TaskDelays) -> float:
    """Return the share of the task's delay that a change saves; without a prediction, that of sharing and a round.

    Negative: it takes longer. Where the target is no longer reachable, minus infinity.
    """
    if planned.task_s is not None:
        return -np.inf if changed.task_s is None else 1 - changed.task_s / planned.task_s
    before, after = planned.sharing_s + planned.round_s, changed.sharing_s + changed.round_s
    return 1 - after / before if before else 0.0


@dataclass(frozen=True, eq=False)
class _Task:
    """A task as planned, or with a change."""

    world: World
    clustering: Clustering
    trained: Bools
    model: RoundsModel | None  # that the plan was made with; None: nothing is predicted

    @cached_property
    def outcome(self) -> TaskDelays:
        """Return the delays with volumes and local epochs as they are."""
        return TaskDelays(self.sharing.sharing_s, self.round.expected_s, self._rounds())

    @cached_property
    def sharing(self) -> SharingCost:
        return sharing_cost_of(self.world, self.clustering)

    @cached_property
    def round(self) -> RoundCost:
        return round_cost(self.world.fleet.of(self.trained), self.clustering.after.sizes[self.trained])

    @property
    def adapts(self) -> bool:
        """Return whether volumes and local epochs can be chosen anew in little time."""
        quick = self.world.scenario.allocation.method in _QUICK_METHODS
        return self.model is not None and quick and len(self.trained) <= MAX_ADAPTED

    def best(self) -> TaskDelays | None:
        """Return the delays with the best volumes and local epochs for these clusters; None: nobody trains."""
        if not self.trained.any():
            return None
        if not self.adapts:
            return self.outcome
        world, devices = self.world, self.world.fleet.devices
        budget = np.where(self.trained | (world.skew.sizes == 0), devices.energy_budget_j, _NO_ENERGY_J)
        scenario = with_overrides(world.scenario, {"allocation.infeasible_users": "exclude"})
        fleet = replace(world.fleet, devices=replace(devices, energy_budget_j=budget))
        world = replace(world, scenario=scenario, fleet=fleet)
        search, rule = Search(world), self.clustering.rule
        found = search.climb(rule, self.clustering, min(world.fleet.local_epochs, search.choices[-1]))
        if found is None:
            return self.outcome
        result = found.result
        adapted = TaskDelays(sharing_cost_of(world, result.clustering).sharing_s, result.round_s, result.rounds)
        planned_s, adapted_s = self.outcome.task_s, adapted.task_s
        return adapted if planned_s is None or (adapted_s is not None and adapted_s < planned_s) else self.outcome

    def _rounds(self) -> float | None:
        """Return the expected rounds as an allocation of these users computes them."""
        if self.model is None:
            return None
        scenario, epochs = self.world.scenario, self.world.fleet.local_epochs
        counted = self.clustering.after_worth(worth_of(self.world, self.model))
        before, after = part_of(self.world.skew, self.trained), part_of(counted, self.trained)
        start, skew = (
            skew_for_model(before, held, self.model, scenario.clustering.weighting) for held in (before, after)
        )
        own_steps, steps = (
            local_steps(before.sizes, held.sizes, epochs, scenario.training.batch_size) for held in (before, after)
        )
        shift = distribution_shift(after)
        try:
            betas = self.model.draw(scenario.rounds.beta_samples, start, scenario.seed, own_steps)
            rounds = betas.expected(skew, shift, steps).rounds
            self.model.check(skew, shift)
            self.model.check_target(skew, rounds)
        except (NotReachableError, OutsideFitError):
            return None
        return rounds

    def slowest_member(self, head: int) -> int:
        """Return the member with the slowest link from a head; for the server, the user with the slowest download."""
        if head < 0:
            return int(np.argmax(self.world.fleet.links.down_s_per_bit))
        members = self.clustering.members_of(head)
        return int(members[np.argmin(link_rates_bps(self.world, self.clustering)[members])])

    def without(self, users: Ints) -> _Task:
        """Return the task if nobody receives from some users, and they do not train."""
        gone = np.zeros(len(self.trained), dtype=bool)
        gone[users] = True
        head_of = self.clustering.head_of
        return self._with_heads(np.where(gone | gone[head_of], -1, head_of), self.trained & ~gone)

    def without_receiving(self, member: int) -> _Task:
        """Return the task if a member receives nothing."""
        head_of = self.clustering.head_of.copy()
        head_of[member] = -1
        return self._with_heads(head_of, self.trained)

    def _with_heads(self, head_of: Ints, trained: Bools) -> _Task:
        clustering = replace(self.clustering, head_of=head_of, proof=None)
        return replace(self, clustering=clustering, trained=trained & (clustering.after.sizes > 0))

    def with_rate(self, member: int, factor: float) -> _Task:
        """Return the task with the rate of a member's link from its head multiplied."""
        graph = self.world.graph
        rates = _multiplied(graph.rate_bps, [int(self.clustering.links[member])], factor)
        graph = replace(graph, rate_bps=rates)
        problem = replace(self.clustering.problem, graph=graph)
        return replace(
            self, world=replace(self.world, graph=graph), clustering=replace(self.clustering, problem=problem)
        )

    def with_fleet(self, part: Literal["devices", "links"], users: Ints, name: str, factor: float) -> _Task:
        """Return the task with a property of the devices, or links to base stations, of some users multiplied."""
        fleet = self.world.fleet
        held = getattr(fleet, part)
        changed = replace(held, **{name: _multiplied(getattr(held, name), users, factor)})
        return replace(self, world=replace(self.world, fleet=replace(fleet, **{part: changed})))


def _multiplied(values: NDArray[Any], places: Any, factor: float) -> NDArray[Any]:
    changed = values.copy()
    changed[places] *= factor
    return changed


_Changes = dict[str, _Task]


def _of_sharing(task: _Task) -> Iterator[Bottleneck]:
    """Yield the head with the longest multicast and its slowest member, if anyone shares."""
    sharing = task.sharing
    if sharing.sharing_s == 0:
        return
    head = int(sharing.heads[sharing.delay_s.argmax()])
    member = task.slowest_member(head)
    if head < 0:
        yield _bottleneck(task, "sharing", member, sharing.sharing_s, _faster_download(task, member))
        return
    yield _bottleneck(task, "sharing", head, sharing.sharing_s, {}, member)
    faster = {"a link twice as fast": task.with_rate(member, 2.0), "receiving nothing": task.without_receiving(member)}
    yield _bottleneck(task, "sharing", member, sharing.sharing_s, faster, head)


def _of_round(task: _Task, users: Ints, cost: RoundCost) -> Iterator[Bottleneck]:
    """Yield the user that sets the download, those that finish last, and others that take longer in part."""
    links, waited = task.world.fleet.links, cost.critical_user
    # The broadcast of a cell ends with its slowest user; that of the cell that the round waits for matters.
    same_cell = links.cell_of[users] == links.cell_of[users[waited]]
    receiver = int(np.where(same_cell, links.down_s_per_bit[users], -1.0).argmax())
    found: list[tuple[Part, int, Floats]] = [("download", receiver, cost.broadcast_s)]
    own = cost.compute_s + cost.span_s
    finish = cost.broadcast_s + own
    last = np.argsort(-finish, kind="stable")[:_MOST_ALMOST]
    last = last[finish[last] >= (1 - _ALMOST) * finish[waited]]
    found += [("round", place, own) for place in last.tolist()]
    longest: list[tuple[Part, Floats]] = [("compute", cost.compute_s), ("upload", cost.span_s)]
    found += [(part, int(seconds.argmax()), seconds) for part, seconds in longest if seconds.argmax() not in last]
    for part, place, seconds in found:
        user = int(users[place])
        changes = _faster_download(task, user)
        if part != "download":
            changes = _faster_round(task, users[place : place + 1])
            # Frequencies below the highest are limited by energy.
            limited = cost.frequency_hz[place] < task.world.fleet.devices.max_frequency_hz[user]
            del changes["twice the CPU frequency" if limited else "twice the energy budget"]
            if task.clustering.head_of[user] >= 0:
                changes["receiving nothing"] = task.without_receiving(user)
        yield _bottleneck(task, part, user, float(seconds[place]), changes)


def _faster_download(task: _Task, user: int) -> _Changes:
    return {"twice the download rate": task.with_fleet("links", np.array([user]), "down_s_per_bit", 0.5)}


def _faster_round(task: _Task, users: Ints) -> _Changes:
    """Return the task with better devices of some users."""
    changes = {
        "twice the CPU frequency": task.with_fleet("devices", users, "max_frequency_hz", 2.0),
        "twice the energy budget": task.with_fleet("devices", users, "energy_budget_j", 2.0),
    }
    if task.world.scenario.cellular.uplink != "fractional":  # there the rate is a matter of the band's split
        changes["twice the upload rate"] = task.with_fleet("links", users, "up_s_per_bit", 0.5)
    return changes


def _together(task: _Task, users: Ints) -> dict[str, TaskDelays]:
    return _outcomes({"without them": task.without(users), **_faster_round(task, users)})


def _outcomes(changes: _Changes) -> dict[str, TaskDelays]:
    """Return the outcomes of changes, without those that leave nobody to train."""
    found = {name: changed.best() for name, changed in changes.items()}
    return {name: outcome for name, outcome in found.items() if outcome is not None}


def _bottleneck(
    task: _Task, part: Part, user: int, seconds: float, changes: _Changes, peer: int | None = None
) -> Bottleneck:
    outcomes = _outcomes(changes)
    gains = {name: saved(task.outcome, outcome) for name, outcome in outcomes.items()}
    names = sorted((name for name, gain in gains.items() if gain > _LEAST_SAVED), key=lambda name: -gains[name])
    without = task.without(np.array([user])).best()
    return Bottleneck(part, user, seconds, peer, without, {name: outcomes[name] for name in names})
