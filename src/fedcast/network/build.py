"""Build the constrained graph from positions, radio and trust."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedcast.errors import ScenarioError
from fedcast.network.graph import Graph, Links, assemble
from fedcast.network.links_table import graph_from_links
from fedcast.network.pair_values import (
    NetworkInputs,
    Pairs,
    exact_functions,
    links_of_pairs,
    tabulated_functions,
)
from fedcast.network.trust import PURPOSE, least_draws
from fedcast.random import pair_uniform, stream_key
from fedcast.typing import Floats

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
_ROUNDING = 1e-6


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
    network = NetworkInputs(layout, sidelink, trust, geometry, seed)
    if trust.links_file is not None:
        return graph_from_links(
            trust.links_file, network.num_users, sidelink, trust, network.rates_between, layout.names
        )
    radius_m = network.radius_m()
    compiled = network.num_users >= COMPILED_FROM_USERS
    if compiled:
        functions, candidates = tabulated_functions(network, radius_m), _pairs_by_sweep(network, radius_m)
    else:
        functions, candidates = exact_functions(network), _pairs_by_tree(network, radius_m)
    blocks: list[Links] = []
    num_links = 0
    for pairs, users_done in candidates:
        blocks.append(links_of_pairs(pairs, functions, network))
        num_links += len(blocks[-1].first)
        _check_memory(num_links, users_done / network.num_users, network.num_users)
    return assemble(blocks, network.num_users, compiled=compiled)


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

    positions = network.layout.positions_m
    found = cKDTree(positions).query_pairs(radius_m * (1 + _ROUNDING), output_type="ndarray")
    first, second = found[:, 0].astype(np.int32), found[:, 1].astype(np.int32)
    dx, dy = (positions[second] - positions[first]).T
    squared = dx * dx + dy * dy
    near = squared <= radius_m * radius_m
    first, second = first[near], second[near]
    draws = pair_uniform(network.seed, PURPOSE, network.layout.hash_keys[first], network.layout.hash_keys[second])
    yield Pairs(first, second, squared[near], draws), network.num_users


def _pairs_by_sweep(network: NetworkInputs, radius_m: float) -> Iterator[tuple[Pairs, int]]:
    """Yield blocks of pairs within the radius whose draw may meet the threshold, and the number of users done."""
    from fedcast._fast import graph_kernels as kernels

    users, columns_apart = _sort_users(network, radius_m)
    limits = kernels.Limits(radius_m, columns_apart, *least_draws(network.trust))
    populations = np.diff(users.strips, append=users.strips[-1])
    room = max(_BLOCK_PAIRS, int((populations[1:] + populations[:-1]).max()))
    found = kernels.Found(np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room), np.empty(room))
    done = 0
    while done < network.num_users:
        done, count = kernels.find_pairs(done, users, limits, found)
        first, second = found.first[:count].copy(), found.second[:count].copy()
        yield Pairs(first, second, found.squared_m2[:count], found.draws[:count]), done


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
    users = kernels.Users(x, y, column[order].astype(np.int32), ids, keys, halves, network.communities(order), strips)
    return users, int(radius_m / width_m) + 1


def _bins(values: Floats, least_width: float) -> tuple[NDArray[np.uint16], float]:
    """Return equal bins as uint16, which NumPy sorts in linear time, and their width (at least `least_width`)."""
    lowest = values.min()
    width = max(least_width, float(values.max() - lowest) / _MAX_BINS, _LEAST_BIN_M) * (1 + _ROUNDING)
    return ((values - lowest) / width).astype(np.uint16), width
