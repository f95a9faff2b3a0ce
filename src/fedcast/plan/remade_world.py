"""The world of a plan that was read from a file, made anew from the tables and parameters of its scenario."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcast.allocation import part_of
from fedcast.data import average_emd
from fedcast.errors import FedcastError
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
    present = _labels(world.population.names, world.population.num_users)
    if not np.array_equal(_labels(plan.names, plan.num_users), present):
        raise FedcastError(_changed("they have other users"))
    before = average_emd(part_of(world.skew, plan.trained))
    try:
        sharing_s = sharing_cost_of(world, clustering_of(world, plan)).sharing_s
    except FedcastError as error:
        raise FedcastError(_changed(str(error))) from None
    for what, then, now in (("average EMD", plan.emd_before, before), ("delay of sharing", plan.sharing_s, sharing_s)):
        if abs(then - now) > _TOLERANCE * max(abs(then), abs(now)):
            raise FedcastError(_changed(f"the {what} was {then:.6g} and is {now:.6g}"))
    return world


def _labels(names: Names | None, num_users: int) -> NDArray[Any]:
    return np.arange(num_users) if names is None else names


def _changed(what: str) -> str:
    return f"the tables of the plan have changed since it was made: {what}; make the plan again"
