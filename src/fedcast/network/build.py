"""From places, radio and trust to the constrained graph."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedcast.errors import ScenarioError
from fedcast.network.graph import Graph, Links, assemble
from fedcast.network.links import graph_from_links
from fedcast.network.pairs import Laws, Network, Pairs, exact_laws, linked, tabulated_laws
from fedcast.network.trust import PURPOSE, least_draws
from fedcast.random import pair_uniform, stream_key
from fedcast.typing import Floats

if TYPE_CHECKING:
    from fedcast._fast.graph import Users
    from fedcast.network.geometry import Layout
    from fedcast.scenario.sections import Geometry, Sidelink, Trust


# Below, a k-d tree has found all pairs before numba is even imported.
COMPILED_FROM_USERS = 5_000

# Pairs judged at once: they stay in the second-level cache.
_BLOCK_PAIRS = 1 << 16

# A link is held once while pairs are judged, then in the rows of both users.
_BYTES_PER_LINK = 16 + 2 * 12

# Narrower columns mean fewer pairs that are too far apart, but sort no faster.
_COLUMNS_PER_RADIUS = 8
_MAX_BINS = 2**16 - 1
_LEAST_BIN_M = 1e-9

# Bins and the tree's radius are so much wider than need be that rounding leaves no pair out.
_ROUNDING = 1e-6


def build_graph(layout: Layout, sidelink: Sidelink, trust: Trust, geometry: Geometry, seed: int) -> Graph:
    r"""The graph of all pairs with :math:`v_{kj} \ge v_{th}` and :math:`e_{kj} \ge e_{th}`.

    Closeness is that of `trust.links_file` if set, and so is the rate where that file has one (`graph_from_links`).

    Time and memory grow with the number of users and links, never with the number of all pairs: partners are looked
    for within the reach of the radio only, and a pair's trust is a hash of its ids.

    Args:
        layout: places of the users, and their names if they have any.
        sidelink: the radio and its threshold `min_rate_bps`.
        trust: closeness and its threshold `min_closeness`.
        geometry: heights of the antennas.
        seed: of the scenario.

    Example:
        >>> from fedcast.scenario import Geometry, Sidelink, Trust
        >>> from fedcast.network.geometry import place_users
        >>> layout = place_users(100, Geometry(), seed=0)
        >>> graph = build_graph(layout, Sidelink(), Trust(), Geometry(), seed=0)
        >>> graph.num_users, bool(8 < graph.degrees.mean() < 16)
        (100, True)
    """
    network = Network(layout, sidelink, trust, geometry, seed)
    if trust.links_file is not None:
        return graph_from_links(
            trust.links_file, network.num_users, sidelink, trust, network.rates_between, layout.names
        )
    radius_m = network.radius_m()
    compiled = network.num_users >= COMPILED_FROM_USERS
    if compiled:
        laws, candidates = tabulated_laws(network, radius_m), _pairs_by_sweep(network, radius_m)
    else:
        laws, candidates = exact_laws(network), _pairs_by_tree(network, radius_m)
    links = list(_judged(candidates, laws, network))
    return assemble(links, network.num_users, compiled=compiled)


def _judged(candidates: Iterator[tuple[Pairs, int]], laws: Laws, network: Network) -> Iterator[Links]:
    num_links = 0
    for pairs, users_done in candidates:
        links = linked(pairs, laws, network)
        num_links += len(links.first)
        _refuse_more_than_memory(num_links, users_done / network.num_users, network.num_users)
        yield links


def _refuse_more_than_memory(num_links: int, share_done: float, num_users: int) -> None:
    """Stop before the system does, once it is plain that the links will not fit."""
    memory, expected = _memory_bytes(), num_links / share_done
    well_begun = memory is not None and num_links * _BYTES_PER_LINK > memory / 4
    if memory is not None and well_begun and expected * _BYTES_PER_LINK > memory:
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


def _pairs_by_tree(network: Network, radius_m: float) -> Iterator[tuple[Pairs, int]]:
    """All pairs within the radius at once, without compiled code; with the number of users done."""
    from scipy.spatial import cKDTree

    positions = network.layout.positions_m
    found = cKDTree(positions).query_pairs(radius_m * (1 + _ROUNDING), output_type="ndarray")
    first, second = found[:, 0].astype(np.int32), found[:, 1].astype(np.int32)
    dx, dy = (positions[second] - positions[first]).T
    squared = dx * dx + dy * dy
    near = squared <= radius_m * radius_m
    first, second = first[near], second[near]
    draws = pair_uniform(network.seed, PURPOSE, network.layout.words[first], network.layout.words[second])
    yield Pairs(first, second, squared[near], draws), network.num_users


def _pairs_by_sweep(network: Network, radius_m: float) -> Iterator[tuple[Pairs, int]]:
    """Blocks of pairs within the radius whose draw may meet the threshold, each with the number of users done."""
    from fedcast._fast import graph as kernels

    users, columns_apart = _ordered(network, radius_m)
    limits = kernels.Limits(radius_m, columns_apart, *least_draws(network.trust))
    populations = np.diff(users.strips, append=users.strips[-1])
    room = max(_BLOCK_PAIRS, int((populations[1:] + populations[:-1]).max()))
    found = kernels.Found(np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room), np.empty(room))
    done = 0
    while done < network.num_users:
        done, count = kernels.find_pairs(done, users, limits, found)
        first, second = found.first[:count].copy(), found.second[:count].copy()
        yield Pairs(first, second, found.squared_m2[:count], found.draws[:count]), done


def _ordered(network: Network, radius_m: float) -> tuple[Users, int]:
    """Users by strips, within a strip by columns, so that neighbours in space are neighbours in memory.

    Returns:
        The users, and how many columns the radius spans at most.
    """
    from fedcast._fast import graph as kernels

    positions = network.layout.positions_m
    strip, _ = _bins(positions[:, 1], radius_m)
    column, width_m = _bins(positions[:, 0], radius_m / _COLUMNS_PER_RADIUS)
    by_column = np.argsort(column, kind="stable")
    order = by_column[np.argsort(strip[by_column], kind="stable")]
    strips = np.concatenate([[0], np.cumsum(np.bincount(strip))])
    x, y = np.ascontiguousarray(positions[order].T)
    ids = order.astype(np.uint64)
    words = ids if network.layout.names is None else network.layout.words[order]
    halves = kernels.half_hashes(words, stream_key(network.seed, PURPOSE))
    users = kernels.Users(x, y, column[order].astype(np.int32), ids, words, halves, network.communities(order), strips)
    return users, int(radius_m / width_m) + 1


def _bins(values: Floats, least_width: float) -> tuple[NDArray[np.uint16], float]:
    """Equal bins, a little wider than asked for, no more than two bytes can count: NumPy sorts those in linear time."""
    lowest = values.min()
    width = max(least_width, float(values.max() - lowest) / _MAX_BINS, _LEAST_BIN_M) * (1 + _ROUNDING)
    return ((values - lowest) / width).astype(np.uint16), width
