"""Figures of runs: what is chosen and computed, against plain loops; and that what is drawn is what was computed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.interpolate import interp1d

from fedcast.clustering import cluster
from fedcast.clustering.worlds import path_problem
from fedcast.network.geometry import layout_from_positions
from fedcast.report.figures.class_change import class_change, draw_class_change
from fedcast.report.figures.cluster_map import cluster_map, map_of_users
from fedcast.report.figures.delay_split import PARTS, delay_split, draw_delay_split
from fedcast.report.figures.emd_change import draw_emd_change, emd_change
from fedcast.report.figures.leakage import draw_leakage, leakage_curve
from fedcast.report.figures.learning import curve, draw_curves
from fedcast.report.figures.output import save_figure
from fedcast.report.figures.user_energy import draw_user_energy, user_energy
from fedcast.scenario import Geometry


def test_a_single_seed_is_drawn_as_it_is():
    found = curve("daca", 1, [([0, 1, 2, 3], [0.1, 0.5, 0.4, 0.9])])
    assert found.x.tolist() == [0, 1, 2, 3]
    assert found.mean.tolist() == found.low.tolist() == found.high.tolist() == [0.1, 0.5, 0.4, 0.9]


def test_seeds_on_different_clocks_are_averaged_at_equal_times():
    rng = np.random.default_rng(0)
    courses = [(np.cumsum(rng.uniform(0.5, 1.5, 30)), rng.uniform(0, 1, 30)) for _ in range(4)]
    found = curve("daca", 1, courses)
    assert found.x[0] == max(x[0] for x, _ in courses)
    assert found.x[-1] == min(x[-1] for x, _ in courses)
    straight = np.array([interp1d(x, y)(found.x) for x, y in courses])
    np.testing.assert_allclose(found.mean, straight.mean(axis=0))
    np.testing.assert_allclose(found.low, straight.min(axis=0))
    np.testing.assert_allclose(found.high, straight.max(axis=0))
    assert found.seeds == 4


def test_a_run_that_ends_before_another_begins_keeps_its_last_value():
    found = curve("daca", 1, [([0.0, 1.0], [0.2, 0.4]), ([5.0, 9.0], [0.1, 0.8])])
    assert found.x.tolist() == [5.0]
    assert found.mean.tolist() == pytest.approx([(0.4 + 0.1) / 2])


def test_long_courses_are_thinned_with_both_ends_kept():
    found = curve("daca", 1, [(np.arange(5_001), np.arange(5_001) / 5_000)])
    assert len(found.x) == 300
    assert (found.x[0], found.x[-1]) == (0, 5_000)
    np.testing.assert_allclose(found.mean, found.x / 5_000)


def test_curves_are_drawn_with_band_and_target():
    several = curve("daca", 1, [([0, 1], [0.1, 0.5]), ([0, 1], [0.3, 0.7])])
    one = curve("FedAvg", 0, [([0, 1], [0.1, 0.4])])
    axes = draw_curves([one, several], "Test accuracy", "round", "accuracy", target=0.6).axes[0]
    lines = {line.get_label(): line.get_ydata() for line in axes.lines}
    np.testing.assert_allclose(lines["daca"], [0.2, 0.6])
    np.testing.assert_allclose(lines["target"], [0.6, 0.6])
    assert len(axes.collections) == 1  # one seed has no band


def looks(axes):
    """How each named line is drawn."""
    named = [line for line in axes.lines if not line.get_label().startswith("_")]
    return [(line.get_color(), line.get_linestyle()) for line in named]


def test_no_two_of_twenty_series_look_alike():
    curves = [curve(f"strategy {number}", number, [([0, 1], [0.1, 0.4])]) for number in range(20)]
    drawn = looks(draw_curves(curves, "Test accuracy", "round", "accuracy", target=0.9).axes[0])
    assert len(set(drawn)) == len(drawn) == 21
    leaks = [leakage_curve(f"strategy {number}", number, [0.0, 0.1], [9.0, 7.0]) for number in range(20)]
    axes = draw_leakage(leaks).axes[0]
    assert looks(axes) == drawn[:20]
    dots = {(line.get_markerfacecolor(), line.get_markeredgecolor()) for line in axes.lines[:15]}
    assert len(dots) == 15  # also where a line is a single dot


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.1, 100)), min_size=1, max_size=12))
def test_leakage_keeps_the_points_that_no_other_beats(points):
    found = leakage_curve("daca", 1, [ratio for ratio, _ in points], [delay for _, delay in points])
    unbeaten = {
        (ratio, delay)
        for ratio, delay in points
        if not any(r <= ratio and d <= delay and (r, d) != (ratio, delay) for r, d in points)
    }
    assert set(zip(found.ratio.tolist(), found.delay_s.tolist(), strict=True)) == unbeaten
    assert (np.diff(found.ratio) > 0).all()


def test_leakage_is_drawn_once_per_run_and_named_once_per_strategy():
    lines = [leakage_curve("daca", 1, [0.0, 0.1], [9.0, 7.0], measured) for measured in ((0.1, 8.0), None)]
    figure = draw_leakage(lines)
    assert len(figure.axes[0].lines) == 2
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["daca", "measured in training"]


def test_delay_bars_lie_end_to_end():
    split = delay_split(["FedAvg", "daca"], [[0, 1, 2, 3], [4, 1, 1, 1]])
    bars = draw_delay_split(split).axes[0].patches
    assert len(bars) == 2 * len(PARTS)
    for row in range(2):
        own = sorted((bar.get_x(), bar.get_width()) for bar in bars if bar.get_y() + 0.31 == pytest.approx(row))
        ends = [left + width for left, width in own]
        assert [left for left, _ in own[1:]] == pytest.approx(ends[:-1])
        assert ends[-1] == pytest.approx(split.totals[row]) == pytest.approx([6, 7][row])


def test_emd_of_all_users_in_order():
    before, after = [1.5, 0.2, 1.5, 0.9], [1.0, 0.2, 0.8, 0.5]
    shown = emd_change(before, after)
    assert shown.users.tolist() == [1, 3, 2, 0]
    drawn = draw_emd_change(shown).axes[0].collections
    assert drawn[1].get_offsets()[:, 1].tolist() == [0.2, 0.9, 1.5, 1.5]
    assert drawn[2].get_offsets()[:, 1].tolist() == [0.2, 0.5, 0.8, 1.0]


def test_many_users_are_thinned_evenly_over_their_order():
    energy = np.random.default_rng(1).permutation(10_000) / 1e4
    shown = user_energy(energy, budget_j=2.0, max_users=101)
    assert len(shown.users) == 101
    np.testing.assert_array_equal(shown.joules, energy[shown.users])
    np.testing.assert_allclose(np.diff(shown.joules), 0.01, atol=2e-4)
    figure = draw_user_energy(shown)
    assert "(101 of 10,000 users)" in figure.axes[0].get_title(loc="left")
    assert len(figure.axes[0].patches) == 101


def test_classes_shown_before_and_after_are_the_same():
    rng = np.random.default_rng(2)
    before = rng.integers(0, 3, (50, 40))
    after = before + rng.integers(0, 2, (50, 40))
    shown = class_change(before, after, max_users=20, max_classes=12)
    assert (len(shown.users), shown.num_users) == (20, 50)
    np.testing.assert_array_equal(shown.before, before[shown.users][:, shown.classes])
    np.testing.assert_array_equal(shown.after, after[shown.users][:, shown.classes])
    totals = (before + after).sum(axis=0)
    assert totals[shown.classes].min() >= np.delete(totals, shown.classes).max()
    main = shown.before.argmax(axis=1)
    assert (np.diff(main) >= 0).all()


def test_received_samples_are_drawn_in_a_colour_of_their_own():
    shown = class_change([[3, 0], [0, 2]], [[3, 1], [0, 2]])
    before, after = draw_class_change(shown).axes
    assert len(before.collections[0].get_offsets()) == 2
    received, own = after.collections
    assert received.get_offsets().tolist() == [[0, 1]]
    assert len(own.get_offsets()) == 2
    assert received.get_facecolor().tolist() != own.get_facecolor().tolist()


def test_a_map_of_plain_values_is_that_of_the_clustering():
    clustering = cluster(path_problem([[9, 1], [5, 5], [1, 9], [0, 0], [1, 1]], rule="daca"))
    layout = layout_from_positions([[100.0 * user, 0.0] for user in range(5)], Geometry())
    one = cluster_map(layout, clustering)
    other = map_of_users(layout.positions_m, clustering.head_of, clustering.after.emd)
    assert one.is_head.tolist() == [False, True, False, False, True]
    for user in range(5):
        same = [other.cluster[user] == other.cluster[mate] >= 0 for mate in range(5)]
        leader = clustering.head_of[user] if clustering.head_of[user] >= 0 else user
        assert same == [
            one.is_head[leader] and (clustering.head_of[mate] == leader or mate == leader) for mate in range(5)
        ]
    assert len(other.joins_km) == (clustering.head_of >= 0).sum()


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_the_same_figure_has_the_same_bytes(tmp_path, suffix):
    paths = [save_figure(draw_user_energy(user_energy([0.1, 0.2], 0.3)), tmp_path / f"{name}{suffix}") for name in "ab"]
    assert paths[0].read_bytes() == paths[1].read_bytes()
