"""Where users and base stations stand."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from fedcast.errors import DataError
from fedcast.io import Column, read_user_table
from fedcast.random import U64, name_words, user_uniform
from fedcast.scenario.sections import Geometry
from fedcast.typing import Floats, Ints, Names

# Further than any two users on earth: a slip of units, and hopeless for the radio.
_FURTHEST_M = 1e9
_MOST_CELL_RADII = 1000


@dataclass(frozen=True)
class Layout:
    """Places on the ground, in metres.

    Attributes:
        positions_m: float64[K, 2], of the users.
        base_stations_m: float64[C, 2], of the base stations; each serves somebody.
        cell_of: int64[K], the base station of each user.
        names: str[K], of the users, where a table gives them names.
    """

    positions_m: Floats
    base_stations_m: Floats
    cell_of: Ints
    names: Names | None = None

    @property
    def num_users(self) -> int:
        """Users K."""
        return len(self.positions_m)

    @cached_property
    def words(self) -> U64:
        """What draws of a user are a function of, uint64[K]: its name, or without names its id."""
        return drawn_by(self.num_users, self.names)

    def cell_distance_m(self) -> Floats:
        """Distance on the ground of each user from its base station, float64[K]."""
        offsets = self.positions_m - self.base_stations_m[self.cell_of]
        distance: Floats = np.hypot(offsets[:, 0], offsets[:, 1])
        return distance


def place_users(num_users: int, geometry: Geometry, seed: int, names: Names | None = None) -> Layout:
    r"""Users drawn uniformly in a disc, or as `positions_file` says, and the base stations that serve them.

    The disc has the radius R of a cell, or :math:`R \sqrt{K / \text{users\_per\_cell}}` where the layout keeps the
    density. A user's place in the unit disc is a function of (seed, user) alone, a user being its name if it has one.

    Args:
        num_users: users K.
        geometry: layout, radius and density of cells, or a file.
        seed: seed of the scenario.
        names: of the users, if they have names.

    Example:
        >>> layout = place_users(100, Geometry(), seed=0)
        >>> layout.positions_m.shape, len(layout.base_stations_m), bool(layout.cell_distance_m().max() < 1000)
        ((100, 2), 1, True)
    """
    if geometry.positions_file is not None:
        given = read_positions(geometry.positions_file, num_users, names)
        return replace(layout_from_positions(given, geometry), names=names)
    users = drawn_by(num_users, names)
    radius = disc_radius_m(num_users, geometry)
    from_centre = radius * np.sqrt(user_uniform(seed, "place radius", users))
    angle = 2 * np.pi * user_uniform(seed, "place angle", users)
    positions = np.column_stack([from_centre * np.cos(angle), from_centre * np.sin(angle)])
    return replace(_served(positions, np.zeros(2), radius, geometry), names=names)


def drawn_by(num_users: int, names: Names | None) -> U64:
    """What draws of each user are a function of, uint64[K]."""
    return np.arange(num_users, dtype=np.uint64) if names is None else name_words(names.tolist())


def disc_radius_m(num_users: int, geometry: Geometry) -> float:
    """Radius of the disc in which so many users are drawn.

    Example:
        >>> disc_radius_m(50, Geometry()), disc_radius_m(400, Geometry()), disc_radius_m(400, Geometry(layout="cell"))
        (1000.0, 2000.0, 1000.0)
    """
    keeps_density = geometry.layout == "density" or (geometry.layout == "auto" and num_users > geometry.users_per_cell)
    return geometry.cell_radius_m * (math.sqrt(num_users / geometry.users_per_cell) if keeps_density else 1.0)


def layout_from_positions(positions_m: ArrayLike, geometry: Geometry) -> Layout:
    """Users at given places, and the base stations that serve them.

    One base station stands in the middle if everybody is within a cell radius of it or the layout is ``cell``, else a
    grid of hexagonal cells covers the area. The middle is the origin of the coordinates if that lies among the users
    (in their bounding box) or within a cell radius of all of them, else the middle of their bounding box.

    Args:
        positions_m: [K, 2], places of the users.
        geometry: layout and radius of cells.

    Example:
        >>> layout_from_positions([[5000.0, 0.0], [5200.0, 100.0]], Geometry()).base_stations_m.tolist()
        [[5100.0, 50.0]]
    """
    positions = np.asarray(positions_m, dtype=np.float64)
    if positions.ndim != 2 or positions.shape[1] != 2 or len(positions) == 0:
        raise DataError(f"positions must be a table of users by two coordinates, got shape {positions.shape}")
    if len(lost := np.argwhere(~(np.abs(positions) <= _FURTHEST_M))):
        user = int(lost[0, 0])
        raise DataError(
            f"the position of user {user} is not within {_FURTHEST_M:g} m of the origin: {positions[user].tolist()}"
        )
    low, high = positions.min(axis=0), positions.max(axis=0)
    among_users = bool(((low <= 0) & (high >= 0)).all())
    in_reach = bool(np.hypot(*positions.T).max() <= geometry.cell_radius_m)
    middle = np.zeros(2) if among_users or in_reach else (low + high) / 2
    if geometry.layout == "cell":
        return _served(positions, middle, geometry.cell_radius_m, geometry)
    extent_m = float(np.hypot(*(positions - middle).T).max())
    if extent_m > _MOST_CELL_RADII * geometry.cell_radius_m:
        raise DataError(
            f"users are up to {extent_m:.3g} m from their middle, too far to be covered by cells of "
            f"geometry.cell_radius_m = {geometry.cell_radius_m:g}; raise it, or set geometry.layout = cell"
        )
    return _served(positions, middle, extent_m, geometry)


def _served(positions: Floats, middle: Floats, radius_m: float, geometry: Geometry) -> Layout:
    if radius_m <= geometry.cell_radius_m:
        return Layout(positions, middle[None, :], np.zeros(len(positions), dtype=np.int64))
    from scipy.spatial import cKDTree

    stations = middle + _hexagonal_grid(radius_m, geometry.cell_radius_m)
    nearest = cKDTree(stations).query(positions)[1]
    used, cell_of = np.unique(nearest, return_inverse=True)
    return Layout(positions, stations[used], cell_of.astype(np.int64))


def _hexagonal_grid(radius_m: float, cell_radius_m: float) -> Floats:
    """Centres of the hexagons, one in the origin, such that no point of the disc is further than a cell radius."""
    column_m, row_m = math.sqrt(3) * cell_radius_m, 1.5 * cell_radius_m
    reach_m = radius_m + cell_radius_m
    rows = np.arange(-math.ceil(reach_m / row_m), math.ceil(reach_m / row_m) + 1)
    columns = np.arange(-math.ceil(reach_m / column_m) - 1, math.ceil(reach_m / column_m) + 1)
    column, row = np.meshgrid(columns, rows)
    centres = np.stack([column_m * (column + 0.5 * (row % 2)), row_m * row], axis=-1).reshape(-1, 2)
    covering: Floats = centres[np.hypot(centres[:, 0], centres[:, 1]) <= reach_m]
    return covering


def read_positions(path: str, num_users: int, names: Names | None = None) -> Floats:
    """Places from a table with columns user, x_m and y_m, one row for each user; float64[K, 2]."""
    coordinates = [Column(name, "float", minimum=-_FURTHEST_M, maximum=_FURTHEST_M) for name in ("x_m", "y_m")]
    table = read_user_table(path, coordinates, num_users, names)
    return np.column_stack([table["x_m"], table["y_m"]])
