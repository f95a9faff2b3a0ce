"""Test path loss against constants of the ns-3 test suites (5 GHz) and values computed from the 3GPP tables."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcast.network import propagation as p
from fedcast.network.propagation import from_db, noise_power_w, to_db

# d2D, f GHz, P_LoS, d3D, d_BP, PL_LoS, PL_NLoS, PL_NLoS optional; h_BS = 10 m, h_UT = 1.5 m.
UMI_VECTORS = [
    (10, 28, 1.0, 13.1244, 1680, 84.8228, 92.6927, 97.0099),
    (18, 28, 1.0, 19.9060, 1680, 88.6218, 99.0786, 102.7808),
    (25, 28, 0.859819, 26.4055, 1680, 91.1987, 103.4103, 106.6952),
    (50, 28, 0.519585, 50.7174, 1680, 97.1514, 113.4165, 115.7377),
    (100, 28, 0.230985, 100.3606, 1680, 103.3760, 123.8796, 125.1930),
    (200, 28, 0.093518, 200.1805, 1680, 109.6730, 134.4647, 134.7585),
    (500, 28, 0.036001, 500.0722, 1680, 118.0228, 148.5003, 147.4423),
    (1000, 28, 0.018000, 1000.0361, 1680, 124.3435, 159.1250, 157.0437),
    (2000, 28, 0.009000, 2000.0181, 1680, 132.1035, 169.7510, 166.6461),
    (100, 3.5, 0.230985, 100.3606, 210, 85.3142, 104.6438, 107.1312),
    (500, 3.5, 0.036001, 500.0722, 210, 107.1138, 129.2645, 129.3805),
    (1000, 3.5, 0.018000, 1000.0361, 210, 119.1531, 139.8892, 138.9819),
    (200, 2, 0.093518, 200.1805, 120, 90.9524, 110.0521, 111.8360),
]


@pytest.mark.parametrize("vector", UMI_VECTORS, ids=lambda v: f"{v[0]}m-{v[1]}GHz")
def test_umi(vector):
    distance, carrier_ghz, los, distance_3d, turn, in_sight, hidden, optional = vector
    carrier = carrier_ghz * 1e9
    d3 = p.distance_3d_m(distance, 10.0, 1.5)
    assert d3 == pytest.approx(distance_3d, abs=5e-5)
    assert p.los_probability(p.UMI, distance, 1.5) == pytest.approx(los, abs=5e-7)
    assert p.breakpoint_m(carrier, 10.0, 1.5) == pytest.approx(turn, abs=1e-9)
    assert p.los_loss_db(p.UMI, distance, carrier, 10.0, 1.5) == pytest.approx(in_sight, abs=6e-5)
    assert p.nlos_loss_db(p.UMI, distance, carrier, 10.0, 1.5) == pytest.approx(hidden, abs=6e-5)
    assert p.optional_nlos_loss_db(p.UMI, d3, carrier) == pytest.approx(optional, abs=6e-5)


@pytest.mark.parametrize(
    ("scenario", "base_height_m", "in_sight", "hidden"),
    [
        (p.UMI, 10.0, [69.8591, 88.4122, 119.3114, 147.2696], [76.7563, 107.9432, 143.1886, 167.8617]),
        (p.UMA, 25.0, [72.938, 86.2362, 109.7252, 137.6794], [82.5131, 106.1356, 144.7641, 172.0753]),
    ],
)
def test_the_constants_of_the_ns3_suite(scenario, base_height_m, in_sight, hidden):
    distance = [10, 100, 1000, 5000]
    np.testing.assert_allclose(p.los_loss_db(scenario, distance, 5e9, base_height_m, 1.5), in_sight, atol=1e-4)
    np.testing.assert_allclose(p.nlos_loss_db(scenario, distance, 5e9, base_height_m, 1.5), hidden, atol=1e-4)


@pytest.mark.parametrize(
    ("distance", "carrier_ghz", "los", "in_sight", "hidden"),
    [
        (200, 2, 0.128048, 84.7088, 109.6012),
        (1000, 2, 0.018, 108.9117, 136.8053),
        (200, 3.5, 0.128048, 89.5695, 114.4620),
        (1000, 3.5, 0.018, 109.4119, 141.6660),
        (500, 28, 0.036345, 116.3310, 147.9776),
    ],
)
def test_uma(distance, carrier_ghz, los, in_sight, hidden):
    carrier = carrier_ghz * 1e9
    assert p.los_probability(p.UMA, distance, 1.5) == pytest.approx(los, abs=5e-7)
    assert p.los_loss_db(p.UMA, distance, carrier, 25.0, 1.5) == pytest.approx(in_sight, abs=6e-5)
    assert p.nlos_loss_db(p.UMA, distance, carrier, 25.0, 1.5) == pytest.approx(hidden, abs=6e-5)


def test_uma_sees_tall_users_more_often():
    assert p.los_probability(p.UMA, 300, 20.0) == pytest.approx(0.250037, abs=5e-7)
    assert p.los_probability(p.UMA, 10, 20.0) == 1
    assert p.breakpoint_m(2e9, 25.0, 1.5) == pytest.approx(320)


def test_macro():
    expected = [79.1813, 90.5, 101.8187, 116.7813, 128.1]
    np.testing.assert_allclose(p.macro_loss_db([50, 100, 200, 500, 1000]), expected, atol=5e-5)


def test_v2x_urban():
    distance = [10, 100, 500]
    np.testing.assert_allclose(p.v2x_urban_los_loss_db(distance, 28e9), [81.8083, 98.5083, 110.1811], atol=5e-5)
    np.testing.assert_allclose(p.v2x_urban_nlos_loss_db(distance, 28e9), [94.2013, 124.2013, 145.1704], atol=5e-5)
    np.testing.assert_allclose(p.v2x_urban_los_probability([1, 50, 100]), [1, 0.593802, 0.335810], atol=5e-7)
    assert p.v2x_urban_los_loss_db(100, 5e9) == pytest.approx(84.8913, abs=5e-5)
    assert p.v2x_urban_nlos_loss_db(100, 5e9) == pytest.approx(110.0605, abs=5e-5)


def test_single_slope_is_the_papers_coefficient():
    one_metre = from_db(p.single_slope_loss_db(1.0, 28e9, 32.4, 2.1))
    assert one_metre == pytest.approx(1.362436e6, rel=5e-7)
    assert one_metre * from_db(20) == pytest.approx(1.362436e8, rel=5e-7)
    assert one_metre * from_db(15) == pytest.approx(4.308400e7, rel=5e-7)
    assert from_db(p.nlos_row_db(p.UMI, 1.0, 28e9, 1.5)) == pytest.approx(2.101099e5, rel=5e-7)


@given(st.sampled_from([p.UMI, p.UMA]), st.floats(10, 5000), st.floats(0.5e9, 100e9), st.floats(1.5, 13))
def test_hidden_is_never_better_than_in_sight(scenario, distance, carrier, height):
    in_sight = p.los_loss_db(scenario, distance, carrier, 25.0, height)
    assert p.nlos_loss_db(scenario, distance, carrier, 25.0, height) >= in_sight


@given(st.sampled_from([p.UMI, p.UMA]), st.floats(1, 1e4), st.floats(1.0001, 3), st.floats(1.5, 13))
def test_line_of_sight_is_lost_with_distance(scenario, distance, factor, height):
    near, far = p.los_probability(scenario, np.array([distance, distance * factor]), height)
    assert 0 < far <= near <= 1


@pytest.mark.parametrize(("bandwidth", "watts"), [(1e6, 3.981e-15), (20e6, 7.962e-14), (1e9, 3.981e-12)])
def test_noise(bandwidth, watts):
    assert noise_power_w(bandwidth, -174.0) == pytest.approx(watts, rel=2e-4)
    # A rise of 3 dB is interference of 0.995 times the noise, not 2 W.
    assert noise_power_w(bandwidth, -174.0, 0.0, 3.0) / noise_power_w(bandwidth, -174.0) == pytest.approx(
        1.995, abs=5e-4
    )


@given(st.floats(-300, 300))
def test_decibels_go_both_ways(decibels):
    assert to_db(from_db(decibels)) == pytest.approx(decibels, abs=1e-9)
