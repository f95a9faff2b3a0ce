"""The world of a scenario, from which planning starts: data, positions, links and devices of the users."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedcast.clustering import Clustering, Problem, make_problem
from fedcast.cost import (
    DeviceTable,
    Fleet,
    SharingCost,
    broadcast_cost,
    check_counts_budget,
    device_assumptions,
    fleet_of,
    model_assumptions,
    shareable,
    sharing_cost,
)
from fedcast.data import (
    Population,
    Skew,
    average_emd,
    counts_file,
    describe,
    make_population,
    noisy_counts,
    population_assumptions,
    skew_of,
)
from fedcast.errors import FedcastError
from fedcast.formatting import html_table, number, short_repr, user_label
from fedcast.network import Graph, Layout, build_graph, concurrent_rate_bps, has_rates, network_assumptions, place_users
from fedcast.plan.changes import read_changes
from fedcast.scenario import BEST_KIND, ClusteringSettings, Scenario, ScenarioLike, as_scenario, with_overrides
from fedcast.typing import Floats

_SYNTHETIC_BITS_PER_SAMPLE = 6272.0  # as an MNIST image


@dataclass(frozen=True, eq=False, repr=False)
class World:
    """Everything that planning starts from."""

    scenario: Scenario
    population: Population
    skew: Skew  #: sizes and distributions of the users' data, as the planner sees them
    layout: Layout
    graph: Graph  #: who may share with whom
    fleet: Fleet
    bits_per_sample: float  #: of shared samples
    #: sentences, each on something that neither a table nor a parameter gives, with what would give it in brackets
    assumptions: tuple[str, ...] = ()
    consent: Floats | None = None  #: [K], share of its samples that each user agrees to share, whatever the kind
    kinds: NDArray[np.str_] | None = None  #: [K], kind that each user sends as a head; None: the scenario's

    @property
    def devices(self) -> DeviceTable:
        """Return the devices with their owners' consent; those of the fleet have what the kind of sharing allows."""
        devices = self.fleet.devices
        return devices if self.consent is None else replace(devices, consent=self.consent)

    @property
    def seen_counts(self) -> Floats:
        """Return the class counts that the planner sees, float64[K, Y]: with noise if the scenario says so."""
        if self.scenario.data.counts_epsilon is None:
            return self.population.counts.astype(np.float64)
        return self.skew.sizes[:, None] * self.skew.distributions

    @property
    def places_known(self) -> bool:
        """Return whether places of users mean something: a table gives them, or the whole network is simulated.

        With tables of counts or links but none of positions, places are drawn only to compute missing rates.
        """
        return places_known(self.scenario)

    @property
    def facts(self) -> dict[str, str]:
        """Return what is most worth knowing, for people."""
        population = self.population
        return {
            "dataset": self.scenario.data.dataset,
            "users": f"{population.num_users:,}",
            "samples": f"{int(population.sizes.sum()):,}",
            "classes": f"{population.counts.shape[1]:,}",
            "average EMD": number(average_emd(self.skew, self.skew)),
            "links": f"{self.graph.num_links:,}",
        }

    def __repr__(self) -> str:
        return short_repr("World", self.facts)

    def _repr_html_(self) -> str:
        return html_table("World", self.facts)

    def problem(self, settings: ClusteringSettings | None = None) -> Problem:
        """Return the clustering problem, in whole samples; no user shares more than it consents to."""
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


def places_known(scenario: Scenario) -> bool:
    """Return the same of a scenario as `World.places_known` of its world."""
    given = scenario.geometry.positions_file is not None
    return given or (scenario.trust.links_file is None and counts_file(scenario.data) is None)


def make_world(
    scenario: ScenarioLike, data_dir: str | Path | None = None, population: Population | None = None
) -> World:
    """Load and partition the data, place the users, find their links and devices, and apply the scenario's changes.

    Dataset files are looked for in `data_dir` first. A `population` of `data.num_users` users replaces the data of the
    scenario.

    Example:
        >>> world = make_world(Scenario())
        >>> world.graph.num_users, world.bits_per_sample
        (100, 256.0)
    """
    scenario = as_scenario(scenario)
    data, drawn = scenario.data, () if population is not None else population_assumptions(scenario.data, scenario.seed)
    if population is None:
        population = make_population(data, scenario.seed, data_dir)
    elif population.num_users != data.num_users:
        raise FedcastError(
            f"invalid value {data.num_users} for data.num_users: the population has {population.num_users} users; "
            f"set data.num_users = {population.num_users}"
        )
    if counts_file(data) is not None:
        scenario = with_overrides(scenario, {"data.num_users": population.num_users})
    changed = read_changes(scenario.changes, population.num_users, population.names)
    population = changed.of_population(population)
    layout = place_users(population.num_users, scenario.geometry, scenario.seed, population.names)
    samples = population.dataset.spec if population.dataset else None
    own_bits = population.dataset.bits_per_sample if population.dataset else _SYNTHETIC_BITS_PER_SAMPLE
    bits_per_sample, fleet = data.bits_per_sample or float(own_bits), fleet_of(scenario, layout, samples)
    graph = changed.of_graph(network_of(scenario, layout), scenario.changes.cut)
    fleet, kind = changed.of_fleet(fleet), scenario.sharing.kind
    consent, seen = fleet.devices.consent, population
    if data.counts_epsilon is not None:
        check_counts_budget(fleet.devices, scenario)
        seen = replace(population, counts=noisy_counts(population.counts, data.counts_epsilon, scenario.seed))
    if kind != BEST_KIND:
        allowed = shareable(fleet.devices, scenario, kind)
        fleet = replace(fleet, devices=replace(fleet.devices, consent=allowed))
    size = f"A shared sample has {bits_per_sample:,.0f} bits, as an MNIST image (data.bits_per_sample)."
    return World(
        scenario,
        population,
        skew_of(describe(seen, data, scenario.seed)),
        layout,
        graph,
        fleet,
        bits_per_sample,
        (
            *drawn,
            *network_assumptions(scenario, layout, measured=fleet.devices.has_links),
            *device_assumptions(scenario.devices),
            *model_assumptions(scenario, samples),
            *([size] if population.dataset is None and data.bits_per_sample is None else []),
        ),
        consent,
    )


def check_world(world: World, scenario: Scenario) -> World:
    """Return the world; raise an error if it was made from another scenario."""
    if differ := [name for name, value in scenario if value != getattr(world.scenario, name)]:
        raise FedcastError(
            f"world: made from another scenario ({', '.join(differ)} differ); use world.scenario, or call make_world "
            "with this scenario"
        )
    return world


def network_of(scenario: Scenario, layout: Layout) -> Graph:
    """Return the links of the scenario's file, as far as it gives them, and otherwise of its radio and trust models."""
    return build_graph(layout, scenario.sidelink, scenario.trust, scenario.geometry, scenario.seed)


def sharing_cost_of(world: World, clustering: Clustering) -> SharingCost:
    """Return the cost of the multicasts of a clustering, or of its broadcast."""
    if clustering.broadcast is not None:
        stations = len(world.layout.base_stations_m)
        return broadcast_cost(clustering.broadcast.volume, world.bits_per_sample, world.fleet.links, stations)
    rates = link_rates_bps(world, clustering)
    unlinked = clustering.members[np.isnan(rates[clustering.members])]
    if len(unlinked):
        user, names = int(unlinked[0]), world.population.names
        raise FedcastError(
            f"{user_label(user, names)} has head {user_label(clustering.head_of[user], names)}, but there is no link "
            "between them, so that the delay of sharing is unknown; set clustering.random.respect_graph = true, "
            "or lower sidelink.min_rate_bps and trust.min_closeness"
        )
    power_w = world.scenario.sidelink.power_w
    return sharing_cost(clustering.head_of, clustering.shared, np.nan_to_num(rates), world.bits_per_sample, power_w)


def link_rates_bps(world: World, clustering: Clustering) -> Floats:
    """Return the rate of the link from each member's head, float64[K]; NaN for others.

    With interference between heads that send at the same time, rates depend on the clustering.
    """
    rates = clustering.of_links(world.graph.rate_bps)
    scenario, layout, members = world.scenario, world.layout, clustering.members
    file = scenario.trust.links_file
    measured = file is not None and has_rates(file)
    if scenario.sidelink.interference == "concurrent" and len(members) and not measured:
        radio = scenario.sidelink, scenario.geometry, scenario.seed
        heads = clustering.head_of[members]
        rates[members] = concurrent_rate_bps(layout.positions_m, members, heads, *radio, hash_keys=layout.hash_keys)
    return rates
