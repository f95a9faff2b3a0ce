"""The setting of Figs. 7 to 9, which need no training: Table I, one cell, one SNR for all, clusters by DACA."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcast.allocation import AllocationProblem, AllocationResult, allocate, make_allocation_problem
from fedcast.clustering import Clustering, cluster
from fedcast.plan.world import World, link_rates_bps, make_world
from fedcast.rounds import load_rounds
from fedcast.scenario import Scenario, load_scenario
from fedcast.typing import Floats

# The paper's method as fedcast runs it, the paper's rivals, and the paper's method as printed.
METHODS = {"jfvo": "JFVO", "smm": "SMM", "saa": "SAA", "jfvo_literal": "JFVO as printed"}
RIVALS = ("smm", "saa")

# With Table I a round computes for 16 s, beside which sharing hardly counts; with faster devices it does.
DEVICES: dict[str, tuple[str, ...]] = {
    "Table I": (),
    "faster devices": ("devices.energy_coefficient=1e-28", "devices.energy_budget_j=0.05"),
}
INTERFERING = "sidelink.interference=concurrent"

_SETTING = ("data.dataset=synthetic", "geometry.layout=cell", "cellular.snr_db=15.0", "training.model=cnn")

ASSUMPTIONS = {
    "network": "Table I, radius 1,000 m whatever K; sidelink in line of sight, no antenna gain, margins 3 + 4 dB "
    "(preset paper)",
    "cellular SNR": "15 dB for every user and both ways unless swept; by geometry most users could not upload within "
    "the energy budget of Table I",
    "data": "600 samples for each user whatever K, ten equal classes, 80 % of users hold one class: as MNIST has at "
    "K = 100",
    "model": "CNN of 21,840 weights, 32 bit each; one local epoch",
    "rounds": "the paper's fit for accuracy 0.95, a unit of it taken as 100 rounds; 1 % noise on each parameter, 200 "
    "vectors, one set for all methods of a world",
    "clusters": "DACA, ascending, heads send a random part; average EMD in weighting B",
    "methods": "JFVO, SMM and SAA run on one engine with frequencies eliminated, 60 steps from a ratio of 0.1; JFVO "
    "ends with a few steps on all vectors. JFVO as printed alternates frequencies and volumes",
}


@dataclass(frozen=True, eq=False)
class Task:
    """A world, who shares with whom, and how fast.

    Attributes:
        world: that the scenario made.
        clustering: by the scenario's rule.
        rate_bps: float64[K], of the link from each member's head; NaN for others.
    """

    world: World
    clustering: Clustering
    rate_bps: Floats

    @property
    def worst_rates_bps(self) -> Floats:
        """The rate of each head's multicast, float64[M]: that of its worst member."""
        members_of = (self.clustering.members_of(int(head)) for head in self.clustering.heads)
        return np.array([self.rate_bps[members].min() for members in members_of])


def paper_scenario(num_users: int, seed: int, *changes: str) -> Scenario:
    """The setting for so many users, with changes such as ``"cellular.snr_db=10.0"``."""
    return load_scenario(base="paper", overrides=[*_SETTING, f"data.num_users={num_users}", f"seed={seed}", *changes])


def make_task(scenario: Scenario) -> Task:
    """World and clusters of a scenario, and rates under its kind of interference."""
    world = make_world(scenario)
    clustering = cluster(world.problem())
    return Task(world, clustering, link_rates_bps(world, clustering))


def allocation_of(task: Task, method: str) -> AllocationResult:
    """Volumes and frequencies of a task by one method; all methods see the same parameter vectors."""
    scenario = task.world.scenario
    settings = scenario.allocation.model_copy(update={"method": method})
    rounds, samples = load_rounds(scenario.rounds), scenario.rounds.beta_samples
    bits = task.world.bits_per_sample
    return allocate(
        task.clustering, task.world.fleet, rounds, settings,
        bits_per_sample=bits, rate_bps=task.rate_bps, beta_samples=samples, seed=scenario.seed,
    )  # fmt: skip


def problem_of(task: Task) -> AllocationProblem:
    """The problem that the methods solve."""
    scenario = task.world.scenario
    rounds, samples = load_rounds(scenario.rounds), scenario.rounds.beta_samples
    bits = task.world.bits_per_sample
    return make_allocation_problem(
        task.clustering, task.world.fleet, rounds, scenario.allocation,
        bits_per_sample=bits, rate_bps=task.rate_bps, beta_samples=samples, seed=scenario.seed,
    )  # fmt: skip
