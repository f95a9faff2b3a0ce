"""Compiled loops over pairs and rows of a graph, and tables of functions.

This module imports numba; import it only for large graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast

import numba
import numpy as np
from numpy.typing import NDArray

from fedcast._fast.kernels import Function, njit
from fedcast.typing import Floats, Ints

Floats32 = NDArray[np.float32]
Ids = NDArray[np.int32]
Words = NDArray[np.uint64]
# Pairs: ids of both users, squared distance in m², draw.
Found = tuple[Ids, Ids, Floats, Floats]
Scratch = tuple[Floats, Floats]
# Both users, rate in bit/s and closeness of links; the same for rows of a graph, with one user.
LinkBlock = tuple[Ids, Ids, Floats32, Floats32]
Rows = tuple[Ids, Floats32, Floats32]

# Intervals of a lookup table are given by the exponent and the first four bits of the mantissa: 16 per octave.
_INTERVAL_SHIFT = 48
# Smaller values, one in 2**14 of values spread evenly, are computed by the function itself.
_OCTAVES = 14
_TERMS = 8
_CHECKS = 17
# So far below the spacing of float32 (6e-8) that a rounded value differs once in 30,000 times, by one step.
_TOLERANCE = 1e-12

# Constants of SplitMix64, as in `fedcast.random`.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_SHIFT_1, _SHIFT_2, _SHIFT_3, _TO_53_BITS = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
_TO_UNIT = 2.0**-53
_NOT_KEPT = -1.0

# Longer rows are sorted by a scan over all users, shorter ones by counting smaller neighbours.
_LONG_ROW = 1024


class Users(NamedTuple):
    """Users in the order of the sweep: by strips of equal height, within a strip by columns of equal width."""

    x_m: Floats  # [K]
    y_m: Floats  # [K]
    columns: Ids  # [K]
    ids: Words  # [K], ids of the users
    words: Words  # [K], hash keys that determine their draws; without names the ids
    halves: Words  # [K], `half_hashes` of the keys
    communities: Ints  # [K]
    strips: Ints  # [S + 1], first user of each strip


class Limits(NamedTuple):
    """Conditions that a pair must meet."""

    radius_m: float  # the largest distance
    columns: int  # the largest difference between the columns of such a pair
    inside: float  # the smallest draw of a pair within a community
    across: float  # the smallest draw of a pair across two communities


def njit_inline(function: Function) -> Function:
    """Return the function inlined into its callers: a call per run of users would take a quarter of the time."""
    return cast("Function", numba.njit(inline="always")(function))


@njit_inline
def _mix(word: np.uint64) -> np.uint64:
    word = word + _GOLDEN
    word = (word ^ (word >> _SHIFT_1)) * _MIX_1
    word = (word ^ (word >> _SHIFT_2)) * _MIX_2
    return word ^ (word >> _SHIFT_3)


@njit
def half_hashes(words: Words, key: np.uint64) -> Words:
    """Return the hash that `pair_uniform` computes of the smaller key of a pair before adding the larger; uint64[K]."""
    halves = np.empty_like(words)
    for place in range(len(words)):
        halves[place] = _mix(_mix(words[place]) ^ key)
    return halves


@njit
def find_pairs(begin: int, users: Users, limits: Limits, found: Found) -> tuple[int, int]:
    """Sweep over the users from `begin` on and store each pair that meets the limits once.

    Strips are at least as high as the radius, so the neighbours of a user are in two contiguous runs: users after it
    in its own strip, and users in nearby columns of the next strip. Within a strip the ends of the runs only move
    forward.

    Returns:
        The user at which the buffers were full (K if they never were), and the number of pairs found.
    """
    columns, strips = users.columns, users.strips
    room = len(found[0])
    scratch = np.empty(room), np.empty(room)
    strip = int(np.searchsorted(strips, begin, side="right")) - 1
    count, own_end, low, high = 0, 0, 0, 0
    for user in range(begin, len(columns)):
        left, right = columns[user] - limits.columns, columns[user] + limits.columns
        while user >= strips[strip + 1]:
            strip += 1
        next_begin, next_end = strips[strip + 1], strips[min(strip + 2, len(strips) - 1)]
        own_end, low, high = max(own_end, user + 1), max(low, next_begin), max(high, next_begin)
        while own_end < next_begin and columns[own_end] <= right:
            own_end += 1
        while high < next_end and columns[high] <= right:
            high += 1
        while low < high and columns[low] < left:
            low += 1
        if count + (own_end - user - 1) + (high - low) > room:
            return user, count
        count = _keep(user, user + 1, own_end, users, limits, scratch, count, found)
        count = _keep(user, low, high, users, limits, scratch, count, found)
    return len(columns), count


@njit_inline
def _keep(
    user: int, start: int, end: int, users: Users, limits: Limits, scratch: Scratch, count: int, found: Found
) -> int:
    """Store the pairs of a user with the users of a run, and return the number of pairs found so far.

    Two loops without branches, the first of which is vectorized, are faster than branches on unpredictable distances.
    Slices are used because indices that might be negative prevent vectorization.
    """
    x, y, own_word, own_half = users.x_m[user], users.y_m[user], users.words[user], users.halves[user]
    xs, ys, words, halves = users.x_m[start:end], users.y_m[start:end], users.words[start:end], users.halves[start:end]
    own_id, ids = users.ids[user], users.ids[start:end]
    own_community, communities = users.communities[user], users.communities[start:end]
    largest = limits.radius_m * limits.radius_m
    squared, draws = scratch
    found_first, found_second, found_squared, found_draws = found
    for place in range(end - start):
        dx, dy = xs[place] - x, ys[place] - y
        squared[place] = dx * dx + dy * dy
        smaller = own_word < words[place]
        half, larger = (own_half, words[place]) if smaller else (halves[place], own_word)
        draw = np.float64(_mix(half + larger) >> _TO_53_BITS) * _TO_UNIT
        least = limits.inside if communities[place] == own_community else limits.across
        draws[place] = draw if (squared[place] <= largest) & (draw >= least) else _NOT_KEPT
    for place in range(end - start):
        found_first[count] = own_id
        found_second[count] = ids[place]
        found_squared[count] = squared[place]
        found_draws[count] = draws[place]
        count += draws[place] != _NOT_KEPT
    return count


def tabulate(function: Callable[[Floats], Floats], highest: float) -> Callable[[Floats], Floats]:
    """Return a fast replacement of a positive function on (0, highest]: polynomials of degree 7 on 1/16 octave each.

    The width of the intervals grows with the value, which suits functions of distance. Below the table, and where a
    polynomial is not exact to 1e-12 (near a kink), the function itself is evaluated.

    Example:
        >>> table = tabulate(lambda squared: squared**-1.05, highest=400.0)
        >>> values = np.array([0.001, 1.0, 399.0])
        >>> bool(np.allclose(table(values), values**-1.05, rtol=1e-11))
        True
    """
    last = int(np.float64(highest).view(np.int64)) >> _INTERVAL_SHIFT
    lowest = last - 16 * _OCTAVES
    edges = (np.arange(lowest, last + 2) << _INTERVAL_SHIFT).view(np.float64)
    centres, halves = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2

    def sampled(places: Floats) -> Floats:
        points = centres[:, None] + halves[:, None] * places
        return function(points.reshape(-1)).reshape(points.shape)

    nodes = np.cos(np.pi * (np.arange(_TERMS) + 0.5) / _TERMS)
    coefficients = np.linalg.solve(np.vander(nodes, increasing=True), sampled(nodes).T).T
    checks = np.linspace(-1, 1 - 1e-9, _CHECKS)
    exact = sampled(checks)
    error = np.abs(coefficients @ np.vander(checks, _TERMS, increasing=True).T - exact)
    coefficients[(error > _TOLERANCE * np.abs(exact)).any(axis=1)] = np.nan
    polynomials = lowest, centres, 1 / halves, np.ascontiguousarray(coefficients)

    def table(values: Floats) -> Floats:
        result = _look_up(values, *polynomials)
        missing = np.flatnonzero(np.isnan(result))
        if len(missing):
            result[missing] = function(values[missing])
        return result

    return table


@njit
def _look_up(values: Floats, lowest: int, centres: Floats, scales: Floats, coefficients: Floats) -> Floats:
    """Evaluate piecewise polynomials at the values, float64[N]; NaN outside the table.

    `lowest` is the number of the first interval, `scales` float64[I] are the reciprocals of half their width, and
    `coefficients` float64[I, 8] those of the polynomials on [-1, 1], constant first.
    """
    bits = values.view(np.int64)
    result = np.empty_like(values)
    for index in range(len(values)):
        interval = (bits[index] >> _INTERVAL_SHIFT) - lowest
        total = np.nan
        if 0 <= interval < len(centres):
            at = (values[index] - centres[interval]) * scales[interval]
            total = 0.0
            for power in range(coefficients.shape[1] - 1, -1, -1):
                total = total * at + coefficients[interval, power]
        result[index] = total
    return result


@njit
def count_links(first: Ids, second: Ids, degrees: Ints) -> None:
    """Add the links of a block to the degrees of the users."""
    for link in range(len(first)):
        degrees[first[link]] += 1
        degrees[second[link]] += 1


@njit
def fill_rows(links: LinkBlock, filled: Ints, rows: Rows) -> None:
    """Append both directions of each link of a block to their rows; `filled` holds the ends of the rows."""
    first, second, link_rate_bps, link_closeness = links
    neighbours, rate_bps, closeness = rows
    for link in range(len(first)):
        one, other = first[link], second[link]
        for row, neighbour in ((one, other), (other, one)):
            place = filled[row]
            filled[row] = place + 1
            neighbours[place] = neighbour
            rate_bps[place] = link_rate_bps[link]
            closeness[place] = link_closeness[link]


@njit
def sort_rows(offsets: Ints, rows: Rows) -> None:
    """Sort every row by neighbour, in place."""
    neighbours, rate_bps, closeness = rows
    longest = 0
    for user in range(len(offsets) - 1):
        longest = max(longest, offsets[user + 1] - offsets[user])
    ids, rates, close = np.empty(longest, np.int32), np.empty(longest, np.float32), np.empty(longest, np.float32)
    ranks = np.empty(longest, np.int32)
    place_of = np.full(len(offsets) - 1 if longest > _LONG_ROW else 0, -1, np.int32)
    for user in range(len(offsets) - 1):
        row = slice(offsets[user], offsets[user + 1])
        row_ids, row_rates, row_close = neighbours[row], rate_bps[row], closeness[row]
        length = len(row_ids)
        for place in range(length):
            ids[place], rates[place], close[place] = row_ids[place], row_rates[place], row_close[place]
        if length > _LONG_ROW:
            _rank_by_scan(ids[:length], place_of, ranks)
        else:
            _rank_by_counting(ids[:length], ranks)
        for place in range(length):
            rank = ranks[place]
            row_ids[rank], row_rates[rank], row_close[rank] = ids[place], rates[place], close[place]


@njit
def _rank_by_counting(ids: Ids, ranks: Ids) -> None:
    """Count the ids smaller than each: quadratic but vectorized, for short rows."""
    for place in range(len(ids)):
        rank = np.int32(0)
        for other in range(len(ids)):
            rank += np.int32(ids[other] < ids[place])
        ranks[place] = rank


@njit
def _rank_by_scan(ids: Ids, place_of: Ids, ranks: Ids) -> None:
    """Rank the ids by a scan over all users; `place_of` is -1 for every user before and after."""
    for place in range(len(ids)):
        place_of[ids[place]] = place
    rank = 0
    for user in range(len(place_of)):
        place = place_of[user]
        if place >= 0:
            ranks[place] = rank
            rank += 1
            place_of[user] = -1
