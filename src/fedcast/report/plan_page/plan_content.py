"""Everything that the report of a plan shows, computed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedcast.clustering import Clustering
from fedcast.cost import Delay
from fedcast.plan import (
    Bottlenecks,
    LeftOut,
    RefusedLinks,
    SharingPlan,
    World,
    baseline_delay,
    clustering_of,
    find_bottlenecks,
    find_left_out,
    plan_table,
    refused_links,
    sharing_cost_of,
)
from fedcast.typing import Ints

# Of more users refused links are not looked for.
_MAX_REFUSED_OF = 10_000
# Limits that keep the page small.
MAX_USERS, MAX_LEFT_OUT = 1_000, 200


@dataclass(frozen=True, eq=False)
class PlanContent:
    """A plan, the world that it was made for, and what follows from both."""

    plan: SharingPlan
    world: World
    clustering: Clustering
    table: dict[str, Any]  #: see `plan_table`, with the samples that users hold
    multicast_s: dict[int, float]  #: duration of the multicast of each head
    bottlenecks: Bottlenecks
    refused: RefusedLinks | None  #: None: too many users
    left_out_for: dict[str, int]  #: number of users by reason
    left_out: Sequence[LeftOut]
    without: dict[str, Delay]  #: parts of the delays without sharing, by name

    @property
    def shares(self) -> bool:
        """Return whether anyone shares."""
        return bool(len(self.plan.heads)) or self.plan.server_samples > 0

    def name(self, user: int) -> str:
        """Return the name of a user, or its id as in "user 3"; the server is user -1."""
        if user < 0:
            return "the server"
        return f"user {user}" if self.plan.names is None else str(self.plan.names[user])

    @property
    def users_shown(self) -> Ints:
        """Return the users of the table, by id: all, or bottlenecks, heads by members, and those with long rounds."""
        plan = self.plan
        if plan.num_users <= MAX_USERS:
            return np.arange(plan.num_users)
        members = np.bincount(plan.head_of[plan.head_of >= 0], minlength=plan.num_users)
        heads = np.argsort(-members, kind="stable")[: min(MAX_USERS // 2, len(plan.heads))]
        seconds = np.array([-1.0 if time is None else time for time in self.table["round_s"]])
        named = [part.user for part in self.bottlenecks.parts]
        order = [*named, *heads.tolist(), *np.argsort(-seconds, kind="stable")[:MAX_USERS].tolist()]
        return np.sort(list(dict.fromkeys(order))[:MAX_USERS])


def gather_plan(plan: SharingPlan, world: World) -> PlanContent:
    """Compute what the report of a plan shows."""
    refused = refused_links(world) if plan.num_users <= _MAX_REFUSED_OF else None
    counts, left_out = find_left_out(plan, world, refused, MAX_LEFT_OUT)
    baselines = {"without sharing, at its best": plan.best_without}
    if plan.without != plan.best_without:
        baselines["without sharing, as given"] = plan.without
    clustering = clustering_of(world, plan)
    sharing = sharing_cost_of(world, clustering)
    return PlanContent(
        plan,
        world,
        clustering,
        plan_table(plan, world) | {"samples": world.population.sizes},
        dict(zip(sharing.heads.tolist(), sharing.delay_s.tolist(), strict=True)),
        find_bottlenecks(plan, world),
        refused,
        counts,
        left_out,
        {name: baseline_delay(one, world) for name, one in baselines.items() if one is not None},
    )
