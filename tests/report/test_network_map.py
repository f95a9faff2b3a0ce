"""Test the network map: its selection of users and links, and that it can be written in every format."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from fedcast.network import Layout, build_graph, graph_from_edges, place_users
from fedcast.report import network_figure, network_map, save_figure
from fedcast.report.figures.network_maps import _rate_colours
from fedcast.report.layout import lay_out
from fedcast.report.shapes import Shapes, Words
from fedcast.scenario import Geometry, Sidelink, Trust

GEOMETRY = Geometry()


def network(num_users: int, seed: int = 0):
    layout = place_users(num_users, GEOMETRY, seed)
    return layout, build_graph(layout, Sidelink(), Trust(), GEOMETRY, seed)


def texts(figure) -> str:
    return " | ".join([figure.title, *(item.text for item in lay_out(figure).items if isinstance(item, Words))])


def test_everything_is_shown_while_there_is_room():
    layout, graph = network(150)
    shown = network_map(layout, graph)
    assert shown.users.tolist() == list(range(150))
    assert shown.num_links == len(shown.links_km) == graph.num_links
    np.testing.assert_array_equal(shown.positions_km, layout.positions_m / 1000)
    np.testing.assert_array_equal(shown.base_stations_km, layout.base_stations_m / 1000)
    assert (np.diff(shown.rate_bps) >= 0).all()
    drawn = {frozenset(map(tuple, ends)) for ends in shown.links_km.tolist()}
    expected = {
        frozenset((tuple(shown.positions_km[user].tolist()), tuple(shown.positions_km[other].tolist())))
        for user in range(150)
        for other in graph.neighbours[graph.links_of(user)]
    }
    assert drawn == expected


def test_rates_belong_to_their_links():
    layout, graph = network(60)
    shown = network_map(layout, graph)
    place_of = {tuple(place): user for user, place in enumerate(shown.positions_km.tolist())}
    for (one, other), rate in zip(shown.links_km.tolist(), shown.rate_bps, strict=True):
        links = graph.links_of(place_of[tuple(one)])
        at = graph.neighbours[links].tolist().index(place_of[tuple(other)])
        assert graph.rate_bps[links][at] == np.float32(rate)


def test_a_crowd_is_cut_to_the_users_nearest_the_centre():
    layout, graph = network(3_000)
    shown = network_map(layout, graph, max_users=400, max_links=500)
    middle = layout.positions_m.mean(axis=0)
    distance = np.hypot(*(layout.positions_m - middle).T)
    assert set(shown.users) == set(np.argsort(distance)[:400])
    among = sum(np.isin(graph.neighbours[graph.links_of(user)], shown.users).sum() for user in shown.users) // 2
    assert shown.num_links == among > 500
    assert len(shown.links_km) == 500
    assert len(shown.base_stations_km) < len(layout.base_stations_m)
    text = texts(network_figure(shown))
    assert "the 400 of 3,000 users nearest the centre" in text
    assert f"500 of {among:,} links" in text


def test_users_without_a_link_are_told_apart():
    layout = Layout(np.array([[0.0, 0], [100, 0], [500, 0]]), np.zeros((1, 2)), np.zeros(3, dtype=np.int64))
    shown = network_map(layout, graph_from_edges([0], [1], 1e6, 0.9, num_users=3))
    assert shown.isolated.tolist() == [False, False, True]
    text = texts(network_figure(shown))
    assert "2 linked users" in text
    assert "1 user without a link" in text
    assert "1 base station" in text


def test_a_user_whose_links_leave_the_picture_is_not_isolated():
    places = np.array([[0.0, 0], [1, 0], [-1, 0], [5000, 0]])
    layout = Layout(places, np.zeros((1, 2)), np.zeros(4, dtype=np.int64))
    shown = network_map(layout, graph_from_edges([0], [3], 1e6, 0.9, num_users=4), max_users=2)
    assert 3 not in shown.users
    assert shown.num_links == 0
    assert shown.isolated.tolist() == [user != 0 for user in shown.users]


@pytest.mark.parametrize(("ending", "begins"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
@pytest.mark.parametrize("num_users", [1, 2, 300])
def test_written_in_every_format(tmp_path, monkeypatch, ending, begins, num_users):
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot", raising=False)
    path = save_figure(network_figure(network_map(*network(num_users))), tmp_path / f"map.{ending}")
    assert path.read_bytes().startswith(begins)
    assert "matplotlib.pyplot" not in sys.modules


def test_links_of_equal_or_no_rate_are_drawn(tmp_path):
    layout = place_users(4, GEOMETRY, 0)
    for rate in (0.0, 5e5):
        graph = graph_from_edges([0, 1], [1, 2], rate, 0.9, num_users=4)
        save_figure(network_figure(network_map(layout, graph)), tmp_path / "map.png")


def test_maps_have_one_scale_and_a_bar_of_a_round_length():
    layout, graph = network(100)
    drawing = lay_out(network_figure(network_map(layout, graph)))
    x, y = drawing.scales[0]
    assert x.end - x.start == pytest.approx(y.start - y.end)
    assert x.high - x.low == pytest.approx(y.high - y.low)
    at = next(place for place, item in enumerate(drawing.items) if isinstance(item, Shapes) and item.css == "scale")
    length_km = (drawing.items[at].places[0][2][0] - x.start) / (x.end - x.start) * (x.high - x.low)
    assert drawing.items[at + 1].text == "500\u00a0m"
    assert length_km == pytest.approx(0.5)
    links = next(item for item in drawing.items if isinstance(item, Shapes) and item.kind == "line")
    assert len(links.places) == graph.num_links


def test_faster_links_are_darker():
    colours = _rate_colours(np.array([1e5, 1e6, 1e7, 1e8]))
    light = [sum(int(colour[place : place + 2], 16) for place in (1, 3, 5)) for colour in colours]
    assert light == sorted(light, reverse=True)
    assert (colours[0], colours[-1]) == ("#d3e0ee", "#153a66")
