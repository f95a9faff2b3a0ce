"""Links of users, against a plain double loop, and the two ways of building against each other."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from fedcast.errors import ScenarioError
from fedcast.network import Graph, build, build_graph, check_graph
from fedcast.network import sidelink as radio
from fedcast.network import trust as trust_model
from fedcast.network.geometry import Layout, place_users
from fedcast.scenario import Geometry, Sidelink, Trust
from tests.network.graphs import (
    GENERATORS,
    GEOMETRY,
    ONE_FLOAT32_STEP,
    as_links,
    assert_same_graph,
    built,
    layout_of,
)

DRAWN = {"shadowing": "drawn"}
SAMPLED = {"state_mode": "sampled"}


def by_double_loop(layout: Layout, sidelink: Sidelink, trust: Trust, seed: int) -> dict[tuple[int, int], tuple]:
    """Every ordered pair, one after the other, by the public laws of radio and trust."""
    places = layout.positions_m
    drawn = sidelink.shadowing == "drawn" or sidelink.state_mode == "sampled"
    reach_m = radio.reach_m(sidelink, GEOMETRY)
    links = {}
    for user in range(len(places)):
        for other in range(len(places)):
            if user == other:
                continue
            distance = float(np.hypot(*(places[user] - places[other])))
            if drawn and distance > reach_m:
                continue
            rate = float(
                radio.pair_rate_bps(distance, user, other, sidelink, GEOMETRY, seed)
                if drawn
                else radio.rate_bps(distance, sidelink, GEOMETRY)
            )
            close = float(trust_model.closeness(user, other, trust, seed, distance))
            if rate >= sidelink.min_rate_bps and close >= trust.min_closeness:
                links[user, other] = (rate, close)
    return links


def assert_same_links(graph: Graph, expected: dict[tuple[int, int], tuple]) -> None:
    found = as_links(graph)
    assert found.keys() == expected.keys()
    assert len(expected) > 0
    for pair, values in expected.items():
        assert found[pair] == pytest.approx(values, rel=ONE_FLOAT32_STEP), pair


@pytest.mark.parametrize("way", ["tree", "sweep"])
@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("radio_options", [{}, DRAWN, SAMPLED, {"state_mode": "mean_rate"}], ids=str)
def test_a_plain_double_loop_gives_the_same_links(way, generator, radio_options):
    layout = place_users(30, GEOMETRY, seed=2)
    sidelink, trust = Sidelink(**radio_options), Trust(generator=generator, min_closeness=0.4)
    graph = built(way, layout, sidelink, trust, seed=2)
    assert_same_links(graph, by_double_loop(layout, sidelink, trust, 2))
    check_graph(graph, sidelink.min_rate_bps, trust.min_closeness)


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("radio_options", [{}, DRAWN, SAMPLED], ids=str)
@pytest.mark.parametrize("layout", ["cell", "density"])
def test_both_ways_give_the_same_graph_edge_for_edge(generator, radio_options, layout):
    places = place_users(900 if layout == "cell" else 2_000, Geometry(layout=layout), seed=5)
    sidelink, trust = Sidelink(**radio_options), Trust(generator=generator)
    one, other = (built(way, places, sidelink, trust, seed=9) for way in ("tree", "sweep"))
    assert one.num_links > 1_000
    assert_same_graph(one, other)


def test_blocks_of_pairs_leave_no_trace():
    layout = place_users(1_000, GEOMETRY, seed=1)
    whole = built("sweep", layout, Sidelink(), Trust())
    parts = built("sweep", layout, Sidelink(), Trust(), block=100)
    assert_same_graph(whole, parts)


@given(
    places=st.lists(
        st.tuples(st.sampled_from([0.0, 1.0, 1e-9, 632.5, 1e6]), st.floats(-2000, 2000)), min_size=1, max_size=40
    ),
    scale=st.sampled_from([0.0, 1e-6, 0.3, 1.0, 10.0]),
    moved=st.sampled_from([0.0, 5e6, -1e9]),
    min_rate=st.sampled_from([0.0, 1e3, 3.5e5, 1e9, 1e14]),
    min_closeness=st.sampled_from([0.0, 0.5, 1.0]),
    generator=st.sampled_from(GENERATORS),
    seed=st.integers(0, 100),
)
@settings(max_examples=120)
def test_any_places_give_a_sound_graph_both_ways(places, scale, moved, min_rate, min_closeness, generator, seed):
    """Users in one place, on a line, far apart, far from the origin; links of any length or none."""
    layout = layout_of(np.array(places) * scale + moved)
    sidelink, trust = Sidelink(min_rate_bps=min_rate), Trust(generator=generator, min_closeness=min_closeness)
    one, other = (built(way, layout, sidelink, trust, seed, block=16) for way in ("tree", "sweep"))
    check_graph(one, min_rate, min_closeness)
    assert_same_graph(one, other)
    distance = cdist(layout.positions_m, layout.positions_m)
    users = np.arange(len(distance))
    close = trust_model.closeness(users[:, None], users[None, :], trust, seed, distance)
    fast = radio.rate_bps(distance, sidelink, GEOMETRY) >= min_rate
    expected = fast & (close >= min_closeness) & (users[:, None] != users[None, :])
    # SciPy rounds a distance otherwise than we do: leave out pairs whose rate is within that of the threshold
    sure = np.abs(radio.rate_bps(distance, sidelink, GEOMETRY) / (min_rate or 1.0) - 1) > 1e-6
    sure |= min_rate == 0
    found = np.zeros_like(expected)
    found[np.repeat(users, one.degrees), one.neighbours] = True
    if generator != "distance":
        assert (found == expected)[sure].all()


@pytest.mark.parametrize("way", ["tree", "sweep"])
def test_the_rate_itself_decides_at_the_edge_of_reach(way):
    """Two users exactly as far apart as their threshold allows, and one float further."""
    threshold = float(radio.rate_bps(500.0, Sidelink(), GEOMETRY))
    for distance, linked in ((500.0, True), (np.nextafter(500.0, 501.0), None), (500.001, False)):
        sidelink = Sidelink(min_rate_bps=threshold)
        expected = bool(radio.rate_bps(distance, sidelink, GEOMETRY) >= threshold)
        graph = built(way, layout_of([[0, 0], [distance, 0]]), sidelink, Trust(min_closeness=0.0))
        assert (graph.num_links == 1) is expected
        assert linked is None or expected is linked


@pytest.mark.parametrize("way", ["tree", "sweep"])
@pytest.mark.parametrize("generator", ["uniform", "community", "contact"])
def test_a_pair_exactly_as_close_as_asked_is_linked(way, generator):
    """The sweep leaves out draws that cannot meet the threshold, and must not leave out one that just does."""
    exact = float(trust_model.closeness(0, 1, Trust(generator=generator), 0))
    for threshold, linked in ((exact, 1), (float(np.nextafter(exact, 1)), 0)):
        trust = Trust(generator=generator, min_closeness=threshold)
        assert built(way, layout_of([[0, 0], [10, 0]]), Sidelink(), trust).num_links == linked


@pytest.mark.parametrize("way", ["tree", "sweep"])
def test_added_users_change_no_link_between_the_others(way):
    many = place_users(500, Geometry(layout="cell"), seed=1)
    few = layout_of(many.positions_m[:200])
    small, large = (built(way, layout, Sidelink(), Trust(generator="community"), 3) for layout in (few, many))
    among = {pair: value for pair, value in as_links(large).items() if max(pair) < 200}
    assert among == as_links(small)
    assert among


def test_the_seed_decides_who_trusts_whom():
    layout = place_users(100, GEOMETRY, seed=0)
    one, again, other = (build_graph(layout, Sidelink(), Trust(), GEOMETRY, seed) for seed in (0, 0, 1))
    assert as_links(one) == as_links(again)
    assert as_links(one).keys() != as_links(other).keys()


def test_default_scenario_has_the_degrees_it_promises():
    degrees = []
    for seed in range(100):
        layout = place_users(100, GEOMETRY, seed)
        degrees.append(build_graph(layout, Sidelink(), Trust(), GEOMETRY, seed).degrees)
    assert 8 < np.mean(degrees) < 16
    assert np.mean(np.asarray(degrees) == 0) < 0.01


def test_one_user_and_nobody_in_reach():
    for way in ("tree", "sweep"):
        assert built(way, layout_of([[5.0, 5.0]]), Sidelink(), Trust()).offsets.tolist() == [0, 0]
        alone = built(way, layout_of([[0, 0], [1e7, 0]]), Sidelink(), Trust(min_closeness=0.0))
        assert alone.degrees.tolist() == [0, 0]


def test_memory_grows_with_links_not_with_pairs():
    """30,000 users: a table of all pairs would take 0.9 GB even at one byte each, all pairs in reach 15 MB."""
    layout = place_users(30_000, GEOMETRY, seed=0)
    built("sweep", layout, Sidelink(), Trust())
    tracemalloc.start()
    graph = built("sweep", layout, Sidelink(), Trust())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * 40 * graph.num_links + 2**23


def test_a_graph_beyond_memory_is_refused(monkeypatch):
    monkeypatch.setattr(build, "_memory_bytes", lambda: 10_000)
    layout = place_users(500, Geometry(layout="cell"), seed=0)
    with pytest.raises(ScenarioError, match=r"500 users would have about .* links .*layout = density"):
        build_graph(layout, Sidelink(), Trust(), GEOMETRY, 0)


def test_importing_is_light_and_small_graphs_are_not_compiled():
    code = """
import sys
import fedcast.network
heavy = {"numba", "scipy", "pyarrow", "matplotlib", "pydantic", "torch"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
from fedcast.scenario import Geometry, Sidelink, Trust
from fedcast.network.geometry import place_users
layout = place_users(2000, Geometry(), 0)
fedcast.network.build_graph(layout, Sidelink(), Trust(), Geometry(), 0)
assert "numba" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
