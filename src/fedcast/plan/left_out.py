"""Users that a plan leaves out of sharing or training, and links that a threshold refuses; with the reasons."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedcast.clustering import REASONS, STATUSES, Status, explain
from fedcast.cost import feasibility
from fedcast.formatting import pluralize
from fedcast.network import Graph
from fedcast.plan.make import clustering_of
from fedcast.plan.sharing_plan import SharingPlan
from fedcast.plan.world import World, network_of
from fedcast.scenario import with_overrides
from fedcast.typing import Bools, Ints

_IN_CLUSTERS: tuple[Status, ...] = ("head", "member", "served")
_NOBODY = "nobody shares: sharing does not shorten the task, or no user may share"


@dataclass(frozen=True, eq=False)
class RefusedLinks:
    """Pairs that are not linked, [N] each."""

    first: Ints
    second: Ints  #: larger than `first`
    rate_bps: NDArray[np.float32]
    closeness: NDArray[np.float32]
    too_slow: Bools  #: whether the rate is below `sidelink.min_rate_bps`
    too_distant: Bools  #: whether the closeness is below `trust.min_closeness`

    def count(self, num_users: int, *, by_trust: bool) -> Ints:
        """Return how many pairs of each user are refused by closeness alone, or else since they are too slow."""
        chosen = ~self.too_slow if by_trust else self.too_slow
        ends = np.concatenate([self.first[chosen], self.second[chosen]])
        return np.bincount(ends, minlength=num_users)


def refused_links(world: World) -> RefusedLinks:
    """Return the refused links of a world, by both ids.

    Of a table of links these are all that a threshold refuses. Without a table, only pairs within reach of the radio
    are: those that are refused by closeness.

    Example:
        >>> from fedcast.plan import make_world
        >>> from fedcast.scenario import Scenario
        >>> found = refused_links(make_world(Scenario()))
        >>> bool(found.too_distant.all()), bool(found.too_slow.any()), len(found.first) > 100
        (True, False, True)
    """
    scenario = world.scenario
    lowered: dict[str, float] = {"trust.min_closeness": 0.0}
    if scenario.trust.links_file is not None:
        lowered["sidelink.min_rate_bps"] = 0.0
    offered = network_of(with_overrides(scenario, lowered), world.layout)
    first, second, place = _pairs(offered)
    too_slow = offered.rate_bps[place] < np.float32(scenario.sidelink.min_rate_bps)
    too_distant = offered.closeness[place] < scenario.trust.min_closeness
    # Links may also be missing since the scenario cuts them (`changes`), which no threshold refuses.
    users = offered.num_users
    linked, there, _ = _pairs(world.graph)
    kept = ~np.isin(first * users + second, linked * users + there) & (too_slow | too_distant)
    rate, closeness = offered.rate_bps[place[kept]], offered.closeness[place[kept]]
    return RefusedLinks(first[kept], second[kept], rate, closeness, too_slow[kept], too_distant[kept])


def _pairs(graph: Graph) -> tuple[Ints, Ints, Ints]:
    """Return both ends of each link once, the lower id first, and its place in the arrays of the graph."""
    first = np.repeat(np.arange(graph.num_users), graph.degrees)
    second = graph.neighbours.astype(np.int64)
    place = np.flatnonzero(first < second)
    return first[place], second[place], place


@dataclass(frozen=True)
class LeftOut:
    """One user that is left out of sharing, of training, or of both."""

    user: int
    in_cluster: bool  #: whether it sends or receives samples
    trains: bool
    why: tuple[str, ...]  #: one sentence on sharing and one on training, as far as it is left out of them
    linked: int  #: users that it is linked to
    untrusted: int | None  #: users that it would be linked to if they were close enough; None: not counted
    too_slow: int | None  #: users with a link that is listed but too slow
    consent: float  #: largest share of its samples that it agrees to share
    energy_missing_j: float  #: missing from a budget with which it could train, J


def find_left_out(
    plan: SharingPlan, world: World, refused: RefusedLinks | None = None, most: int | None = None
) -> tuple[dict[str, int], list[LeftOut]]:
    """Return how many users are left out for each reason, and the users, those that do not train first.

    Args:
        plan: made for this world.
        world: that it was made for.
        refused: links that a threshold refuses, which tell users that are not trusted from users out of reach.
        most: largest number of users that are returned; None: all.

    Example:
        >>> from fedcast.plan import make_plan, make_world
        >>> from fedcast.scenario import load_scenario
        >>> quick = ["clustering.rule=gain", "training.local_epochs=1"]
        >>> world = make_world(load_scenario(overrides=quick))
        >>> counts, users = find_left_out(make_plan(world.scenario, world=world, with_curve=False), world)
        >>> sum(counts.values()) == len(users)
        True
    """
    world = replace(world, fleet=replace(world.fleet, local_epochs=plan.local_epochs))
    clustering = clustering_of(world, plan)
    statuses, after = explain(clustering).statuses, clustering.after.sizes
    able = feasibility(world.fleet, np.maximum(after, 1.0))
    missing_j = np.where(able.feasible, 0.0, able.smallest_budget_j - able.budget_j)
    inside = np.isin(statuses, [STATUSES.index(status) for status in _IN_CLUSTERS])
    shared, users = bool(inside.any()), np.arange(len(statuses))
    # Where nobody shares, not everyone is a case of its own.
    chosen = ~plan.trained | (~inside & shared)
    counted = [] if refused is None else [refused.count(len(users), by_trust=trust) for trust in (True, False)]

    def row(user: int) -> LeftOut:
        status, why = STATUSES[statuses[user]], []
        untrusted, too_slow = [int(each[user]) for each in counted] or (None, None)
        if world.population.names is not None and world.population.names[user] in world.scenario.changes.without:
            why.append("taken out: changes.without")
        if not inside[user]:
            why.append(_why_alone(status, untrusted, too_slow) if shared else _NOBODY)
            if shared and not world.fleet.devices.consent[user]:
                why.append("it does not consent to share, so that it cannot lead")
        if not plan.trained[user]:
            needs = f"it cannot upload within its energy budget; {able.explain(user).partition(': ')[2]}"
            why.append("it has no samples to train on" if able.feasible[user] else needs)
        return LeftOut(
            user,
            bool(inside[user]),
            bool(plan.trained[user]),
            tuple(dict.fromkeys(why)),
            int(world.graph.degrees[user]),
            untrusted,
            too_slow,
            float(world.fleet.devices.consent[user]),
            float(missing_j[user]),
        )

    order = users[chosen][np.argsort(plan.trained[chosen], kind="stable")]
    counts = _counts(plan, statuses, inside, chosen, able.feasible)
    return counts, [row(user) for user in order[:most].tolist()]


def _counts(plan: SharingPlan, statuses: NDArray[np.int8], inside: Bools, chosen: Bools, able: Bools) -> dict[str, int]:
    """Return how many users are left out for each reason, each user once: not training comes first."""
    idle = chosen & ~plan.trained
    counts = {
        "it cannot upload within its energy budget": int((idle & ~able).sum()),
        "it has no samples to train on": int((idle & able).sum()),
    }
    for place, status in enumerate(STATUSES):
        counts[REASONS[status]] = int((chosen & plan.trained & ~inside & (statuses == place)).sum())
    return {reason: count for reason, count in counts.items() if count}


def _why_alone(status: Status, untrusted: int | None, too_slow: int | None) -> str:
    """Return why a user is in no cluster, from the users that it does not trust enough, and those that are too slow."""
    if untrusted is None:
        return REASONS[status]
    if status != "no link":
        more = f"; {pluralize(untrusted, 'other user')} in reach {'is' if untrusted == 1 else 'are'} not close enough"
        return REASONS[status] + (more if untrusted and status == "no head in reach" else "")
    if untrusted:
        return f"not trusted: {pluralize(untrusted, 'user is', 'users are')} in reach, but none is close enough"
    if too_slow:
        return f"too slow: none of its {pluralize(too_slow, 'link')} meets the least rate"
    return "out of reach: it has no link to anybody"
