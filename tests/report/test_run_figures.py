"""Figures of runs: what is chosen and computed, against plain loops; and that what is drawn is what was computed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.interpolate import interp1d

from fedcast.clustering import cluster
from fedcast.clustering.sample_problems import path_problem
from fedcast.network import layout_from_positions
from fedcast.report.colours import hex_of
from fedcast.report.figures.maps import cluster_figure, cluster_map, map_of_users
from fedcast.report.figures.training import (
    PARTS,
    curves_figure,
    delay_figure,
    leakage_curve,
    leakage_figure,
    learning_curve,
)
from fedcast.report.figures.users import class_change, class_change_figure, emd_figure, energy_figure, sorted_users
from fedcast.report.layout import lay_out
from fedcast.report.shapes import Shapes, Words
from fedcast.scenario import Geometry


def shapes(drawing, css: str) -> list[Shapes]:
    return [item for item in drawing.items if isinstance(item, Shapes) and css in (item.item_css, item.css)]


def of_kind(drawing, kind: str) -> list[Shapes]:
    return [item for item in drawing.items if isinstance(item, Shapes) and item.kind == kind]


def texts(drawing) -> list[str]:
    return [item.text for item in drawing.items if isinstance(item, Words)]


def test_a_single_seed_is_drawn_as_it_is():
    found = learning_curve("daca", 1, [([0, 1, 2, 3], [0.1, 0.5, 0.4, 0.9])])
    assert found.x.tolist() == [0, 1, 2, 3]
    assert found.y.tolist() == [0.1, 0.5, 0.4, 0.9]
    assert found.low is found.high is None


def test_seeds_on_different_clocks_are_averaged_at_equal_times():
    rng = np.random.default_rng(0)
    courses = [(np.cumsum(rng.uniform(0.5, 1.5, 30)), rng.uniform(0, 1, 30)) for _ in range(4)]
    found = learning_curve("daca", 1, courses)
    assert found.x[0] == max(x[0] for x, _ in courses)
    assert found.x[-1] == min(x[-1] for x, _ in courses)
    straight = np.array([interp1d(x, y)(found.x) for x, y in courses])
    np.testing.assert_allclose(found.y, straight.mean(axis=0))
    low, high = stats.t.interval(0.95, 3, straight.mean(axis=0), stats.sem(straight))
    np.testing.assert_allclose(found.low, low)
    np.testing.assert_allclose(found.high, high)
    found = learning_curve("daca", 1, courses, bands="range")
    np.testing.assert_allclose(found.low, straight.min(axis=0))
    np.testing.assert_allclose(found.high, straight.max(axis=0))


def test_a_run_that_ends_before_another_begins_keeps_its_last_value():
    found = learning_curve("daca", 1, [([0.0, 1.0], [0.2, 0.4]), ([5.0, 9.0], [0.1, 0.8])])
    assert found.x.tolist() == [5.0]
    assert found.y.tolist() == pytest.approx([(0.4 + 0.1) / 2])


def test_long_courses_are_thinned_with_both_ends_kept():
    found = learning_curve("daca", 1, [(np.arange(5_001), np.arange(5_001) / 5_000)])
    assert len(found.x) == 300
    assert (found.x[0], found.x[-1]) == (0, 5_000)
    np.testing.assert_allclose(found.y, found.x / 5_000)


def test_curves_are_drawn_with_band_and_target():
    several = learning_curve("daca", 1, [([0, 1], [0.1, 0.5]), ([0, 1], [0.3, 0.7])])
    one = learning_curve("FedAvg", 0, [([0, 1], [0.1, 0.4])])
    drawing = lay_out(curves_figure([one, several], "Test accuracy", "round", target=0.6, is_share=True))
    x, y = drawing.scales[0]
    lines = {line.series: line.places[0] for line in shapes(drawing, "line")}
    np.testing.assert_allclose(lines[1], np.stack([x([0, 1]), y([0.2, 0.6])], axis=1))
    assert shapes(drawing, "target")[0].places[0][1] == pytest.approx(float(y(0.6)))
    assert [band.series for band in shapes(drawing, "band")] == [1]  # one seed has no band
    assert {"target 60\u00a0%", "daca", "FedAvg", "Test accuracy"} <= set(texts(drawing))


def test_no_two_of_twenty_series_look_alike():
    curves = [learning_curve(f"strategy {number}", number, [([0, 1], [0.1, 0.4])]) for number in range(20)]
    drawing = lay_out(curves_figure(curves, "Test accuracy", "round", target=0.9, is_share=True))
    lines = shapes(drawing, "line")
    drawn = [(hex_of(line.stroke), line.dash) for line in lines]
    assert len(set(drawn)) == len(drawn) == 20
    leaks = [leakage_curve(f"strategy {number}", number, [0.0, 0.1], [9.0, 7.0]) for number in range(20)]
    drawing = lay_out(leakage_figure([mark for marks in leaks for mark in marks]))
    assert [(hex_of(line.stroke), line.dash) for line in shapes(drawing, "line")] == drawn
    dots = {(hex_of(dot.fill), dot.stroke and hex_of(dot.stroke)) for dot in shapes(drawing, "dot")[:15]}
    assert len(dots) == 15  # also where a line is a single dot


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.1, 100)), min_size=1, max_size=12))
def test_leakage_keeps_the_points_that_no_other_beats(points):
    line, _ = leakage_curve("daca", 1, [ratio for ratio, _ in points], [delay for _, delay in points])
    unbeaten = {
        (ratio, delay)
        for ratio, delay in points
        if not any(r <= ratio and d <= delay and (r, d) != (ratio, delay) for r, d in points)
    }
    assert set(zip(line.x.tolist(), line.y.tolist(), strict=True)) == unbeaten
    assert (np.diff(line.x) > 0).all()


def test_leakage_is_drawn_once_per_run_and_named_once_per_strategy():
    met, missed = (leakage_curve("daca", 1, [0.0, 0.1], [9.0, 7.0], measured) for measured in ((0.1, 8.0), None))
    drawing = lay_out(leakage_figure([*met, *missed]))
    assert len(shapes(drawing, "line")) == 2
    assert len(shapes(drawing, "ring")) == 1
    assert texts(drawing)[-2:] == ["daca", "measured in training"]


def test_delay_bars_lie_end_to_end():
    seconds = np.array([[0.0, 1, 2, 3], [4, 1, 1, 1]])
    drawing = lay_out(delay_figure(["FedAvg", "daca"], seconds))
    x, _ = drawing.scales[0]
    bars = np.array(of_kind(drawing, "rect")[0].places)
    assert len(bars) == 2 * len(PARTS) - 1  # FedAvg shares nothing
    for row, tops in enumerate(sorted(set(bars[:, 1]))):
        own = bars[bars[:, 1] == tops]
        assert own[1:, 0] == pytest.approx((own[:, 0] + own[:, 2])[:-1])
        assert own[-1, 0] + own[-1, 2] == pytest.approx(float(x([6, 7][row])))
    assert texts(drawing)[-4:] == list(PARTS)


def test_emd_of_all_users_in_order():
    before, after = [1.5, 0.2, 1.5, 0.9], [1.0, 0.2, 0.8, 0.5]
    shown = sorted_users(before, after)
    assert shown.users.tolist() == [1, 3, 2, 0]
    drawing = lay_out(emd_figure(shown, 1.0, 0.6))
    _, y = drawing.scales[0]
    first, second = (np.array(dots.places)[:, 1] for dots in of_kind(drawing, "circle")[:2])
    assert first == pytest.approx(y([0.2, 0.9, 1.5, 1.5]))
    assert second == pytest.approx(y([0.2, 0.5, 0.8, 1.0]))
    assert [level.places[0][1] for level in shapes(drawing, "target")] == pytest.approx(y([1.0, 0.6]))


def test_many_users_are_thinned_evenly_over_their_order():
    energy = np.random.default_rng(1).permutation(10_000) / 1e4
    shown = sorted_users(energy, max_users=101)
    joules = shown.values[0]
    assert len(shown.users) == 101
    np.testing.assert_array_equal(joules, energy[shown.users])
    np.testing.assert_allclose(np.diff(joules), 0.01, atol=2e-4)
    figure = energy_figure(shown, budget_j=2.0)
    assert "(101 of 10,000 users)" in figure.title
    drawing = lay_out(figure)
    heights = np.array(of_kind(drawing, "rect")[0].places)[:, 3]
    _, y = drawing.scales[0]
    assert heights == pytest.approx(y(0) - y(joules))
    assert shapes(drawing, "target")[0].places[0][1] == pytest.approx(float(y(2.0)))


def test_classes_shown_before_and_after_are_the_same():
    rng = np.random.default_rng(2)
    before = rng.integers(0, 3, (50, 40))
    after = before + rng.integers(0, 2, (50, 40))
    shown = class_change(before, after, max_users=20)
    assert (len(shown.users), shown.num_users) == (20, 50)
    np.testing.assert_array_equal(shown.before, before[shown.users][:, shown.classes])
    np.testing.assert_array_equal(shown.after, after[shown.users][:, shown.classes])
    totals = (before + after).sum(axis=0)
    assert totals[shown.classes].min() >= np.delete(totals, shown.classes).max()
    main = shown.before.argmax(axis=1)
    assert (np.diff(main) >= 0).all()


def test_received_samples_are_drawn_in_a_colour_of_their_own():
    shown = class_change([[3, 0], [0, 2]], [[3, 1], [0, 2]])
    drawing = lay_out(class_change_figure(shown))
    own, received = shapes(drawing, "own"), shapes(drawing, "received")
    assert [len(dots.places) for dots in own] == [2, 2]
    assert len(received[0].places) == 1
    x, y = drawing.scales[0]
    before_y = [place[1] for place in own[0].places]
    assert before_y == pytest.approx(y([0.5, 1.5]))
    assert received[0].places[0][0] == pytest.approx(float(x(0.5)))
    assert received[0].places[0][1] == pytest.approx(own[1].places[1][1])
    assert received[0].fill != own[0].fill


def test_a_map_of_plain_values_is_that_of_the_clustering():
    clustering = cluster(path_problem([[9, 1], [5, 5], [1, 9], [0, 0], [1, 1]], rule="daca"))
    layout = layout_from_positions([[100.0 * user, 0.0] for user in range(5)], Geometry())
    one = cluster_map(layout, clustering)
    other = map_of_users(layout.positions_m, clustering.head_of)
    assert one.is_head.tolist() == [False, True, False, False, True]
    for user in range(5):
        same = [other.cluster[user] == other.cluster[mate] >= 0 for mate in range(5)]
        leader = clustering.head_of[user] if clustering.head_of[user] >= 0 else user
        assert same == [
            one.is_head[leader] and (clustering.head_of[mate] == leader or mate == leader) for mate in range(5)
        ]
    assert len(other.joins_km) == (clustering.head_of >= 0).sum()
    drawing = lay_out(cluster_figure(other, tips=[f"User {user}" for user in range(5)]))
    marks = {css: shapes(drawing, css)[0] for css in ("joins", "head", "member", "alone")}
    assert [len(mark.places) for mark in marks.values()] == [3, 2, 3, 0]
    assert marks["head"].tips == ("User 1", "User 4")
