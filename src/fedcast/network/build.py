"""Build the constrained graph from positions, radio and trust.

In large graphs compiled code finds the candidate pairs, and tables replace the functions for their rate and closeness.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcast.errors import ScenarioError
from fedcast.network.graph import Graph, Links, assemble, graph_from_links
from fedcast.network.sidelink import drawn_for_each_pair, pair_rate_bps, rate_bps, reach_m
from fedcast.network.trust import PURPOSE, closeness_of_draws, communities_of, greatest_distance_m, least_draws
from fedcast.random import pair_uniform, stream_key
from fedcast.typing import Floats, Ints

if TYPE_CHECKING:
    from fedcast._fast.graph_kernels import Users
    from fedcast.network.geometry import Layout
    from fedcast.scenario import Geometry, Sidelink, Trust

# With fewer users a k-d tree finds all pairs in less time than importing numba takes.
COMPILED_FROM_USERS = 5_000

# Pairs evaluated at once: they fit into the second-level cache.
_BLOCK_PAIRS = 1 << 16

# A link is stored once while pairs are evaluated, then in the rows of both users.
_BYTES_PER_LINK = 16 + 2 * 12

# Narrower columns yield fewer pairs that are too far apart, but do not sort faster.
_COLUMNS_PER_RADIUS = 8
_MAX_BINS = 2**16 - 1
_LEAST_BIN_M = 1e-9

# Relative margin on bins and on the radius of the tree, so that rounding excludes no pair.
_SEARCH_MARGIN = 1e-6
# Wider than any rounding of reach and distances; pairs within it are decided by their exact rate.
_ROUNDING = 1e-9


class Pairs(NamedTuple):
    """Candidate pairs: int32[N] ids of both users, float64[N] squared distance in m², float64[N] uniform draw."""

    first: NDArray[np.int32]
    second: NDArray[np.int32]
    squared_m2: Floats
    draws: Floats

    def at(self, chosen: Ints | slice) -> Pairs:
        """Return the pairs at some indices."""
        return Pairs(self.first[chosen], self.second[chosen], self.squared_m2[chosen], self.draws[chosen])


PairFunction = Callable[[Pairs], Floats]


@dataclass(frozen=True)
class NetworkInputs:
    """Everything that determines the graph."""

    layout: Layout
    sidelink: Sidelink
    trust: Trust
    geometry: Geometry
    seed: int

    @cached_property
    def communities(self) -> Ints:
        """Community of each user, int64[K]; all 0 if the trust generator has no communities."""
        if self.trust.generator != "community":
            return np.zeros(self.layout.num_users, dtype=np.int64)
        return communities_of(self.layout.hash_keys, self.trust, self.seed)

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

    def rate(self, pairs: Pairs) -> Floats:
        """Return the sidelink rate of candidate pairs, bit/s, float64[N]."""
        keys = self.layout.hash_keys[pairs.first], self.layout.hash_keys[pairs.second]
        return pair_rate_bps(np.sqrt(pairs.squared_m2), *keys, self.sidelink, self.geometry, self.seed)

    def closeness(self, pairs: Pairs) -> Floats:
        """Return the closeness of candidate pairs, float64[N]."""
        generator, communities = self.trust.generator, self.communities
        together = communities[pairs.first] == communities[pairs.second] if generator == "community" else True
        distance_m = np.sqrt(pairs.squared_m2) if generator == "distance" else None
        return closeness_of_draws(pairs.draws, self.trust, together, distance_m)


def build_graph(layout: Layout, sidelink: Sidelink, trust: Trust, geometry: Geometry, seed: int) -> Graph:
    r"""Return the graph of all pairs with :math:`v_{kj} \ge v_{th}` and :math:`e_{kj} \ge e_{th}`.

    If `trust.links_file` is set, closeness is read from that file, and so are rates if it has them
    (`graph_from_links`). Time and memory grow with the number of users and links, not with the number of pairs.

    Example:
        >>> from fedcast.scenario import Geometry, Sidelink, Trust
        >>> from fedcast.network import place_users
        >>> layout = place_users(100, Geometry(), seed=0)
        >>> graph = build_graph(layout, Sidelink(), Trust(), Geometry(), seed=0)
        >>> graph.num_users, bool(8 < graph.degrees.mean() < 16)
        (100, True)
    """
    network, users = NetworkInputs(layout, sidelink, trust, geometry, seed), layout.num_users
    if trust.links_file is not None:
        return graph_from_links(trust.links_file, users, sidelink, trust, network.rates_between, layout.names)
    radius_m = network.radius_m()
    compiled = users >= COMPILED_FROM_USERS
    if compiled:
        (rate, closeness), candidates = _tabulated_functions(network, radius_m), _pairs_by_sweep(network, radius_m)
    else:
        rate, closeness, candidates = network.rate, network.closeness, _pairs_by_tree(network, radius_m)
    blocks: list[Links] = []
    num_links = 0
    for pairs, users_done in candidates:
        rates, close = rate(pairs), closeness(pairs)
        links = Links(pairs.first, pairs.second, rates.astype(np.float32), close.astype(np.float32))
        kept = (rates >= sidelink.min_rate_bps) & (close >= trust.min_closeness)
        blocks.append(links if kept.all() else links.where(kept))
        num_links += len(blocks[-1].first)
        _check_memory(num_links, users_done / users, users)
    return assemble(blocks, users, compiled=compiled)


def _check_memory(num_links: int, fraction_done: float, num_users: int) -> None:
    """Raise an error once it is clear that the links will not fit into memory."""
    memory, expected = _memory_bytes(), num_links / fraction_done
    enough_seen = memory is not None and num_links * _BYTES_PER_LINK > memory / 4
    if memory is not None and enough_seen and expected * _BYTES_PER_LINK > memory:
        raise ScenarioError(
            f"the graph of {num_users:,} users would have about {expected:.1e} links and need "
            f"{expected * _BYTES_PER_LINK / 2**30:,.0f} GiB of {memory / 2**30:,.0f} GiB memory: keep the density with "
            "geometry.layout = density, or raise sidelink.min_rate_bps or trust.min_closeness"
        )


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _pairs_by_tree(network: NetworkInputs, radius_m: float) -> Iterator[tuple[Pairs, int]]:
    """Yield all pairs within the radius at once, without compiled code, and the number of users done."""
    from scipy.spatial import cKDTree

    positions, keys = network.layout.positions_m, network.layout.hash_keys
    found = cKDTree(positions).query_pairs(radius_m * (1 + _SEARCH_MARGIN), output_type="ndarray")
    first, second = found.astype(np.int32).T
    dx, dy = (positions[second] - positions[first]).T
    squared = dx * dx + dy * dy
    near = squared <= radius_m * radius_m
    first, second = first[near], second[near]
    draws = pair_uniform(network.seed, PURPOSE, keys[first], keys[second])
    yield Pairs(first, second, squared[near], draws), network.layout.num_users


def _pairs_by_sweep(network: NetworkInputs, radius_m: float) -> Iterator[tuple[Pairs, int]]:
    """Yield blocks of pairs within the radius whose draw may meet the threshold, and the number of users done."""
    from fedcast._fast import graph_kernels as kernels

    users, columns_apart = _sort_users(network, radius_m)
    limits = kernels.Limits(radius_m, columns_apart, *least_draws(network.trust))
    populations = np.diff(users.strips, append=users.strips[-1])
    room = max(_BLOCK_PAIRS, int((populations[1:] + populations[:-1]).max()))
    found = Pairs(np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room), np.empty(room))
    done = 0
    while done < network.layout.num_users:
        done, count = kernels.find_pairs(done, users, limits, found)
        pairs = found.at(slice(count))
        yield pairs._replace(first=pairs.first.copy(), second=pairs.second.copy()), done


def _sort_users(network: NetworkInputs, radius_m: float) -> tuple[Users, int]:
    """Sort users by strips and columns, so that neighbours are near in memory; also return the radius in columns."""
    from fedcast._fast import graph_kernels as kernels

    positions = network.layout.positions_m
    strip, _ = _bins(positions[:, 1], radius_m)
    column, width_m = _bins(positions[:, 0], radius_m / _COLUMNS_PER_RADIUS)
    by_column = np.argsort(column, kind="stable")
    order = by_column[np.argsort(strip[by_column], kind="stable")]
    strips = np.concatenate([[0], np.cumsum(np.bincount(strip))])
    x, y = np.ascontiguousarray(positions[order].T)
    ids = order.astype(np.uint64)
    keys = ids if network.layout.names is None else network.layout.hash_keys[order]
    halves = kernels.half_hashes(keys, stream_key(network.seed, PURPOSE))
    users = kernels.Users(x, y, column[order].astype(np.int32), ids, keys, halves, network.communities[order], strips)
    return users, int(radius_m / width_m) + 1


def _bins(values: Floats, least_width: float) -> tuple[NDArray[np.uint16], float]:
    """Return equal bins as uint16, which NumPy sorts in linear time, and their width (at least `least_width`)."""
    lowest = values.min()
    width = max(least_width, float(values.max() - lowest) / _MAX_BINS, _LEAST_BIN_M) * (1 + _SEARCH_MARGIN)
    return ((values - lowest) / width).astype(np.uint16), width


def _tabulated_functions(network: NetworkInputs, radius_m: float) -> tuple[PairFunction, PairFunction]:
    """Return rate and closeness of pairs, tabulated where that is faster.

    Near a threshold the exact function decides, so that the graph has the same links either way.
    """
    from fedcast._fast.graph_kernels import tabulate

    sidelink, trust = network.sidelink, network.trust
    rate: PairFunction = network.rate
    closeness: PairFunction = network.closeness
    if not drawn_for_each_pair(sidelink) and radius_m > 0:
        table = tabulate(lambda squared: rate_bps(np.sqrt(squared), sidelink, network.geometry), radius_m**2)
        rate = _exact_near(sidelink.min_rate_bps, lambda pairs: table(pairs.squared_m2), rate)
    if trust.generator in ("community", "contact"):
        closeness = _exact_near(trust.min_closeness, _tabulated_closeness(network), closeness)
    return rate, closeness


def _tabulated_closeness(network: NetworkInputs) -> PairFunction:
    """Tabulate closeness by 1 - draw: the table is coarse near 1, and draws near 0 seldom meet a threshold."""
    from fedcast._fast.graph_kernels import tabulate

    trust, communities = network.trust, network.communities
    inside = tabulate(lambda rest: closeness_of_draws(1 - rest, trust, True), 1.0)
    if trust.generator != "community":
        return lambda pairs: inside(1 - pairs.draws)
    across = tabulate(lambda rest: closeness_of_draws(1 - rest, trust, False), 1.0)

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
