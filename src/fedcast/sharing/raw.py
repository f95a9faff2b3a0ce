"""Share raw samples: heads send whole samples to their members, or the server sends one set to all users."""

from __future__ import annotations

import numpy as np

from fedcast.clustering import Clustering, water_fill
from fedcast.data import Assignment, Population
from fedcast.random import generator
from fedcast.registry import NoOptions
from fedcast.sharing.ledger import SERVER, Held, Ledger, Made, Request, Shared, Sharing, own_samples, server_pool
from fedcast.typing import Ints


def share_samples(
    population: Population, clustering: Clustering, seed: int = 0, options: NoOptions | None = None
) -> Shared:
    """Send whole samples from every head to each of its members, or from the server to all users.

    A head sends the same samples to all its members, as a multicast does: drawn at random, or as evenly over classes as
    possible if the clustering's composition is balanced. Volumes are rounded down to whole samples. There are no
    options.
    """
    del options
    own = own_samples(population, clustering)
    assert population.dataset is not None
    labels = population.dataset.labels
    if clustering.broadcast is None:
        ledger = _multicast(own, labels, clustering, seed)
    else:
        pool = np.sort(server_pool(own, clustering, seed).samples)
        volume = min(int(clustering.broadcast.volume), len(pool))
        sent = _choose(pool, labels, volume, True, generator(seed, "share"))
        users, count = population.num_users, len(sent)
        ledger = Ledger(np.tile(sent, users), np.full(users * count, SERVER), np.repeat(np.arange(users), count))
    return Shared.by_ledger(own, ledger)


def make_raw(held: Held, request: Request, options: NoOptions | None = None) -> Made:
    """Return samples of one head as a kind that generates some would: what its members read."""
    del options
    drawn = draw_samples(held.labels, request.volume, request.balanced, request.rng)
    return Made(held.inputs[drawn], held.labels[drawn], sources=drawn)


SHARING = Sharing(share_samples, "heads send raw samples to their members", NoOptions)


def _multicast(own: Assignment, labels: Ints, clustering: Clustering, seed: int) -> Ledger:
    balanced = clustering.problem.settings.composition == "balanced"
    entries = [np.zeros((3, 0), dtype=np.int64)]
    for head in clustering.heads:
        volume, rng = int(clustering.shared[head]), generator(seed, "share", user=int(head))
        sent = _choose(own.of(head), labels, volume, balanced, rng)
        members = clustering.members_of(int(head))
        receivers = np.repeat(members, len(sent))
        entries.append(np.stack([np.tile(sent, len(members)), np.full(len(receivers), head), receivers]))
    return Ledger(*np.concatenate(entries, axis=1))


def _choose(pool: Ints, labels: Ints, volume: int, balanced: bool, rng: np.random.Generator) -> Ints:
    return pool[draw_samples(labels[pool], volume, balanced, rng)]


def draw_samples(labels: Ints, volume: int, balanced: bool, rng: np.random.Generator) -> Ints:
    """Draw `volume` of the samples with these labels at random, or as evenly over classes as they allow.

    Return their positions. A device that knows its own samples alone draws those that a simulation of all devices does.
    """
    shuffled = rng.permutation(len(labels))
    if not balanced:
        return shuffled[:volume]
    own_labels = labels[shuffled]
    counts = np.bincount(own_labels, minlength=1)
    wanted = whole_water_fill(counts, volume)
    order = np.argsort(own_labels, kind="stable")
    rank = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    return shuffled[np.sort(order[rank < np.repeat(wanted, counts)])]


def whole_water_fill(counts: Ints, volume: int) -> Ints:
    """Return whole numbers with sum `volume`, at most `counts` and as equal as possible.

    What rounding leaves is taken from the classes with the most samples left.

    Example:
        >>> whole_water_fill(np.array([10, 1, 5]), 8).tolist()
        [4, 1, 3]
    """
    taken = np.floor(water_fill(counts, float(volume)) + 1e-9).astype(np.int64)
    rest = volume - int(taken.sum())
    room = np.argsort(-(counts - taken), kind="stable")[:rest]
    taken[room] += 1
    return taken
