"""Random problems for tests and benchmarks: 60 users in a cell, half with one class, in three energy regimes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedcast.allocation import AllocationProblem, make_allocation_problem
from fedcast.clustering import Clustering, cluster
from fedcast.clustering.worlds import disc_problem
from fedcast.cost import Fleet, fleet_of
from fedcast.network.geometry import layout_from_positions
from fedcast.random import generator
from fedcast.rounds import RoundsModel, load_fit
from fedcast.scenario import Allocation, Scenario

# Energy budget in joules and energy coefficient: energy decides the frequencies, both do, the highest frequency does.
REGIMES = {"energy": (0.005, 4e-26), "mixed": (0.05, 4e-27), "frequency": (0.5, 4e-28)}
BITS_PER_SAMPLE = 6272.0
# A user whose upload alone takes more than this share of its budget sends at less power instead.
MOST_FOR_UPLOAD = 0.9


@dataclass(frozen=True, eq=False)
class World:
    """What `allocate` takes."""

    clustering: Clustering
    fleet: Fleet
    model: RoundsModel
    rate_bps: np.ndarray

    def problem(self, settings: Allocation | None = None, **options: Any) -> AllocationProblem:
        chosen: dict[str, Any] = {"bits_per_sample": BITS_PER_SAMPLE, "rate_bps": self.rate_bps}
        return make_allocation_problem(self.clustering, self.fleet, self.model, settings, **(chosen | options))


def fleet_at(places_m: np.ndarray, budget_j: float, coefficient: float, **training: Any) -> Fleet:
    """Devices that all can upload within their budget."""
    scenario = Scenario.model_validate(
        {
            "training": {"model": "cnn"} | training,
            "devices": {"energy_budget_j": budget_j, "energy_coefficient": coefficient},
        }
    )
    fleet = fleet_of(scenario, layout_from_positions(places_m, scenario.geometry))
    power = np.minimum(fleet.devices.power_w, MOST_FOR_UPLOAD * budget_j / fleet.upload_s)
    return replace(fleet, devices=replace(fleet.devices, power_w=power))


def random_world(seed: int, regime: str = "mixed", num_users: int = 60, reach_m: float = 700, **options: Any) -> World:
    """A random problem; `options` are those of the clustering."""
    problem = disc_problem(num_users, reach_m, seed=seed, **({"rule": "daca", "weighting": "C"} | options))
    clustering = cluster(problem)
    draw = generator(seed, "test/world")
    places = 1000 * np.sqrt(draw.random(num_users)) * np.exp(2j * np.pi * draw.random(num_users))
    of_head = 1e6 * np.exp(0.5 * draw.standard_normal(num_users))
    rate = np.where(clustering.head_of >= 0, of_head[clustering.head_of], np.nan)
    fleet = fleet_at(np.stack([places.real, places.imag], axis=1), *REGIMES[regime])
    return World(clustering, fleet, load_fit("paper-0.95").model("paper", round_scale=100), rate)
