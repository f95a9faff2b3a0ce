"""The network map: what is chosen to be shown, and that it can be drawn and written in every format."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from fedcast.network import build_graph, graph_from_edges
from fedcast.network.geometry import Layout, place_users
from fedcast.report.figures.network_map import _grid_step, _rate_text, draw_network_map, network_map
from fedcast.report.figures.output import save_figure
from fedcast.scenario import Geometry, Sidelink, Trust

GEOMETRY = Geometry()


def network(num_users: int, seed: int = 0):
    layout = place_users(num_users, GEOMETRY, seed)
    return layout, build_graph(layout, Sidelink(), Trust(), GEOMETRY, seed)


def texts(figure) -> str:
    legends = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    return " | ".join(legends + titles)


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


def test_a_crowd_is_cut_to_the_usersnearest_the_middle():
    layout, graph = network(3_000)
    shown = network_map(layout, graph, max_users=400, max_links=500)
    middle = layout.positions_m.mean(axis=0)
    distance = np.hypot(*(layout.positions_m - middle).T)
    assert set(shown.users) == set(np.argsort(distance)[:400])
    among = sum(np.isin(graph.neighbours[graph.links_of(user)], shown.users).sum() for user in shown.users) // 2
    assert shown.num_links == among > 500
    assert len(shown.links_km) == 500
    assert len(shown.base_stations_km) < len(layout.base_stations_m)
    text = texts(draw_network_map(shown))
    assert "the 400 of 3,000 users nearest the middle" in text
    assert f"500 of {among:,} links" in text


def test_users_without_a_link_are_told_apart():
    layout = Layout(np.array([[0.0, 0], [100, 0], [500, 0]]), np.zeros((1, 2)), np.zeros(3, dtype=np.int64))
    shown = network_map(layout, graph_from_edges([0], [1], 1e6, 0.9, num_users=3))
    assert shown.isolated.tolist() == [False, False, True]
    text = texts(draw_network_map(shown))
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
    path = save_figure(draw_network_map(network_map(*network(num_users))), tmp_path / f"map.{ending}")
    assert path.read_bytes().startswith(begins)
    assert "matplotlib.pyplot" not in sys.modules


def test_links_of_equal_or_no_rate_are_drawn(tmp_path):
    layout = place_users(4, GEOMETRY, 0)
    for rate in (0.0, 5e5):
        graph = graph_from_edges([0, 1], [1, 2], rate, 0.9, num_users=4)
        save_figure(draw_network_map(network_map(layout, graph)), tmp_path / "map.png")


@pytest.mark.parametrize(
    ("rate", "text"), [(0.5, "0.5 bit/s"), (3.5e5, "350 kbit/s"), (1e6, "1 Mbit/s"), (2e9, "2 Gbit/s")]
)
def test_rates_are_written_in_handy_units(rate, text):
    assert _rate_text(rate) == text


@pytest.mark.parametrize(("extent", "step"), [(2.1, 0.5), (7.0, 1.0), (9.0, 2.0), (200.0, 50.0)])
def test_grid_steps_are_round(extent, step):
    assert _grid_step(extent) == pytest.approx(step)
