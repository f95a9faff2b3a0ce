"""Test how graphs are stored: float32 values, lookup tables, sorted rows, and the checks of these."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcast._fast.graph_kernels import tabulate
from fedcast.errors import DataError
from fedcast.network import Graph, check_graph, graph_from_edges
from fedcast.network import graph as csr
from fedcast.network import sidelink as radio
from fedcast.network import trust as trust_model
from fedcast.network.geometry import place_users
from fedcast.scenario import Geometry, Sidelink, Trust
from tests.network.graphs import GENERATORS, GEOMETRY, ONE_FLOAT32_STEP, assert_same_graph, built

MODELS = ("four_state", "los_only", "umi", "uma", "v2x_urban", "macro")


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("radio_options", [{}, {"fading": "ergodic"}, {"state_mode": "mean_rate"}], ids=str)
def test_rates_are_those_of_the_radio_to_float32(model, radio_options):
    """Also by lookup, and also where a law has a kink: near `min_distance_m`, at 18 m, at a breakpoint."""
    sidelink = Sidelink(model=model, min_distance_m=2.7, min_rate_bps=1e6, **radio_options)
    layout = place_users(3_000, Geometry(layout="cell", cell_radius_m=600.0), seed=3)
    graph = built("sweep", layout, sidelink, Trust(min_closeness=0.9), seed=3)
    rows = np.repeat(np.arange(graph.num_users), graph.degrees)
    offsets = layout.positions_m[rows] - layout.positions_m[graph.neighbours]
    distance = np.hypot(*offsets.T)
    assert distance.min() < 2.7
    expected = radio.rate_bps(distance, sidelink, GEOMETRY)
    np.testing.assert_allclose(graph.rate_bps, expected, rtol=ONE_FLOAT32_STEP / 2 + 1e-11)


def test_closeness_is_that_of_trust_to_float32():
    layout = place_users(3_000, GEOMETRY, seed=3)
    for generator in GENERATORS:
        trust = Trust(generator=generator, min_closeness=0.0)
        graph = built("sweep", layout, Sidelink(), trust, seed=4)
        rows = np.repeat(np.arange(graph.num_users), graph.degrees)
        distance = np.hypot(*(layout.positions_m[rows] - layout.positions_m[graph.neighbours]).T)
        expected = trust_model.closeness(rows, graph.neighbours, trust, 4, distance)
        np.testing.assert_allclose(graph.closeness, expected, rtol=ONE_FLOAT32_STEP / 2 + 1e-11)


def test_lookup_is_exact_to_float32_on_a_kink_and_outside_its_range():
    def kinked(values):
        return 2.0 * (np.maximum(values, 3.3) / 3.3) ** -1.7

    table = tabulate(kinked, highest=1e5)
    values = np.concatenate([np.geomspace(1e-9, 1e5, 200_001), [3.3, np.nextafter(3.3, 0), 0.0]])
    np.testing.assert_allclose(table(values), kinked(values), rtol=1e-11)


def test_lookup_asks_the_function_seldom():
    asked = []
    layout_radius = radio.reach_m(Sidelink(), GEOMETRY)

    def rate(squared):
        asked.append(len(squared))
        return radio.rate_bps(np.sqrt(squared), Sidelink(), GEOMETRY)

    table = tabulate(rate, layout_radius**2)
    asked.clear()
    table(np.random.default_rng(0).uniform(0, layout_radius**2, 100_000))
    assert sum(asked) < 1_000


@given(
    links=st.sets(st.tuples(st.integers(0, 30), st.integers(0, 30)).filter(lambda pair: pair[0] < pair[1])),
    blocks=st.integers(1, 4),
)
def test_both_ways_to_make_rows_agree(links, blocks):
    first, second = np.array(sorted(links), dtype=np.int32).reshape(-1, 2).T
    order = np.random.default_rng(0).permutation(len(first))
    values = np.arange(len(first), dtype=np.float32)
    all_links = csr.Links(first[order], second[order], values, values / 1000)
    parts = [csr.Links(*(array[part::blocks] for array in all_links)) for part in range(blocks)]
    parts = [csr.Links(*map(np.ascontiguousarray, part)) for part in parts]
    one, other = (csr.assemble(parts, 31, compiled=compiled) for compiled in (False, True))
    assert_same_graph(one, other)
    check_graph(one)
    assert one.num_links == len(links)


def test_rows_longer_than_a_thousand_are_sorted():
    """Two of them, so that the second finds nothing left of the first."""
    hubs, others = [0, 3_001], np.random.default_rng(0).permutation(np.arange(1, 3_001)).astype(np.int32)
    ends = [(hub, other) for hub in hubs for other in others if hub == 0 or other > 1_500]
    first, second = np.array(ends, dtype=np.int32).T
    values = (first + second).astype(np.float32)
    graph = csr.assemble([csr.Links(first, second, values, values / 10_000)], 3_002, compiled=True)
    for hub, lowest in zip(hubs, (1, 1_501), strict=True):
        expected = np.arange(lowest, 3_001)
        assert graph.neighbours[graph.links_of(hub)].tolist() == expected.tolist()
        assert graph.rate_bps[graph.links_of(hub)].tolist() == (hub + expected).tolist()
    check_graph(graph)


@pytest.mark.usefixtures("no_kernel_cache")
def test_without_a_folder_to_write_to_kernels_are_compiled_all_the_same():
    spec = importlib.util.find_spec("fedcast._fast.graph_kernels")
    anew = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(anew)
    degrees = np.zeros(3, dtype=np.int64)
    anew.count_links(np.array([0, 0], np.int32), np.array([1, 2], np.int32), degrees)
    assert degrees.tolist() == [2, 1, 1]


def test_no_blocks_give_no_links():
    for compiled in (False, True):
        assert csr.assemble([], 3, compiled=compiled).offsets.tolist() == [0, 0, 0, 0]


def broken(**changes: object) -> Graph:
    sound = graph_from_edges([0, 1, 0], [1, 2, 2], [5.0, 6.0, 7.0], [0.1, 0.2, 0.3], 3)
    arrays = {name: getattr(sound, name).copy() for name in ("offsets", "neighbours", "rate_bps", "closeness")}
    for name, change in changes.items():
        change(arrays[name])
    return Graph(**arrays)


def setter(place: int, value: float):
    return lambda array: array.__setitem__(place, value)


@pytest.mark.parametrize(
    ("graph", "fault"),
    [
        (
            broken(neighbours=lambda row: row[:2].sort() or row.__setitem__(slice(0, 2), row[1::-1].copy())),
            "not sorted",
        ),
        (broken(neighbours=setter(0, 0)), "itself"),
        (broken(neighbours=setter(1, 9)), r"neighbour is not in 0 … 2"),
        (broken(rate_bps=setter(0, 9.0)), "the rate of a link differs"),
        (broken(closeness=setter(0, 0.9)), "the closeness of a link differs"),
        (broken(offsets=setter(-1, 7)), "different length"),
        (
            Graph(np.array([0, 1, 1]), np.array([1], np.int32), np.ones(1, np.float32), np.ones(1, np.float32)),
            "opposite",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_check_finds_every_fault(graph, fault):
    check_graph(broken())
    with pytest.raises(DataError, match=fault):
        check_graph(graph)


def test_check_finds_links_below_a_threshold():
    with pytest.raises(DataError, match="rate is below 5.5"):
        check_graph(broken(), min_rate_bps=5.5)
    with pytest.raises(DataError, match="closeness is outside"):
        check_graph(broken(), min_closeness=0.15)
