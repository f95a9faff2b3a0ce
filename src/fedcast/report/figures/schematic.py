"""Schematic places of users, for maps where no place is known: linked users lie close to each other."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fedcast.typing import Floats, Ints

# Lengths in units of the distance between neighbouring users: between clusters, and of a user without a cluster.
_GAP, _ALONE = 1.1, 0.5
_STEPS, _MOST_PAIRS = 300, 3e7
# Of a step: how much links attract against how much groups repel, and how strongly all are drawn to the middle.
_LINKS, _MIDDLE = 0.08, 0.02
# Share of the steps in which they are.
_ATTRACTED = 0.75
_GOLDEN = np.pi * (3 - np.sqrt(5))


def schematic_places(head_of: ArrayLike, links: ArrayLike, width: float = 1.4) -> Floats:
    """Return places float64[K, 2]: members around their head, groups with links between them near each other.

    Args:
        head_of: int[K], the head of each user, -1: none.
        links: int[N, 2], both users of each link.
        width: of the whole as a multiple of its height, about.

    Groups repel and links attract each other (after Fruchterman and Reingold, 1991). The same arguments give the same
    places.

    Example:
        >>> places = schematic_places([1, -1, 1, -1], [[0, 1], [1, 2]])
        >>> [float(round(np.hypot(*(places[user] - places[1])), 2)) for user in (0, 2)]
        [1.0, 1.0]
    """
    leads, pairs = np.asarray(head_of, dtype=np.int64), np.asarray(links, dtype=np.int64).reshape(-1, 2)
    centre = np.where(leads >= 0, leads, np.arange(len(leads)))
    groups, group = np.unique(centre, return_inverse=True)
    offsets = _around_heads(leads, group, len(groups))
    radii = np.full(len(groups), _ALONE)
    np.maximum.at(radii, group, np.hypot(*offsets.T) + _ALONE)
    middles = _middles(radii, np.unique(np.sort(group[pairs], axis=1), axis=0), width)
    return middles[group] + offsets


def _around_heads(leads: Ints, group: Ints, count: int) -> Floats:
    """Return the place of each user from its head: on one ring, or on two if there are many members."""
    members = np.flatnonzero(leads >= 0)
    order = members[np.argsort(group[members], kind="stable")]
    sizes = np.bincount(group[order], minlength=count)
    rank = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    size = sizes[group[order]]
    ring = np.maximum(1.0, size / 7.5)
    # Every other member is further out, so that names have room.
    far = np.where((size > 5) & (rank % 2 == 1), 1.45, 1.0) * ring
    angle = 2 * np.pi * (rank + 0.15) / size
    offsets = np.zeros((len(leads), 2))
    offsets[order] = far[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return offsets


def _middles(radii: Floats, linked: Ints, width: float) -> Floats:
    """Return the middles of groups, float64[G, 2], large groups inside; `linked` are pairs of groups."""
    count = len(radii)
    places = np.zeros((count, 2))
    order = np.argsort(-radii, kind="stable")
    spread = np.sqrt(np.cumsum((radii[order] + _GAP / 2) ** 2))
    angle = _GOLDEN * np.arange(count)
    places[order] = spread[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    linked = linked[linked[:, 0] != linked[:, 1]]
    steps = int(np.clip(_MOST_PAIRS / max(count, 1) ** 2, 20, _STEPS))
    apart = radii[:, None] + radii + _GAP
    for step in range(steps if count > 1 else 0):
        away = places[:, None] - places
        distance = np.sqrt((away**2).sum(axis=-1))
        np.fill_diagonal(distance, np.inf)
        distance = np.maximum(distance, 1e-6)
        # In the end groups only make room for each other.
        attract = step < _ATTRACTED * steps
        beyond = 0.05 * apart**2 / distance**1.5 if attract else 0.0
        push = np.where(distance < apart, apart - distance, beyond) / distance
        move = 0.35 * (push[..., None] * away).sum(axis=1)
        if attract:
            pull = places[linked[:, 1]] - places[linked[:, 0]]
            pull *= _LINKS * np.maximum(1 - apart[linked[:, 0], linked[:, 1]] / np.hypot(*pull.T), 0)[:, None]
            np.add.at(move, linked[:, 0], pull)
            np.add.at(move, linked[:, 1], -pull)
            move -= _MIDDLE * places * (1.0, width**2)
        most = max(0.1, (1 - step / steps)) * apart.mean()
        length = np.hypot(*move.T)[:, None]
        places += move * np.minimum(1.0, most / np.maximum(length, 1e-9))
    return places
