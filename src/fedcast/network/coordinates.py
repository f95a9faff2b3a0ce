r"""Tables of places on the ground, in metres or as longitude and latitude, which are projected to a plane.

Longitude and latitude (WGS 84, degrees) become east and north on a plane that touches the ellipsoid in the middle of
the users, with distances from the middle kept (an azimuthal equidistant projection). Between two places at most d from
the middle, a distance on the plane differs from that on the ellipsoid by a share of at most about
:math:`(d / R)^2 / 6`: 0.004 % for d = 100 km, 0.4 % for 1,000 km, beyond which places are refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedcast.errors import DataError
from fedcast.io import Column, column_names, read_table, read_user_table
from fedcast.typing import Floats, Names

# Larger than any distance on earth: a larger coordinate is a mistake in its unit.
FURTHEST_M = 1e9
_METRES = ("x_m", "y_m")
_DEGREES = (("longitude", "latitude"), ("longitude_deg", "latitude_deg"), ("lon", "lat"))
_FURTHEST_FROM_MIDDLE_M = 1e6

# WGS 84: equatorial radius in m, and squared eccentricity.
_RADIUS_M, _E2 = 6378137.0, 6.69437999014e-3


class Places(NamedTuple):
    """Places of a table: float64[N, 2], x and y in m, or longitude and latitude in degrees."""

    path: Path
    values: Floats
    degrees: bool


def read_places(path: str | Path, num_users: int | None = None, names: Names | None = None) -> Places:
    r"""Read the places of users, or without `num_users` of any rows, from a table with x_m,y_m or longitude,latitude.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "stations.csv")
        >>> _ = file.write_text("longitude,latitude\n11.57,48.14\n")
        >>> read_places(file).values.tolist(), read_places(file).degrees
        ([[11.57, 48.14]], True)
    """
    present = set(column_names(path))
    # Metres win. Without any pair the error names the missing column; half of a pair says which one is meant.
    pairs = (_METRES, *_DEGREES)
    found = [pair for pair in pairs if present.issuperset(pair)] or [pair for pair in pairs if present & set(pair)]
    first, second = pair = next(iter(found), _METRES)
    limits = ((-FURTHEST_M, FURTHEST_M),) * 2 if pair == _METRES else ((-180.0, 360.0), (-90.0, 90.0))
    columns = [Column(name, "float", minimum=low, maximum=high) for name, (low, high) in zip(pair, limits, strict=True)]
    table = read_table(path, columns) if num_users is None else read_user_table(path, columns, num_users, names)
    return Places(Path(path), np.column_stack([table[first], table[second]]), pair != _METRES)


def on_one_plane(users: Places, stations: Places | None) -> tuple[Floats, Floats | None]:
    """Return places of users and base stations in m; degrees are projected around the middle of the users."""
    if stations is not None and users.degrees != stations.degrees:
        ways = [("x_m,y_m", "longitude,latitude")[places.degrees] for places in (users, stations)]
        raise DataError(f"{users.path} has {ways[0]}, {stations.path} has {ways[1]}: give both in one way")
    if not users.degrees:
        return users.values, None if stations is None else stations.values
    middle = middle_of(users.values)
    return _projected(users, middle), None if stations is None else _projected(stations, middle)


def _projected(places: Places, middle: Floats) -> Floats:
    plane = to_plane(places.values, middle)
    furthest_m = float(np.hypot(*plane.T).max())
    if furthest_m > _FURTHEST_FROM_MIDDLE_M:
        raise DataError(
            f"{places.path}: a place is {furthest_m / 1e3:,.0f} km from the middle of the users, expected at most "
            f"{_FURTHEST_FROM_MIDDLE_M / 1e3:,.0f} km; are longitude and latitude swapped?"
        )
    return plane


def middle_of(degrees: Floats) -> Floats:
    """Return longitude and latitude of the middle of places float64[N, 2] in degrees, on both sides of 180° too."""
    east, north, up = _axes(degrees)[2].mean(axis=0)
    return np.degrees([np.arctan2(north, east), np.arctan2(up, np.hypot(east, north))])


def to_plane(degrees: Floats, middle: Floats) -> Floats:
    """Return places in degrees, float64[N, 2], as metres east and north of `middle`; see the top of this file.

    Example:
        >>> to_plane(np.array([[11.0, 48.01]]), np.array([11.0, 48.0])).round(1).tolist()
        [[0.0, 1111.9]]
    """
    axes = np.stack([axis[0] for axis in _axes(middle[None, :])])
    east, north, up = axes @ (_from_centre_m(degrees) - _from_centre_m(middle[None, :])).T
    chord = np.hypot(east, north)
    # As on a sphere: the chord and the height below the plane give the angle, and the arc is as long as its distance.
    arc = _RADIUS_M * np.arctan2(chord, _RADIUS_M + up)
    stretch = np.divide(arc, chord, out=np.ones_like(chord), where=chord > 0)
    return np.column_stack([stretch * east, stretch * north])


def _axes(degrees: Floats) -> tuple[Floats, Floats, Floats]:
    """Return unit vectors east, north and up at each place, float64[N, 3] each, in earth-centred coordinates."""
    longitude, latitude = np.radians(degrees).T
    sin_a, cos_a, sin_b, cos_b = np.sin(longitude), np.cos(longitude), np.sin(latitude), np.cos(latitude)
    east = np.column_stack([-sin_a, cos_a, np.zeros_like(longitude)])
    north = np.column_stack([-sin_b * cos_a, -sin_b * sin_a, cos_b])
    return east, north, np.column_stack([cos_b * cos_a, cos_b * sin_a, sin_b])


def _from_centre_m(degrees: Floats) -> Floats:
    """Return earth-centred coordinates of places on the ellipsoid, float64[N, 3]."""
    up, latitude = _axes(degrees)[2], np.radians(degrees[:, 1])
    normal_m = _RADIUS_M / np.sqrt(1 - _E2 * np.sin(latitude) ** 2)
    return np.asarray(normal_m[:, None] * up * np.array([1.0, 1.0, 1 - _E2]))
