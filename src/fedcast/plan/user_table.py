"""A plan as a table with one row per user."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedcast.cost import round_cost
from fedcast.io import data_frame
from fedcast.plan.make import clustering_of
from fedcast.plan.sharing_plan import SharingPlan
from fedcast.plan.world import World, link_rates_bps

if TYPE_CHECKING:
    import pandas


def plan_table(plan: SharingPlan, world: World | None = None) -> dict[str, Any]:
    """Return the columns of a plan's table; with the world that it was made for, also what follows from both.

    The world adds EMD before and after sharing, the rate of the link from the head, and the seconds of a round from the
    download to the end of the upload, of users that train.

    Example:
        >>> from fedcast.plan import make_plan, make_world
        >>> from fedcast.scenario import load_scenario
        >>> world = make_world(load_scenario(overrides=["clustering.rule=gain"]))
        >>> table = plan_table(make_plan(world.scenario, world=world, with_curve=False), world)
        >>> list(table)[:4], list(table)[-4:]
        (['user', 'role', 'head', 'shared_samples'], ['emd_before', 'emd_after', 'rate_bps', 'round_s'])
    """
    users, led = np.arange(plan.num_users), plan.head_of >= 0
    called = (users if plan.names is None else plan.names).tolist()
    table = {
        "user": called,
        "role": np.select([np.isin(users, plan.heads), led], ["head", "member"], "alone"),
        "head": [called[head] if head >= 0 else None for head in plan.head_of],
        "shared_samples": plan.shared,
        # What the server sends is a mean over users before it is rounded down.
        "received_samples": plan.received.astype(int),
        "frequency_hz": plan.frequency_hz,
        "energy_j": plan.energy_j,
        "trained": plan.trained,
    }
    if plan.kinds is not None:
        sends = np.isin(users, plan.heads)
        table["kind"] = [kind if head else None for kind, head in zip(plan.kinds, sends, strict=True)]
    return table if world is None else table | _in_world(plan, world)


def _in_world(plan: SharingPlan, world: World) -> dict[str, Any]:
    clustering = clustering_of(world, plan)
    rates, after = link_rates_bps(world, clustering), clustering.after
    fleet = replace(world.fleet, local_epochs=plan.local_epochs).of(plan.trained)
    cost = round_cost(fleet, after.sizes[plan.trained], plan.frequency_hz[plan.trained])
    seconds = np.full(plan.num_users, np.nan)
    seconds[plan.trained] = cost.broadcast_s + cost.compute_s + cost.span_s
    return {
        "emd_before": world.skew.emd,
        "emd_after": after.emd,
        "rate_bps": [None if np.isnan(rate) else float(rate) for rate in rates],
        "round_s": [None if np.isnan(time) else float(time) for time in seconds],
    }


def plan_to_pandas(plan: SharingPlan, world: World | None = None) -> pandas.DataFrame:
    """Return the table of a plan as a data frame, with one row per user; see `plan_table`."""
    return data_frame(plan_table(plan, world)).set_index("user")
