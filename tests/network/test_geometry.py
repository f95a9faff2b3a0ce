import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.spatial.distance import pdist

from fedcast.errors import DataError
from fedcast.network.geometry import Layout, disc_radius_m, layout_from_positions, place_users
from fedcast.scenario import Geometry


def test_users_are_uniform_in_the_disc():
    layout = place_users(20_000, Geometry(layout="cell"), seed=1)
    x, y = (layout.positions_m / 1000).T
    assert stats.kstest(x**2 + y**2, "uniform").pvalue > 1e-3
    assert stats.kstest(np.arctan2(y, x), "uniform", args=(-np.pi, 2 * np.pi)).pvalue > 1e-3


@pytest.mark.parametrize(("distance_m", "share"), [(877, 0.489), (254, 0.058), (182, 0.031), (343, 0.10)])
def test_share_of_pairs_within_a_distance(distance_m, share):
    """Shares of pairs in a disc of 1 km that another hand has computed."""
    distances = pdist(place_users(2000, Geometry(layout="cell"), seed=2).positions_m)
    assert (distances < distance_m).mean() == pytest.approx(share, rel=0.03)


@given(st.integers(0, 2**40), st.integers(1, 400), st.integers(1, 400))
@settings(max_examples=25)
def test_a_users_place_in_the_unit_disc_does_not_depend_on_others(seed, few, more):
    geometry = Geometry(users_per_cell=50)
    units = [place_users(n, geometry, seed).positions_m / disc_radius_m(n, geometry) for n in (few, few + more)]
    np.testing.assert_allclose(units[0], units[1][:few], rtol=0, atol=1e-12)


def test_seeds_differ():
    assert not np.allclose(*(place_users(5, Geometry(), seed).positions_m for seed in (0, 1)))


@pytest.mark.parametrize("layout", ["auto", "cell"])
def test_one_cell_has_its_station_in_the_middle(layout):
    users = place_users(100, Geometry(layout=layout), seed=0)
    assert users.base_stations_m.tolist() == [[0.0, 0.0]]
    assert (users.cell_of == 0).all()
    np.testing.assert_allclose(users.cell_distance_m(), np.linalg.norm(users.positions_m, axis=1))


def test_density_is_kept_and_cells_cover_the_area():
    geometry = Geometry(cell_radius_m=500.0, users_per_cell=40)
    layout = place_users(10_000, geometry, seed=3)
    assert np.linalg.norm(layout.positions_m, axis=1).max() == pytest.approx(500 * np.sqrt(10_000 / 40), rel=0.01)
    assert layout.cell_distance_m().max() <= 500
    gaps = np.linalg.norm(layout.base_stations_m[:, None] - layout.base_stations_m[None], axis=2)
    gaps[gaps == 0] = np.inf
    np.testing.assert_allclose(gaps.min(axis=1), np.sqrt(3) * 500)  # six neighbours at one distance: hexagons
    inner = np.linalg.norm(layout.base_stations_m, axis=1) < 6000
    assert (np.isclose(gaps[inner], np.sqrt(3) * 500).sum(axis=1) == 6).all()


def test_everybody_is_served_by_the_nearest_station_and_no_station_is_idle():
    layout = place_users(1500, Geometry(), seed=4)
    distances = np.linalg.norm(layout.positions_m[:, None] - layout.base_stations_m[None], axis=2)
    np.testing.assert_allclose(layout.cell_distance_m(), distances.min(axis=1))
    assert set(layout.cell_of) == set(range(len(layout.base_stations_m)))


@given(st.floats(1000.5, 40_000), st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_no_point_of_the_area_is_further_than_a_cell_radius(extent_m, seed):
    rng = np.random.default_rng(seed)
    radius, angle = extent_m * np.sqrt(rng.random(300)), 2 * np.pi * rng.random(300)
    positions = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    positions[:4] = extent_m * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])
    assert layout_from_positions(positions, Geometry()).cell_distance_m().max() <= 1000 * (1 + 1e-12)


def write(path, columns, rows):
    path.write_text("\n".join([columns, *(",".join(repr(value) for value in row) for row in rows)]))
    return str(path)


def test_positions_written_and_read_back_give_the_same_layout(tmp_path):
    for count in (60, 900):
        drawn = place_users(count, Geometry(), seed=5)
        rows = [(user, *place) for user, place in enumerate(drawn.positions_m.tolist())]
        users = write(tmp_path / "users.csv", "user,x_m,y_m", rows[::-1])
        stations = write(tmp_path / "stations.csv", "x_m,y_m", drawn.base_stations_m.tolist())
        read = place_users(count, Geometry(positions_file=users, base_stations_file=stations), seed=99)
        for name in ("positions_m", "base_stations_m", "cell_of"):
            np.testing.assert_array_equal(getattr(read, name), getattr(drawn, name))
        assert (read.drawn, read.stations_given) == (False, True)
        assert (drawn.drawn, drawn.stations_given) == (True, False)


@given(st.integers(-(2**20), 2**20), st.integers(-(2**20), 2**20), st.sampled_from([500, 4000]), st.integers(0, 99))
@settings(max_examples=25)
def test_a_shift_of_all_coordinates_changes_no_distance(east_m, north_m, extent_m, seed):
    """Coordinates are whole eighths of a metre, so that sums are exact."""
    places = np.random.default_rng(seed).integers(-8 * extent_m, 8 * extent_m, (50, 2)) / 8
    layouts = [layout_from_positions(places + shift, Geometry()) for shift in ([0, 0], [east_m, north_m])]
    np.testing.assert_allclose(*(layout.cell_distance_m() for layout in layouts), rtol=1e-9, atol=1e-6)
    np.testing.assert_array_equal(*(layout.cell_of for layout in layouts))


def test_one_gateway_for_each_site(tmp_path):
    """The table of positions itself as base stations: nobody is further than its own."""
    sites = write(tmp_path / "sites.csv", "user,x_m,y_m", [(0, 0.0, 0.0), (1, 5000.0, 0.0), (2, 5000.0, 90.0)])
    layout = place_users(3, Geometry(positions_file=sites, base_stations_file=sites), seed=0)
    assert layout.cell_distance_m().tolist() == [0.0, 0.0, 0.0]
    assert sorted(layout.cell_of) == [0, 1, 2]


def test_base_stations_need_positions(tmp_path):
    stations = write(tmp_path / "stations.csv", "x_m,y_m", [(0.0, 0.0)])
    with pytest.raises(DataError, match=r"base_stations_file: positions of users are not given"):
        place_users(3, Geometry(base_stations_file=stations), seed=0)


def test_places_far_from_the_origin_have_their_station_in_their_middle():
    layout = layout_from_positions([[6e5, 5e6], [6e5 + 800, 5e6 + 600]], Geometry())
    assert layout.base_stations_m.tolist() == [[600400.0, 5000300.0]]
    assert layout.cell_distance_m().tolist() == [500.0, 500.0]


def test_coordinates_are_relative_to_nothing_but_a_given_station():
    places = [[200.0, 0.0], [1000.0, 0.0]]
    assert layout_from_positions(places, Geometry()).cell_distance_m().tolist() == [400.0, 400.0]
    stations = [[9000.0, 0.0], [0.0, 0.0]]
    layout = layout_from_positions(places, Geometry(), stations)
    assert layout.cell_distance_m().tolist() == [200.0, 1000.0]
    assert layout.base_stations_m.tolist() == [[0.0, 0.0]], "idle stations are left out"


def test_a_cell_stays_one_cell_if_told_so():
    layout = layout_from_positions([[-5000.0, 0.0], [5000.0, 0.0]], Geometry(layout="cell"))
    assert len(layout.base_stations_m) == 1
    assert len(layout_from_positions([[-5000.0, 0.0], [5000.0, 0.0]], Geometry()).base_stations_m) == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("user,x_m,y_m\n0,1,2\n1,nan,2\n", r"positions.csv, line 3, column x_m: .*nan"),
        ("user,x_m,y_m\n0,1,2\n0,3,4\n", r"line 3.*user 0"),
        ("user,x_m,y_m\n0,1,2\n7,3,4\n", r"line 3.*user 7 does not exist"),
        ("user,x_m,y_m\n0,1,2\n", r"missing row for user 1"),
        ("user,x_m\n0,1\n1,2\n", r"missing column 'y_m'"),
    ],
)
def test_bad_files_name_file_line_and_reason(tmp_path, text, reason):
    file = tmp_path / "positions.csv"
    file.write_text(text)
    with pytest.raises(DataError, match=reason):
        place_users(2, Geometry(positions_file=str(file)), seed=0)


@pytest.mark.parametrize("wrong", [[1.0, 2.0], [[1.0, 2.0, 3.0]], np.empty((0, 2)), [[np.nan, 0.0]]])
def test_bad_positions_are_refused(wrong):
    with pytest.raises(DataError, match="position"):
        layout_from_positions(wrong, Geometry())


def test_a_layout_cannot_be_changed():
    layout = place_users(3, Geometry(), seed=0)
    assert isinstance(layout, Layout)
    with pytest.raises(AttributeError):
        layout.cell_of = np.zeros(3)


@pytest.mark.parametrize("place", [1e10, -1e300, np.inf])
def test_a_place_beyond_the_earth_is_refused(place):
    with pytest.raises(DataError, match=r"position .* of user 1: expected coordinates within 1e\+09 m"):
        layout_from_positions([[0.0, 0.0], [0.0, place]], Geometry())


def test_one_place_far_off_is_not_covered_by_millions_of_cells():
    places = [[0.0, 0.0], [3e6, 0.0]]
    with pytest.raises(DataError, match=r"1.5e\+06 m from their centre, too far to be covered by cells .* = 1000;"):
        layout_from_positions(places, Geometry())
    assert len(layout_from_positions(places, Geometry(layout="cell")).base_stations_m) == 1
    assert len(layout_from_positions(places, Geometry(cell_radius_m=5e3)).base_stations_m) == 2
