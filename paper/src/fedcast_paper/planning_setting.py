"""The setting of Figs. 7 to 9, which need no training: Table I, one cell, one cellular SNR, clusters by DACA."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcast.allocation import AllocationProblem, AllocationResult, allocate, make_allocation_problem
from fedcast.clustering import Clustering, cluster
from fedcast.plan import World, link_rates_bps, make_world
from fedcast.rounds import load_rounds
from fedcast.scenario import Scenario, load_scenario
from fedcast.typing import Floats

# The paper's method as fedcast implements it, the methods it is compared with, and the paper's method as printed.
METHODS = {"jfvo": "JFVO", "smm": "SMM", "saa": "SAA", "jfvo_literal": "JFVO as printed"}
RIVALS = ("smm", "saa")

# With Table I computation takes 16 s per round, and the sharing delay hardly matters; with faster devices it does.
DEVICES: dict[str, tuple[str, ...]] = {
    "Table I": (),
    "faster devices": ("devices.energy_coefficient=1e-28", "devices.energy_budget_j=0.05"),
}
INTERFERING = "sidelink.interference=concurrent"

_SETTING = ("data.dataset=synthetic", "geometry.layout=cell", "cellular.snr_db=15.0", "training.model=cnn")

ASSUMPTIONS = {
    "network": "Table I, radius 1,000 m for every K; sidelink in line of sight, no antenna gain, margins 3 + 4 dB "
    "(preset paper)",
    "cellular SNR": "15 dB for every user, downlink and uplink, unless swept; with path loss most users could not "
    "upload within the energy budget of Table I",
    "data": "600 samples per user for every K, ten classes of equal size, 80 % of users hold one class: as MNIST at "
    "K = 100",
    "model": "CNN of 21,840 weights, 32 bit each; one local epoch",
    "rounds": "the paper's fit for accuracy 0.95, scaled by 100 rounds; 1 % noise on each parameter, 200 parameter "
    "vectors, the same for all methods in a world",
    "clusters": "DACA, ascending; heads send a random sample; average EMD with weights B",
    "methods": "JFVO, SMM and SAA use the same engine with frequencies eliminated, 60 iterations from a ratio of 0.1; "
    "JFVO ends with a few iterations on all vectors. JFVO as printed alternates frequencies and volumes",
}


@dataclass(frozen=True, eq=False)
class PlanningTask:
    """A world with its clustering and link rates.

    Attributes:
        world: world of the scenario.
        clustering: by the scenario's rule.
        rate_bps: float64[K], rate of the link from each member's head; NaN for other users.
    """

    world: World
    clustering: Clustering
    rate_bps: Floats

    @property
    def worst_rates_bps(self) -> Floats:
        """The rate of each head's multicast, float64[M]: the rate of its slowest member."""
        members_of = (self.clustering.members_of(int(head)) for head in self.clustering.heads)
        return np.array([self.rate_bps[members].min() for members in members_of])


def paper_scenario(num_users: int, seed: int, *changes: str) -> Scenario:
    """Return the scenario for a number of users, with changes such as ``"cellular.snr_db=10.0"``."""
    return load_scenario(base="paper", overrides=[*_SETTING, f"data.num_users={num_users}", f"seed={seed}", *changes])


def make_task(scenario: Scenario) -> PlanningTask:
    """Return the world, clustering and link rates of a scenario."""
    world = make_world(scenario)
    clustering = cluster(world.problem())
    return PlanningTask(world, clustering, link_rates_bps(world, clustering))


def allocation_of(task: PlanningTask, method: str) -> AllocationResult:
    """Return the allocation of a task by one method; all methods use the same parameter vectors."""
    scenario = task.world.scenario
    settings = scenario.allocation.model_copy(update={"method": method})
    rounds, samples = load_rounds(scenario.rounds), scenario.rounds.beta_samples
    bits = task.world.bits_per_sample
    return allocate(
        task.clustering, task.world.fleet, rounds, settings,
        bits_per_sample=bits, rate_bps=task.rate_bps, beta_samples=samples, seed=scenario.seed,
    )  # fmt: skip


def problem_of(task: PlanningTask) -> AllocationProblem:
    """Return the problem that the methods solve."""
    scenario = task.world.scenario
    rounds, samples = load_rounds(scenario.rounds), scenario.rounds.beta_samples
    bits = task.world.bits_per_sample
    return make_allocation_problem(
        task.clustering, task.world.fleet, rounds, scenario.allocation,
        bits_per_sample=bits, rate_bps=task.rate_bps, beta_samples=samples, seed=scenario.seed,
    )  # fmt: skip
