"""The world of a plan that was read from a file, made anew from the tables and parameters of its scenario."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcast.allocation import part_of
from fedcast.cost import round_cost
from fedcast.data import average_emd
from fedcast.errors import FedcastError
from fedcast.formatting import user_label
from fedcast.plan.kind_choice import with_kinds
from fedcast.plan.make import clustering_of
from fedcast.plan.sharing_plan import SharingPlan
from fedcast.plan.world import World, make_world, sharing_cost_of
from fedcast.typing import Names

_TOLERANCE = 1e-6


def world_of_plan(plan: SharingPlan, data_dir: str | Path | None = None) -> World:
    """Return the world that a plan was made for; raise an error if its tables are now different.

    Dataset files are looked for in `data_dir` first.
    """
    world = make_world(plan.scenario, data_dir)
    if plan.kinds is not None and len(plan.kinds) == world.skew.num_users:
        world = with_kinds(world, np.array(plan.kinds, dtype=np.str_))
    present = _labels(world.population.names, world.population.num_users)
    if not np.array_equal(_labels(plan.names, plan.num_users), present):
        raise FedcastError(_changed("they have other users"))
    before = average_emd(part_of(world.skew, plan.trained))
    try:
        clustering = clustering_of(world, plan)
        sharing_s = sharing_cost_of(world, clustering).sharing_s
    except FedcastError as error:
        raise FedcastError(_changed(str(error))) from None
    fleet = replace(world.fleet, local_epochs=plan.local_epochs)
    round_s = round_cost(fleet.of(plan.trained), clustering.after.sizes[plan.trained]).expected_s
    compared = {
        "average EMD": (plan.emd_before, before),
        "delay of sharing": (plan.sharing_s, sharing_s),
        "delay of a round": (plan.round_s, round_s),
    }
    for what, (then, now) in compared.items():
        if abs(then - now) > _TOLERANCE * max(abs(then), abs(now)):
            raise FedcastError(_changed(f"the {what} was {then:.6g} and is {now:.6g}"))
    consented = fleet.devices.consent * world.skew.sizes
    if len(unwilling := np.flatnonzero(plan.shared > consented + 1)):
        user = int(unwilling[0])
        raise FedcastError(_changed(f"user {user_label(user, plan.names)} no longer consents to what it would share"))
    return world


def _labels(names: Names | None, num_users: int) -> NDArray[Any]:
    return np.arange(num_users) if names is None else names


def _changed(what: str) -> str:
    advice = "make the plan again, or start in the folder in which it was made"
    return f"the tables of the plan have changed since it was made: {what}; {advice}"
