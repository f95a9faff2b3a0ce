"""The parts of the delay of a task without sharing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedcast.cost import Delay, feasibility, round_cost
from fedcast.plan.sharing_plan import Baseline
from fedcast.plan.world import World


def baseline_delay(baseline: Baseline, world: World) -> Delay:
    """Return the parts of a baseline's delay, in the world of its plan: all users with samples train that can upload.

    Example:
        >>> from fedcast.plan import make_plan, make_world
        >>> from fedcast.scenario import load_scenario
        >>> world = make_world(load_scenario(overrides=["clustering.rule=gain", "training.local_epochs=1"]))
        >>> baseline = make_plan(world.scenario, world=world, with_curve=False).best_without
        >>> delay = baseline_delay(baseline, world)
        >>> delay.sharing_s, abs(delay.total_s / baseline.delay_s - 1) < 1e-9
        (0.0, True)
    """
    fleet, sizes = replace(world.fleet, local_epochs=baseline.local_epochs), world.skew.sizes
    trained = feasibility(fleet, np.maximum(sizes, 1.0)).feasible & (sizes > 0)
    phases = round_cost(fleet.of(trained), sizes[trained]).expected_phases_s
    return Delay(0.0, *(baseline.rounds * phase for phase in phases))
