"""Users that a plan leaves out: those that neither send nor receive, and users that do not train; with the reason."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedcast.clustering import REASONS, STATUSES, Status, explain
from fedcast.cost import feasibility
from fedcast.formatting import pluralize
from fedcast.plan.make import clustering_of
from fedcast.plan.refused import RefusedLinks
from fedcast.plan.sharing_plan import SharingPlan
from fedcast.plan.world import World
from fedcast.typing import Bools

_IN_CLUSTERS: tuple[Status, ...] = ("head", "member", "served")
_NOBODY = "nobody shares: sharing does not shorten the task, or no user may share"


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
    untrusted = None if refused is None else refused.count(len(users), by_trust=True)
    too_slow = None if refused is None else refused.count(len(users), by_trust=False)

    def row(user: int) -> LeftOut:
        status, why = STATUSES[statuses[user]], []
        if world.population.names is not None and world.population.names[user] in world.scenario.changes.without:
            why.append("taken out: changes.without")
        if not inside[user]:
            reach = (untrusted[user], too_slow[user]) if untrusted is not None and too_slow is not None else None
            why.append(_why_alone(status, reach) if shared else _NOBODY)
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
            None if untrusted is None else int(untrusted[user]),
            None if too_slow is None else int(too_slow[user]),
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


def _why_alone(status: Status, reach: tuple[int, int] | None) -> str:
    """Return why a user is in no cluster; `reach`: users that it does not trust enough, and that are too slow."""
    if reach is None:
        return REASONS[status]
    untrusted, too_slow = reach
    if status != "no link":
        more = f"; {pluralize(untrusted, 'other user')} in reach {'is' if untrusted == 1 else 'are'} not close enough"
        return REASONS[status] + (more if untrusted and status == "no head in reach" else "")
    if untrusted:
        return f"not trusted: {pluralize(untrusted, 'user is', 'users are')} in reach, but none is close enough"
    if too_slow:
        return f"too slow: none of its {pluralize(too_slow, 'link')} meets the least rate"
    return "out of reach: it has no link to anybody"
