"""The plan of a control: nobody shares, and users train on samples of their own alone, some of them repeated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedcast.allocation import part_of
from fedcast.clustering import cluster
from fedcast.cost import metrics_of, task_cost
from fedcast.plan.make import Planned
from fedcast.plan.world import sharing_cost_of
from fedcast.typing import Ints

_NOT_PREDICTED = "a control is not planned; it trains on as many samples a round as the plan that it is compared with"


def control_of(planned: Planned, samples: Ints) -> Planned:
    """Return what a plan costs if nobody shares and user k trains on ``samples[k]`` samples of its own, int[K].

    The same users train, except those without samples. Devices compute at the best frequencies for these samples: those
    of the plan, where the number of samples is that of the plan. The distribution of every user is that before sharing;
    averages after sharing weigh users by these samples.
    """
    world, problem = planned.world, planned.clustering.problem
    alone = problem.settings.model_copy(update={"rule": "none", "composition": "own"})
    clustering = cluster(replace(problem, settings=alone))
    trained, repeated = planned.plan.trained & (samples > 0), replace(world.skew, sizes=samples.astype(np.float64))
    before, after = part_of(world.skew, trained), part_of(repeated, trained)
    cost = task_cost(sharing_cost_of(world, clustering), world.fleet, repeated.sizes, trained)
    frequency, energy = np.zeros((2, len(samples)))
    frequency[trained], energy[trained] = cost.round.frequency_hz, cost.round.energy_j
    plan = replace(
        planned.plan,
        **vars(metrics_of(before, after, world.scenario.clustering.weighting, 0.0, cost)),
        head_of=clustering.head_of,
        shared=np.zeros(len(samples), dtype=np.int64),
        server_samples=0.0,
        frequency_hz=frequency,
        energy_j=energy,
        composition="own",
        rounds=None,
        rounds_interval=None,
        without=None,
        best_without=None,
        not_predicted=_NOT_PREDICTED,
        leakage=(),
        rules=(),
        notes=(),
    )
    return replace(planned, clustering=clustering, cost=cost, plan=plan)
