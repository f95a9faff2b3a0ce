"""Rate and closeness of candidate pairs: the exact functions, and tables that replace them in large graphs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcast.network.graph import Links
from fedcast.network.sidelink import drawn_for_each_pair, pair_rate_bps, rate_bps, reach_m
from fedcast.network.trust import closeness_of_draws, communities_of, greatest_distance_m
from fedcast.typing import Floats, Ints

if TYPE_CHECKING:
    from fedcast.network.geometry import Layout
    from fedcast.scenario import Geometry, Sidelink, Trust

Function = Callable[[Floats], Floats]

# Wider than any rounding of reach and distances; pairs within it are decided by their exact rate.
_ROUNDING = 1e-9

_TERMS = 8
_CHECKS = 17
# So far below the spacing of float32 (6e-8) that a rounded value differs once in 30,000 times, by one step.
_TOLERANCE = 1e-12
# Smaller values, one in 2**14 of values spread evenly, are computed by the function itself.
_OCTAVES = 14


@dataclass(frozen=True)
class NetworkInputs:
    """Everything that determines the graph."""

    layout: Layout
    sidelink: Sidelink
    trust: Trust
    geometry: Geometry
    seed: int

    @property
    def num_users(self) -> int:
        """Number of users K."""
        return len(self.layout.positions_m)

    def radius_m(self) -> float:
        """Return the smallest of the reach of the radio, the reach of trust, and the extent of the layout, m."""
        extent = float(np.hypot(*(np.ptp(coordinate) for coordinate in self.layout.positions_m.T)))
        reach = reach_m(self.sidelink, self.geometry)
        return min(reach, greatest_distance_m(self.trust), extent) * (1 + _ROUNDING)

    def rates_between(self, first: Ints, second: Ints) -> Floats:
        """Return the sidelink rate of each pair of users, bit/s, float64[N]."""
        positions, keys = self.layout.positions_m, self.layout.hash_keys
        distance_m = np.hypot(*(positions[second] - positions[first]).T)
        return pair_rate_bps(distance_m, keys[first], keys[second], self.sidelink, self.geometry, self.seed)

    def communities(self, users: Ints) -> Ints:
        """Return the community of each user, int64[N]; all 0 if the trust generator has no communities."""
        if self.trust.generator != "community":
            return np.zeros(len(users), dtype=np.int64)
        return communities_of(self.layout.hash_keys[users], self.trust, self.seed)


class Pairs(NamedTuple):
    """Candidate pairs: int32[N] ids of both users, float64[N] squared distance in m², float64[N] uniform draw."""

    first: NDArray[np.int32]
    second: NDArray[np.int32]
    squared_m2: Floats
    draws: Floats

    def at(self, indices: Ints) -> Pairs:
        """Return the pairs at the given indices."""
        return Pairs(self.first[indices], self.second[indices], self.squared_m2[indices], self.draws[indices])


PairFunction = Callable[[Pairs], Floats]


PairFunctions = tuple[PairFunction, PairFunction]  # rate in bit/s and closeness


def links_of_pairs(pairs: Pairs, functions: PairFunctions, inputs: NetworkInputs) -> Links:
    """Return the pairs that meet both thresholds as links."""
    rates, closeness = (function(pairs) for function in functions)
    kept = (rates >= inputs.sidelink.min_rate_bps) & (closeness >= inputs.trust.min_closeness)
    links = Links(pairs.first, pairs.second, rates.astype(np.float32), closeness.astype(np.float32))
    return links if kept.all() else links.where(kept)


def exact_functions(inputs: NetworkInputs) -> PairFunctions:
    """Return rate and closeness as the sidelink and trust models define them."""
    sidelink, geometry, trust = inputs.sidelink, inputs.geometry, inputs.trust
    communities, keys = inputs.communities(np.arange(inputs.num_users)), inputs.layout.hash_keys

    def rate_of_length(pairs: Pairs) -> Floats:
        return rate_bps(np.sqrt(pairs.squared_m2), sidelink, geometry)

    def rate_of_pair(pairs: Pairs) -> Floats:
        distance_m = np.sqrt(pairs.squared_m2)
        return pair_rate_bps(distance_m, keys[pairs.first], keys[pairs.second], sidelink, geometry, inputs.seed)

    def closeness(pairs: Pairs) -> Floats:
        together = communities[pairs.first] == communities[pairs.second] if trust.generator == "community" else True
        distance_m = np.sqrt(pairs.squared_m2) if trust.generator == "distance" else None
        return closeness_of_draws(pairs.draws, trust, together, distance_m)

    return rate_of_pair if drawn_for_each_pair(sidelink) else rate_of_length, closeness


def tabulated_functions(inputs: NetworkInputs, radius_m: float) -> PairFunctions:
    """Return the same functions, tabulated where that is faster.

    Near a threshold the exact function decides, so that the graph has the same links either way.
    """
    rate, closeness = exact_functions(inputs)
    if not drawn_for_each_pair(inputs.sidelink) and radius_m > 0:
        table = tabulate(lambda squared: rate_bps(np.sqrt(squared), inputs.sidelink, inputs.geometry), radius_m**2)
        rate = _exact_near(inputs.sidelink.min_rate_bps, lambda pairs: table(pairs.squared_m2), rate)
    if inputs.trust.generator in ("community", "contact"):
        closeness = _exact_near(inputs.trust.min_closeness, _tabulated_closeness(inputs), closeness)
    return rate, closeness


def _tabulated_closeness(inputs: NetworkInputs) -> PairFunction:
    """Tabulate closeness by 1 - draw: the table is coarse near 1, and draws near 0 seldom meet a threshold."""
    trust, communities = inputs.trust, inputs.communities(np.arange(inputs.num_users))
    inside = tabulate(lambda rest: closeness_of_draws(1 - rest, trust, True), 1.0)
    across = tabulate(lambda rest: closeness_of_draws(1 - rest, trust, False), 1.0)
    if trust.generator != "community":
        return lambda pairs: inside(1 - pairs.draws)

    def closeness(pairs: Pairs) -> Floats:
        together = communities[pairs.first] == communities[pairs.second]
        result = np.empty(len(pairs.draws))
        for table, chosen in ((inside, together), (across, ~together)):
            result[chosen] = table(1 - pairs.draws[chosen])
        return result

    return closeness


def _exact_near(threshold: float, fast: PairFunction, exact: PairFunction) -> PairFunction:
    """Return the fast function, with the exact one where the threshold is within rounding."""

    def function(pairs: Pairs) -> Floats:
        values = fast(pairs)
        near = np.flatnonzero(np.abs(values - threshold) <= _ROUNDING * threshold)
        if len(near):
            values[near] = exact(pairs.at(near))
        return values

    return function


@dataclass(frozen=True)
class Lookup:
    """Piecewise polynomials of degree 7 on intervals of 1/16 octave; see `tabulate`."""

    function: Function
    lowest: int
    centres: Floats
    scales: Floats
    coefficients: Floats

    def __call__(self, values: Floats) -> Floats:
        """Return the function at the values, float64[N]."""
        from fedcast._fast import graph_kernels as kernels

        result = kernels.look_up(values, self.lowest, self.centres, self.scales, self.coefficients)
        missing = np.flatnonzero(np.isnan(result))
        if len(missing):
            result[missing] = self.function(values[missing])
        return result


def tabulate(function: Function, highest: float) -> Lookup:
    """Return a table of a positive function on (0, highest].

    The width of the intervals grows with the value, which suits functions of distance. Below the table, and where a
    polynomial is not exact to 1e-12 (near a kink), the function itself is evaluated.

    Example:
        >>> table = tabulate(lambda squared: squared**-1.05, highest=400.0)
        >>> values = np.array([0.001, 1.0, 399.0])
        >>> bool(np.allclose(table(values), values**-1.05, rtol=1e-11))
        True
    """
    from fedcast._fast.graph_kernels import INTERVAL_SHIFT

    last = int(np.float64(highest).view(np.int64)) >> INTERVAL_SHIFT
    lowest = last - 16 * _OCTAVES
    edges = (np.arange(lowest, last + 2) << INTERVAL_SHIFT).view(np.float64)
    centres, halves = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    nodes = np.cos(np.pi * (np.arange(_TERMS) + 0.5) / _TERMS)
    coefficients = np.linalg.solve(np.vander(nodes, increasing=True), _sampled(function, centres, halves, nodes).T).T
    checks = np.linspace(-1, 1 - 1e-9, _CHECKS)
    exact = _sampled(function, centres, halves, checks)
    error = np.abs(coefficients @ np.vander(checks, _TERMS, increasing=True).T - exact)
    coefficients[(error > _TOLERANCE * np.abs(exact)).any(axis=1)] = np.nan
    return Lookup(function, lowest, centres, 1 / halves, np.ascontiguousarray(coefficients))


def _sampled(function: Function, centres: Floats, halves: Floats, places: Floats) -> Floats:
    points = centres[:, None] + halves[:, None] * places
    return function(points.reshape(-1)).reshape(points.shape)
