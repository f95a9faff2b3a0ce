"""A world: everything a plan starts from, made of one scenario. Who holds what, who reaches and trusts whom."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedcast.clustering import Clustering, Problem, make_problem
from fedcast.cost import Fleet, RoundCost, SharingCost, fleet_of, round_cost, sharing_cost
from fedcast.data import Population, Skew, describe, make_population, skew_of
from fedcast.errors import FedcastError
from fedcast.formatting import user_label
from fedcast.network import Graph, Layout, build_graph, concurrent_rate_bps, has_rates, place_users
from fedcast.scenario import Clustering as ClusteringSettings
from fedcast.scenario import Scenario
from fedcast.typing import Floats

_SYNTHETIC_BITS_PER_SAMPLE = 6272.0  # as an MNIST image


@dataclass(frozen=True, eq=False)
class World:
    """What planning starts from.

    Attributes:
        scenario: all parameters.
        population: who holds which samples.
        skew: what the planner sees of it.
        layout: where users and base stations stand.
        graph: who may share with whom.
        fleet: what devices and their links to base stations can do.
        bits_per_sample: bits that one shared sample takes.
    """

    scenario: Scenario
    population: Population
    skew: Skew
    layout: Layout
    graph: Graph
    fleet: Fleet
    bits_per_sample: float

    def problem(self, settings: ClusteringSettings | None = None) -> Problem:
        """The clustering problem, in whole samples; nobody shares more than it consents to."""
        scenario = self.scenario
        return make_problem(
            self.skew,
            self.graph,
            settings or scenario.clustering,
            max_ratios=self.fleet.devices.consent,
            whole=True,
            seed=scenario.seed,
            one_hot=scenario.data.descriptor == "classes",
        )


def make_world(scenario: Scenario, data_dir: str | Path | None = None, population: Population | None = None) -> World:
    """Load and spread the data, place users, link those who may share, and equip them.

    Args:
        scenario: all parameters.
        data_dir: where dataset files are looked for first.
        population: of `data.num_users` users: who holds what, if it does not come from the scenario's dataset.

    Example:
        >>> world = make_world(Scenario())
        >>> world.graph.num_users, world.bits_per_sample
        (100, 256.0)
    """
    data = scenario.data
    if population is None:
        population = make_population(data, scenario.seed, data_dir)
    elif population.num_users != data.num_users:
        raise FedcastError(
            f"data.num_users: {data.num_users}, but the population has {population.num_users} users; "
            f"set data.num_users = {population.num_users}"
        )
    layout = place_users(population.num_users, scenario.geometry, scenario.seed, population.names)
    own_bits = population.dataset.bits_per_sample if population.dataset else _SYNTHETIC_BITS_PER_SAMPLE
    return World(
        scenario,
        population,
        skew_of(describe(population, data, scenario.seed)),
        layout,
        network_of(scenario, layout),
        fleet_of(scenario, layout),
        data.bits_per_sample or float(own_bits),
    )


def check_world(world: World, scenario: Scenario) -> World:
    """The world, if it was made of this scenario; refused otherwise."""
    differ = [name for name, value in scenario if value != getattr(world.scenario, name)]
    if differ:
        raise FedcastError(
            f"world: made of another scenario ({', '.join(differ)} differ); use world.scenario, or make one of this "
            "scenario with make_world"
        )
    return world


def network_of(scenario: Scenario, layout: Layout) -> Graph:
    """The links of a person's own file, as far as it gives them, or those that radio and trust of the scenario give."""
    return build_graph(layout, scenario.sidelink, scenario.trust, scenario.geometry, scenario.seed)


@dataclass(frozen=True)
class TaskCost:
    """What a clustering costs: sharing once, then every round.

    Attributes:
        sharing_s: delay before the first round.
        sharing_j: energy of all heads that send.
        sharing_bytes: bytes on the air while sharing.
        round: one round of the users that train, in the order of their ids.
    """

    sharing_s: float
    sharing_j: float
    sharing_bytes: float
    round: RoundCost

    @property
    def round_j(self) -> float:
        """Energy of all users in a round."""
        return float(self.round.energy_j.sum())

    @property
    def round_bytes(self) -> float:
        """Bytes sent in a round, both ways."""
        return self.round.uploaded_bytes + self.round.broadcast_bytes


def task_cost(world: World, clustering: Clustering, trained: NDArray[np.bool_] | None = None) -> TaskCost:
    """Delay, energy and bytes of a clustering in its world.

    What the server broadcasts goes over the downlink at the worst user's rate; its energy is not a user's.

    Args:
        world: the world.
        clustering: of its users.
        trained: bool[K], who trains; None: all.
    """
    everyone = np.ones(world.skew.num_users, dtype=bool)
    users = everyone if trained is None else trained
    cost = round_cost(world.fleet.of(users), clustering.after.sizes[users])
    if clustering.broadcast is not None:
        bits = world.bits_per_sample * clustering.broadcast.volume
        delay = float(bits * world.fleet.links.down_s_per_bit.max())
        return TaskCost(delay, 0.0, bits / 8 * len(world.layout.base_stations_m), cost)
    sharing = multicasts(world, clustering)
    return TaskCost(sharing.sharing_s, float(sharing.energy_j.sum()), sharing.sent_bytes, cost)


def multicasts(world: World, clustering: Clustering) -> SharingCost:
    """Each head's multicast."""
    rates = link_rates_bps(world, clustering)
    unlinked = clustering.members[np.isnan(rates[clustering.members])]
    if len(unlinked):
        user, names = int(unlinked[0]), world.population.names
        raise FedcastError(
            f"{user_label(user, names)} is led by {user_label(clustering.head_of[user], names)}, but no link joins "
            "them, so the delay of sharing is not known; set clustering.respect_graph = true, or lower "
            "sidelink.min_rate_bps and trust.min_closeness"
        )
    return sharing_cost(
        clustering.head_of,
        clustering.shared,
        np.nan_to_num(rates),
        world.bits_per_sample,
        world.scenario.sidelink.power_w,
    )


def link_rates_bps(world: World, clustering: Clustering) -> Floats:
    """Rate of the link from each member's head, float64[K]; NaN for others.

    Where heads that send at once interfere with each other, rates are known only after clustering.
    """
    rates = clustering.of_links(world.graph.rate_bps)
    scenario, members = world.scenario, clustering.members
    if scenario.sidelink.interference == "concurrent" and len(members) and not _gives_own_rates(scenario):
        heads, layout = clustering.head_of[members], world.layout
        rates[members] = concurrent_rate_bps(
            layout.positions_m,
            members,
            heads,
            scenario.sidelink,
            scenario.geometry,
            scenario.seed,
            hash_keys=layout.hash_keys,
        )
    return rates


def _gives_own_rates(scenario: Scenario) -> bool:
    return scenario.trust.links_file is not None and has_rates(scenario.trust.links_file)
