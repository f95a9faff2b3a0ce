"""Longitude and latitude on a plane, against Vincenty's inverse formula on the ellipsoid."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcast.errors import DataError
from fedcast.network.coordinates import middle_of, read_places, to_plane
from fedcast.network.geometry import place_users
from fedcast.scenario import Geometry


def vincenty_m(first, second):
    """Length of the geodesic between two (longitude, latitude): T. Vincenty, Survey Review 23 (1975), eq. 13-19."""
    a, f = 6378137.0, 1 / 298.257223563
    b = (1 - f) * a
    reduced = [math.atan((1 - f) * math.tan(math.radians(place[1]))) for place in (first, second)]
    (s1, c1), (s2, c2) = ((math.sin(u), math.cos(u)) for u in reduced)
    apart = spread = math.radians(second[0] - first[0])
    for _ in range(100):
        sin_l, cos_l = math.sin(spread), math.cos(spread)
        sin_sigma = math.hypot(c2 * sin_l, c1 * s2 - s1 * c2 * cos_l)
        if sin_sigma == 0:
            return 0.0
        cos_sigma = s1 * s2 + c1 * c2 * cos_l
        sigma = math.atan2(sin_sigma, cos_sigma)
        sin_alpha = c1 * c2 * sin_l / sin_sigma
        cos2_alpha = 1 - sin_alpha**2
        cos_2m = cos_sigma - 2 * s1 * s2 / cos2_alpha if cos2_alpha else 0.0
        c = f / 16 * cos2_alpha * (4 + f * (4 - 3 * cos2_alpha))
        before = spread
        spread = apart + (1 - c) * f * sin_alpha * (
            sigma + c * sin_sigma * (cos_2m + c * cos_sigma * (2 * cos_2m**2 - 1))
        )
        if abs(spread - before) < 1e-14:
            break
    u2 = cos2_alpha * (a**2 - b**2) / b**2
    big_a = 1 + u2 / 16384 * (4096 + u2 * (-768 + u2 * (320 - 175 * u2)))
    big_b = u2 / 1024 * (256 + u2 * (-128 + u2 * (74 - 47 * u2)))
    delta = big_b * sin_sigma * (
        cos_2m
        + big_b / 4 * (
            cos_sigma * (2 * cos_2m**2 - 1) - big_b / 6 * cos_2m * (4 * sin_sigma**2 - 3) * (4 * cos_2m**2 - 3)
        )
    )  # fmt: skip
    return b * big_a * (sigma - delta)


def test_vincenty_is_right():
    """A degree along the equator, and a quarter of the meridian, 10,001,965.729 m."""
    assert vincenty_m((0, 0), (1, 0)) == pytest.approx(math.pi / 180 * 6378137, abs=1e-3)
    assert vincenty_m((0, 0), (0, 90)) == pytest.approx(10_001_965.729, abs=1e-3)


@given(
    longitude=st.floats(-180, 180),
    latitude=st.floats(-80, 80),
    extent_m=st.sampled_from([1e3, 1e4, 1e5, 8e5]),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=60)
def test_distances_are_those_of_the_ellipsoid(longitude, latitude, extent_m, seed):
    """Between all pairs within d of the middle the relative error is below (d/R)²/6, with 10 % for the ellipsoid."""
    rng = np.random.default_rng(seed)
    north, east = rng.uniform(-extent_m, extent_m, (2, 8)) / 111e3
    places = np.column_stack([longitude + east / np.cos(np.radians(latitude)), latitude + north])
    plane = to_plane(places, middle_of(places))
    furthest_m = np.hypot(*plane.T).max()
    bound = 1.1 * (furthest_m / 6.37e6) ** 2 / 6 + 1e-9
    for first, second in zip(*np.triu_indices(8, 1), strict=True):
        true_m = vincenty_m(places[first], places[second])
        assert abs(math.dist(plane[first], plane[second]) - true_m) <= bound * true_m + 1e-4


@given(st.floats(-180, 180), st.integers(0, 1000))
@settings(max_examples=25)
def test_a_turn_of_the_earth_changes_nothing(degrees, seed):
    """Places on both sides of the 180th meridian are near each other."""
    places = np.random.default_rng(seed).uniform(-0.1, 0.1, (6, 2)) + np.array([10.0, 50.0])
    turned = places + np.array([degrees, 0.0])
    turned[:, 0] = (turned[:, 0] + 180) % 360 - 180
    np.testing.assert_allclose(to_plane(turned, middle_of(turned)), to_plane(places, middle_of(places)), atol=1e-5)


def write(path, text):
    path.write_text(text)
    return str(path)


def test_east_is_right_and_north_is_up(tmp_path):
    sites = write(tmp_path / "sites.csv", "user,longitude,latitude\n0,11.00,48.0\n1,11.02,48.0\n2,11.01,48.01\n")
    layout = place_users(3, Geometry(positions_file=sites), seed=0)
    (west, east, north), (x, y) = layout.positions_m, layout.positions_m.T
    assert east[0] > north[0] > west[0]
    assert north[1] > west[1]
    assert np.ptp(x) == pytest.approx(vincenty_m((11.0, 48.0), (11.02, 48.0)), rel=1e-6)
    assert np.ptp(y) == pytest.approx(vincenty_m((11.01, 48.0), (11.01, 48.01)), abs=0.5)


def test_base_stations_lie_on_the_plane_of_the_users(tmp_path):
    sites = write(tmp_path / "sites.csv", "user,lon,lat\n0,11.0,48.0\n1,11.2,48.0\n")
    stations = write(tmp_path / "stations.csv", "latitude,longitude,operator\n48.02,11.0,a\n48.0,11.21,b\n")
    layout = place_users(2, Geometry(positions_file=sites, base_stations_file=stations), seed=0)
    expected = [vincenty_m((11.0, 48.0), (11.0, 48.02)), vincenty_m((11.2, 48.0), (11.21, 48.0))]
    np.testing.assert_allclose(layout.cell_distance_m(), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("header", "row", "reason"),
    [
        ("longitude,latitude", "11,91", "line 2, column latitude: .*91"),
        ("longitude", "11", "missing column 'latitude'"),
        ("name", "a", "missing column 'x_m'"),
        ("lon,lat", "11,north", "'north' is not a number"),
    ],
)
def test_bad_places_are_errors(tmp_path, header, row, reason):
    with pytest.raises(DataError, match=reason):
        read_places(write(tmp_path / "p.csv", f"{header}\n{row}\n"))


def test_metres_win_over_degrees(tmp_path):
    places = read_places(write(tmp_path / "p.csv", "x_m,y_m,longitude,latitude\n1,2,3,4\n"))
    assert (places.values.tolist(), places.degrees) == ([[1.0, 2.0]], False)


def test_places_too_far_apart_or_in_two_ways_are_errors(tmp_path):
    far = write(tmp_path / "far.csv", "user,longitude,latitude\n0,0,0\n1,40,0\n")
    with pytest.raises(DataError, match=r"far.csv: a place is 2,22\d km from the middle of the users, expected"):
        place_users(2, Geometry(positions_file=far), seed=0)
    near, metres = (
        write(tmp_path / "near.csv", "user,longitude,latitude\n0,0,0\n1,0.1,0\n"),
        write(tmp_path / "metres.csv", "x_m,y_m\n0,0\n"),
    )
    with pytest.raises(DataError, match=r"near.csv has longitude,latitude, .*metres.csv has x_m,y_m: give both in one"):
        place_users(2, Geometry(positions_file=near, base_stations_file=metres), seed=0)
