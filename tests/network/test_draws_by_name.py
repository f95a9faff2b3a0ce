"""Test that draws of users with names depend on the names alone, not on their order or on other users."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedcast.clustering import Clustering, cluster
from fedcast.data import Population
from fedcast.network.geometry import place_users
from fedcast.plan.world import link_rates_bps, make_world, network_of
from fedcast.scenario import load_scenario, with_overrides


def test_draws_follow_names():
    """Places, trust, communities and shadowing: the network is the same in another order, and without some."""
    names = np.array([f"dev-{k}" for k in range(300)])
    drawn = ["sidelink.shadowing=drawn", "trust.generator=community", "geometry.layout=cell"]
    scenario = load_scenario(overrides=["data.dataset=synthetic", "data.num_users=300", *drawn])
    fewer = with_overrides(scenario, {"data.num_users": 200})
    order = np.random.default_rng(0).permutation(300)
    counts = np.ones((300, 2), dtype=np.int64)
    worlds = [
        make_world(scenario, population=Population(counts, ("a", "b"), names=names)),
        make_world(scenario, population=Population(counts, ("a", "b"), names=names[order])),
        make_world(fewer, population=Population(counts[:200], ("a", "b"), names=names[order[:200]])),
    ]
    links = [links_by_name(world) for world in worlds]
    assert links[0] == links[1]
    staying = set(names[order[:200]].tolist())
    assert links[2] == {pair: link for pair, link in links[0].items() if pair <= staying}
    assert len(links[2]) > 100


def test_rates_of_heads_that_send_at_once_follow_names():
    """The same clusters, told by name, in a world whose users stand in another order."""
    names = np.array([f"dev-{k}" for k in range(60)])
    order = np.random.default_rng(1).permutation(60)
    scenario = load_scenario(
        overrides=[
            "data.dataset=synthetic",
            "data.num_users=60",
            "sidelink.shadowing=drawn",
            "sidelink.interference=concurrent",
            "clustering.rule=daca",
        ]
    )
    counts = np.tile([9, 1], (60, 1))
    one, other = (
        make_world(scenario, population=Population(counts, ("a", "b"), names=some)) for some in (names, names[order])
    )
    clustering = cluster(one.problem())
    place = np.argsort(order)
    head_of = clustering.head_of[order]
    same = Clustering(other.problem(), np.where(head_of >= 0, place[head_of], -1))
    assert len(clustering.members) > 10
    np.testing.assert_allclose(link_rates_bps(other, same), link_rates_bps(one, clustering)[order], rtol=1e-12)


@pytest.mark.parametrize("num_users", [600, 6_000])
def test_compiled_and_plain_graphs_draw_by_name(num_users, monkeypatch):
    names = np.array([f"dev-{k}" for k in range(num_users)])
    scenario = load_scenario(overrides=["data.dataset=synthetic", f"data.num_users={num_users}"])
    layout = place_users(num_users, scenario.geometry, 0, names)
    graphs = []
    for least in (0, 10**9):
        monkeypatch.setattr("fedcast.network.build.COMPILED_FROM_USERS", least)
        graphs.append(network_of(scenario, layout))
    assert graphs[0].num_links > 1000
    assert np.array_equal(graphs[0].neighbours, graphs[1].neighbours)
    assert np.array_equal(graphs[0].closeness, graphs[1].closeness)
    by_id = network_of(scenario, replace(layout, names=None))
    assert not np.array_equal(graphs[0].closeness, by_id.closeness)


def links_by_name(world) -> dict[frozenset[str], tuple[float, float]]:
    graph, names = world.graph, world.population.names
    ends = np.repeat(np.arange(graph.num_users), graph.degrees)
    pairs = (frozenset((str(names[a]), str(names[b]))) for a, b in zip(ends, graph.neighbours, strict=True))
    values = zip(graph.rate_bps.tolist(), graph.closeness.tolist(), strict=True)
    return dict(zip(pairs, values, strict=True))
