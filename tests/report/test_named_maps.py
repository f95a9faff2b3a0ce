"""Maps with names: readable, honest about places, and true to the links of a plan."""

from __future__ import annotations

import csv
from itertools import combinations

import numpy as np
import pytest

from fedcast import load_scenario, make_world
from fedcast.clustering import Clustering
from fedcast.network import Layout, graph_from_edges, place_users
from fedcast.plan import refused_links
from fedcast.report import (
    Axis,
    Dots,
    Figure,
    Names,
    Panel,
    cluster_figure,
    cluster_map,
    crowd_figure,
    network_figure,
    network_map,
    plan_figure,
    save_figure,
)
from fedcast.report.figures.schematic import schematic_places
from fedcast.report.layout import lay_out
from fedcast.report.name_places import place_names
from fedcast.report.shapes import Shapes, Words
from fedcast.scenario import Geometry
from tests.user_tables import NAMES, write_tables

NO_LINES = np.zeros((0, 4))


def world_of(folder, *, positions: bool):
    tables = write_tables(folder, lambda user: NAMES[user])
    files = {"data.synthetic.counts_file": "counts", "trust.links_file": "links"}
    files |= {"geometry.positions_file": "positions"} if positions else {}
    own = ["data.dataset=synthetic", *(f"{key}={tables[name]}" for key, name in files.items())]
    return make_world(load_scenario(overrides=own)), tables


def clusters(world):
    """User 0 leads the first three of its neighbours."""
    head_of = np.full(world.graph.num_users, -1)
    head_of[world.graph.neighbours[world.graph.links_of(0)][:3]] = 0
    return Clustering(world.problem(), head_of)


def words(figure, width="screen") -> list[str]:
    return [item.text for item in lay_out(figure, width).items if isinstance(item, Words)]


def test_no_name_covers_another_one_or_a_point_or_leaves_the_frame():
    rng = np.random.default_rng(3)
    points, radii = rng.uniform(20, 380, (60, 2)), rng.uniform(2, 7, 60)
    sizes = np.column_stack([rng.uniform(15, 70, 60), np.full(60, 9.0)])
    boxes = place_names(points, radii, sizes, (0, 0, 400, 400), NO_LINES)
    placed = [box for box in boxes if np.isfinite(box[0])]
    assert len(placed) >= 50
    for (left, top, wide, tall), (other, above, width, height) in combinations(placed, 2):
        assert left + wide <= other or other + width <= left or top + tall <= above or above + height <= top
    for left, top, wide, tall in placed:
        nearest = np.column_stack([np.clip(points[:, 0], left, left + wide), np.clip(points[:, 1], top, top + tall)])
        assert (np.hypot(*(nearest - points).T) >= 0.69 * radii).all()
        assert min(left, top) >= 0
        assert max(left + wide, top + tall) <= 400


def test_a_name_avoids_lines_where_it_can():
    point, size = np.array([[100.0, 100.0]]), np.array([[40.0, 8.0]])
    right = np.array([[100.0, 100.0, 200.0, 100.0]])
    assert place_names(point, np.ones(1), size, (0, 0, 200, 200), NO_LINES)[0, 0] > 100
    assert place_names(point, np.ones(1), size, (0, 0, 200, 200), right)[0, 0] + 40 < 100


def test_a_crowded_name_is_left_out_and_the_first_ones_stay():
    panel = Panel(
        [Names([0.5] * 40, [0.5] * 40, [f"name {n}" for n in range(40)])], Axis(limits=(0, 1)), Axis(limits=(0, 1))
    )
    found = [text for text in words(Figure([[panel]])) if text.startswith("name")]
    assert "name 0" in found
    assert len(found) < 40


def test_places_are_schematic_only_where_no_table_gives_them(tmp_path):
    (tmp_path / "with").mkdir()
    (tmp_path / "without").mkdir()
    assert make_world(load_scenario()).places_known, "a simulated network has the places of the simulation"
    for positions, folder in ((True, "with"), (False, "without")):
        world, _ = world_of(tmp_path / folder, positions=positions)
        assert world.places_known is positions
        schematic = not world.places_known
        for figure in (
            network_figure(network_map(world.layout, world.graph, schematic=schematic)),
            cluster_figure(cluster_map(world.layout, clusters(world), schematic=schematic)),
            plan_figure(world, clusters(world)),
        ):
            texts = words(figure)
            assert any(text.endswith("\u00a0m") for text in texts) is positions, "a scale bar"
            assert ("schematic" in " ".join(texts)) is schematic
            assert set(NAMES) <= set(texts)
            assert ("base station" in " ".join(texts)) is (positions and "can" in figure.title)


def test_schematic_places_put_members_around_their_head_and_nobody_on_another():
    rng = np.random.default_rng(5)
    head_of = np.full(90, -1)
    head_of[10:60] = rng.integers(0, 10, 50)
    links = rng.integers(0, 90, (120, 2))
    places = schematic_places(head_of, links)
    np.testing.assert_array_equal(places, schematic_places(head_of, links))
    apart = np.hypot(*(places[:, None] - places).transpose(2, 0, 1))
    heads = np.unique(head_of[head_of >= 0])
    members = np.flatnonzero(head_of >= 0)
    assert (heads[apart[np.ix_(members, heads)].argmin(axis=1)] == head_of[members]).all()
    assert apart[~np.eye(90, dtype=bool)].min() > 0.4


def test_linked_groups_are_closer_than_others():
    rng = np.random.default_rng(0)
    links = np.concatenate([rng.integers(0, 10, (30, 2)), rng.integers(10, 20, (30, 2))])
    places = schematic_places(np.full(20, -1), links)
    apart = np.hypot(*(places[:, None] - places).transpose(2, 0, 1))
    inside = [apart[:10, :10].mean(), apart[10:, 10:].mean()]
    assert max(inside) < 0.8 * apart[:10, 10:].mean()


def test_refused_links_are_the_rows_that_a_threshold_leaves_out(tmp_path):
    file = tmp_path / "links.csv"
    rows = [(0, 1, 9e5, 0.9), (0, 2, 1e5, 0.9), (2, 1, 9e5, 0.2), (3, 1, 1e5, 0.1), (2, 3, 3.5e5, 0.5)]
    file.write_text("user_a,user_b,rate_bps,closeness\n" + "".join(f"{a},{b},{r},{c}\n" for a, b, r, c in rows))
    world = make_world(load_scenario(overrides=["data.num_users=4", f"trust.links_file={file}"]))
    found = refused_links(world)
    told = {
        (int(a), int(b)): (bool(slow), bool(distant))
        for a, b, slow, distant in zip(found.first, found.second, found.too_slow, found.too_distant, strict=True)
    }
    with file.open() as lines:
        read = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(lines)]
    refused = {
        tuple(sorted((int(row["user_a"]), int(row["user_b"])))): (row["rate_bps"] < 3.5e5, row["closeness"] < 0.5)
        for row in read
        if row["rate_bps"] < 3.5e5 or row["closeness"] < 0.5
    }
    assert told == refused
    assert found.count(4, by_trust=True).tolist() == [0, 1, 1, 0]
    assert found.count(4, by_trust=False).tolist() == [1, 1, 1, 1]


def test_the_map_of_a_plan_has_every_link_once_and_says_why_it_is_refused(tmp_path):
    world, _ = world_of(tmp_path, positions=True)
    clustering, refused = clusters(world), refused_links(world)
    shown = cluster_map(world.layout, clustering, refused=refused)
    assert len(shown.joins_km) == 3
    assert len(shown.unused_km) == world.graph.num_links - 3
    assert len(shown.refused_km) == len(refused.first) == 1
    for tip, slow, distant in zip(shown.refused_tips, refused.too_slow, refused.too_distant, strict=True):
        assert ("too slow" in tip, "not trusted" in tip) == (slow, distant)
    texts = words(cluster_figure(shown))
    assert f"{len(shown.unused_km)} links not used" in texts
    assert "1 link refused" in texts


def test_a_crowd_is_counted_square_by_square():
    layout = place_users(3_000, Geometry(), 0)
    head_of = np.where(np.arange(3_000) % 3 == 0, -1, np.arange(3_000) // 3 * 3)
    figure = crowd_figure(layout, head_of)
    dots = next(mark for mark in figure.rows[0][0].marks if isinstance(mark, Dots))
    low, high = layout.positions_m.min(axis=0), layout.positions_m.max(axis=0)
    side = (high - low).max() / 32
    edges = [first + side * np.arange(33) + 1e-6 * (np.arange(33) == 32) for first in low]
    users = np.histogram2d(*layout.positions_m.T, bins=edges)[0]
    assert [int(tip.split()[0]) for tip in dots.tips] == users[users > 0].astype(int).tolist()
    assert sum(int(tip.split("\n")[1].split()[0]) for tip in dots.tips) == 1_000
    sizes = crowd_figure(layout, head_of, schematic=True)
    assert "3,000 users, 1,000 clusters by size" in sizes.title


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_names_with_markup_are_only_texts(tmp_path, ending):
    names = np.array(["<b>&\"'", "$x$", "Ünï", "long " * 20])
    layout = Layout(np.array([[0.0, 0], [100, 0], [0, 90], [50, 60]]), np.zeros((1, 2)), np.zeros(4, dtype=int), names)
    graph = graph_from_edges([0], [1], 1e6, 0.9, num_users=4)
    path = save_figure(network_figure(network_map(layout, graph)), tmp_path / f"map.{ending}")
    if ending == "svg":
        text = path.read_text(encoding="utf-8")
        assert "&lt;b&gt;&amp;" in text
        assert "<b>" not in text


def test_a_name_far_from_its_point_is_joined_to_it():
    points = [(x, y) for x in range(5) for y in range(5)]
    x, y = np.array(points).T
    panel = Panel([Names(x, y, ["a long name"] * 25, 9.0)], Axis(limits=(-2, 6)), Axis(limits=(-2, 6)), height=150)
    drawing = lay_out(Figure([[panel]], width=300))
    lines = [
        item for item in drawing.items if isinstance(item, Shapes) and item.kind == "line" and len(item.places) == 1
    ]
    starts = {tuple(np.round(item.places[0][:2], 3)) for item in lines}
    scale_x, scale_y = drawing.scales[0]
    assert starts & {tuple(np.round((float(scale_x(a)), float(scale_y(b))), 3)) for a, b in points}
