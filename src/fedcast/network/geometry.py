"""Positions of users and base stations."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from fedcast.errors import DataError
from fedcast.network.coordinates import FURTHEST_M, on_one_plane, read_places
from fedcast.random import U64, name_hash_keys, user_uniform
from fedcast.typing import Floats, Ints, Names

if TYPE_CHECKING:
    from fedcast.scenario import Geometry

_MOST_CELL_RADII = 1000


@dataclass(frozen=True)
class Layout:
    """Positions on the ground, in metres."""

    positions_m: Floats  #: float64[K, 2], of the users
    base_stations_m: Floats  #: float64[C, 2], of the base stations; each serves at least one user
    cell_of: Ints  #: int64[K], the base station of each user
    names: Names | None = None  #: str[K], names of the users, if they have names
    drawn: bool = False  #: whether the positions of users are drawn, not given: maps of them show no real places
    stations_given: bool = False  #: whether the positions of base stations are given, not assumed

    @property
    def num_users(self) -> int:
        """Number of users K."""
        return len(self.positions_m)

    @cached_property
    def hash_keys(self) -> U64:
        """Hash keys that determine the draws of each user, uint64[K]: made of its name, or its id without names."""
        return user_hash_keys(self.num_users, self.names)

    def cell_distance_m(self) -> Floats:
        """Return the distance on the ground of each user from its base station, float64[K]."""
        offsets = self.positions_m - self.base_stations_m[self.cell_of]
        return np.asarray(np.hypot(*offsets.T))


def place_users(num_users: int, geometry: Geometry, seed: int, names: Names | None = None) -> Layout:
    r"""Draw users uniformly in a disc, or read `positions_file`, and place the base stations that serve them.

    The file is a table with the columns user, x_m and y_m (or longitude and latitude), one row per user. Base stations
    are those of `base_stations_file`, a table with the same columns except user, or placed by `layout_from_positions`.

    The disc has the radius R of a cell, or :math:`R \sqrt{K / \text{users\_per\_cell}}` if the layout keeps the
    density. The position of a user in the unit disc is a function of (seed, user) alone; a user is identified by its
    name if it has one.

    Example:
        >>> from fedcast.scenario import Geometry
        >>> layout = place_users(100, Geometry(), seed=0)
        >>> layout.positions_m.shape, len(layout.base_stations_m), bool(layout.cell_distance_m().max() < 1000)
        ((100, 2), 1, True)
    """
    stations = geometry.base_stations_file
    if geometry.positions_file is not None:
        given = read_places(geometry.positions_file, num_users, names)
        places, stations_m = on_one_plane(given, None if stations is None else read_places(stations))
        return replace(layout_from_positions(places, geometry, stations_m), names=names)
    if stations is not None:
        raise DataError(
            f"invalid value {stations!r} for geometry.base_stations_file: positions of users are not given, so that "
            "their distances to base stations are unknown; give geometry.positions_file too"
        )
    users = user_hash_keys(num_users, names)
    radius = disc_radius_m(num_users, geometry)
    from_centre = radius * np.sqrt(user_uniform(seed, "place radius", users))
    angle = 2 * np.pi * user_uniform(seed, "place angle", users)
    positions = np.column_stack([from_centre * np.cos(angle), from_centre * np.sin(angle)])
    return replace(_place_base_stations(positions, np.zeros(2), radius, geometry), names=names, drawn=True)


def user_hash_keys(num_users: int, names: Names | None) -> U64:
    """Return the hash keys that determine the draws of each user, uint64[K]."""
    return np.arange(num_users, dtype=np.uint64) if names is None else name_hash_keys(names.tolist())


def disc_radius_m(num_users: int, geometry: Geometry) -> float:
    """Return the radius of the disc in which users are drawn, m."""
    keeps_density = geometry.layout == "density" or (geometry.layout == "auto" and num_users > geometry.users_per_cell)
    return geometry.cell_radius_m * (math.sqrt(num_users / geometry.users_per_cell) if keeps_density else 1.0)


def layout_from_positions(
    positions_m: ArrayLike, geometry: Geometry, base_stations_m: ArrayLike | None = None
) -> Layout:
    """Return the layout of users at given positions; each is served by the nearest base station.

    Without `base_stations_m`, one base station is placed in the centre of the users' bounding box if all are within a
    cell radius of it or the layout is ``cell``; otherwise a grid of hexagonal cells around it covers the area.

    Example:
        >>> from fedcast.scenario import Geometry
        >>> layout_from_positions([[5000.0, 0.0], [5200.0, 100.0]], Geometry()).base_stations_m.tolist()
        [[5100.0, 50.0]]
        >>> layout_from_positions([[30.0, 40.0]], Geometry(), [[0.0, 0.0]]).cell_distance_m().tolist()
        [50.0]
    """
    positions = _checked(positions_m, "user")
    if base_stations_m is not None:
        stations = _checked(base_stations_m, "base station")
        return replace(_served_by_nearest(positions, stations), stations_given=True)
    centre = (positions.min(axis=0) + positions.max(axis=0)) / 2
    if geometry.layout == "cell":
        return _place_base_stations(positions, centre, geometry.cell_radius_m, geometry)
    extent_m = float(np.hypot(*(positions - centre).T).max())
    if extent_m > _MOST_CELL_RADII * geometry.cell_radius_m:
        raise DataError(
            f"users are up to {extent_m:.3g} m from their centre, too far to be covered by cells of "
            f"geometry.cell_radius_m = {geometry.cell_radius_m:g}; increase it, or set geometry.layout = cell"
        )
    return _place_base_stations(positions, centre, extent_m, geometry)


def _checked(places_m: ArrayLike, whose: str) -> Floats:
    places = np.asarray(places_m, dtype=np.float64)
    if places.ndim != 2 or places.shape[1] != 2 or len(places) == 0:
        raise DataError(f"invalid positions of shape {places.shape}: expected [{whose}s, 2]")
    if len(invalid := np.argwhere(~(np.abs(places) <= FURTHEST_M))):
        place = int(invalid[0, 0])
        wrong, limit = places[place].tolist(), f"expected coordinates within {FURTHEST_M:g} m"
        raise DataError(f"invalid position {wrong} of {whose} {place}: {limit}")
    return places


def _place_base_stations(positions: Floats, centre: Floats, radius_m: float, geometry: Geometry) -> Layout:
    if radius_m <= geometry.cell_radius_m:
        return Layout(positions, centre[None, :], np.zeros(len(positions), dtype=np.int64))
    return _served_by_nearest(positions, centre + _hexagonal_grid(radius_m, geometry.cell_radius_m))


def _served_by_nearest(positions: Floats, stations: Floats) -> Layout:
    """Return the layout of users with the nearest of some base stations each; idle ones are left out."""
    from scipy.spatial import cKDTree

    nearest = cKDTree(stations).query(positions)[1]
    used, cell_of = np.unique(nearest, return_inverse=True)
    return Layout(positions, stations[used], cell_of.astype(np.int64))


def _hexagonal_grid(radius_m: float, cell_radius_m: float) -> Floats:
    """Return centres of hexagonal cells that cover the disc, one of them at the origin."""
    column_m, row_m = math.sqrt(3) * cell_radius_m, 1.5 * cell_radius_m
    reach_m = radius_m + cell_radius_m
    rows = np.arange(-math.ceil(reach_m / row_m), math.ceil(reach_m / row_m) + 1)
    columns = np.arange(-math.ceil(reach_m / column_m) - 1, math.ceil(reach_m / column_m) + 1)
    column, row = np.meshgrid(columns, rows)
    centres = np.stack([column_m * (column + 0.5 * (row % 2)), row_m * row], axis=-1).reshape(-1, 2)
    return centres[np.hypot(centres[:, 0], centres[:, 1]) <= reach_m]
