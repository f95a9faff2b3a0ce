"""Test against a table that was computed independently: one subcarrier, Rayleigh, 3 dB noise rise, no noise figure."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcast.network import cellular as cl
from fedcast.network.fading import ergodic_efficiency
from fedcast.network.geometry import Layout, layout_from_positions
from fedcast.network.propagation import to_db
from fedcast.scenario import Cellular, Geometry

GROUND = Geometry()
SMALL, LARGE = 0.7e6, 53e6


def links_at(distances, link):
    places = np.column_stack([distances, np.zeros(len(distances))])
    one_cell = Layout(places, np.zeros((1, 2)), np.zeros(len(places), dtype=np.int64))
    return cl.cellular_links(one_cell, 0.01, link, GROUND)


@pytest.mark.parametrize(
    ("model", "distance", "snr_db", "efficiency", "up_small_s", "up_large_s", "down_small_s", "down_large_s"),
    [
        ("macro", 200, 19.18, 5.624, 0.124, 9.42, 4.4e-3, 0.336),
        ("macro", 1000, -7.10, 0.2405, 2.911, 220, 41e-3, 3.13),
        ("uma", 200, 11.40, 3.286, 0.213, 16.1, 6.5e-3, 0.493),
        ("uma", 1000, -15.81, 0.0370, 18.9, 1434, 0.207, 15.6),
    ],
)
def test_rows(model, distance, snr_db, efficiency, up_small_s, up_large_s, down_small_s, down_large_s):
    link = Cellular(path_loss=model)
    snr = cl.uplink_snr(distance, 0.01, link, GROUND)
    assert to_db(snr) == pytest.approx(snr_db, abs=5.1e-3)
    assert ergodic_efficiency(snr) == pytest.approx(efficiency, rel=1.5e-3)
    links = links_at([distance], link)
    up, down = links.up_s_per_bit[0], links.down_s_per_bit[0]
    assert SMALL * up == pytest.approx(up_small_s, rel=4e-3)
    assert LARGE * up == pytest.approx(up_large_s, rel=4e-3)
    assert SMALL * down == pytest.approx(down_small_s, rel=1.5e-2)
    assert LARGE * down == pytest.approx(down_large_s, rel=3e-3)


@pytest.mark.parametrize(
    ("changes", "near_s", "far_s"),
    [({"fading": "awgn"}, 0.110, 2.72), ({"fading": "nakagami"}, 0.122, 5.21), ({"fading": "truncated"}, 0.141, 10.4)],
)
def test_other_laws_of_fading(changes, near_s, far_s):
    seconds = SMALL * links_at([200, 1000], Cellular(**changes)).up_s_per_bit
    np.testing.assert_allclose(seconds, [near_s, far_s], rtol=5e-3)


@pytest.mark.parametrize(("model", "radius_m"), [("macro", 526), ("uma", 322)])
def test_radius_within_which_an_upload_takes_5_mj(model, radius_m):
    def energy(distance):
        return 0.01 * SMALL * links_at([distance], Cellular(path_loss=model)).up_s_per_bit[0]

    assert energy(radius_m - 1) < 0.005 < energy(radius_m + 1)


def test_noise_figure_rise_and_minimum_distance():
    def snr_db(distance=300.0, **changes):
        return to_db(cl.uplink_snr(distance, 0.01, Cellular(**changes), GROUND))

    assert snr_db(noise_figure_db=5.0) - snr_db() == pytest.approx(-5)
    assert snr_db(noise_rise_db=0.0) - snr_db() == pytest.approx(3)
    assert snr_db(0.0) == snr_db(35.0) == snr_db(20.0)
    assert snr_db(20.0, min_distance_m=10.0) > snr_db(35.0)
    assert snr_db(subcarrier_bandwidth_hz=2e6) - snr_db() == pytest.approx(-10 * math.log10(2))


@pytest.mark.parametrize("decibels", [10.0, 15.0, 20.0])
def test_a_given_snr_replaces_the_geometry_both_ways(decibels):
    link = Cellular(snr_db=decibels)
    snr = cl.uplink_snr([10, 5000], [0.01, 1.0], link, GROUND)
    np.testing.assert_allclose(to_db(snr), decibels)
    np.testing.assert_allclose(to_db(cl.downlink_snr([10, 5000], link, GROUND)), decibels)
    expected = 1 / (1e6 * ergodic_efficiency(10 ** (decibels / 10)))
    np.testing.assert_allclose(links_at([10, 5000], link).up_s_per_bit, expected)


@given(
    st.sampled_from(["macro", "uma", "umi"]),
    st.sampled_from(["ergodic", "truncated", "nakagami", "awgn"]),
    st.floats(0, 3000),
    st.floats(0, 3000),
)
def test_further_is_never_faster(model, law, distance, step):
    link = Cellular(path_loss=model, fading=law)
    near, far = links_at([distance, distance + step], link).up_s_per_bit
    assert 0 < near <= far * (1 + 1e-9)
    assert np.isfinite(far)


def test_measured_rates_replace_the_model():
    layout = layout_from_positions([[0.0, 0.0], [900.0, 0.0]], GROUND, [[0.0, 0.0]])
    measured = cl.cellular_links(
        layout, 0.01, Cellular(), GROUND, up_rate_bps=np.array([1e6, 2e6]), down_rate_bps=np.array([1e7, 4e7])
    )
    assert measured.up_s_per_bit.tolist() == [1e-6, 5e-7]
    assert measured.down_s_per_bit.tolist() == [1e-7, 2.5e-8]
    assert measured.up_snr is None
    half = cl.cellular_links(layout, 0.01, Cellular(), GROUND, down_rate_bps=np.array([1e7, 4e7]))
    np.testing.assert_allclose(half.up_s_per_bit, links_at([0, 900], Cellular()).up_s_per_bit)
    assert measured.of([1]).down_s_per_bit.tolist() == [2.5e-8]
