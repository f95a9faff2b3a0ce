"""Sharing: a clustering and its volumes become extra samples for members; the ledger says which went to whom."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedcast.clustering import Clustering
from fedcast.clustering.composition import water_fill
from fedcast.data.assignment import Assignment, assignment_from_owners
from fedcast.data.population import Population
from fedcast.errors import FedcastError
from fedcast.io import save_table
from fedcast.random import generator
from fedcast.typing import Ints

SERVER = -1


@dataclass(frozen=True, eq=False)
class Ledger:
    """The privacy ledger: one entry for every sample that reached somebody else.

    Attributes:
        samples: int64[T], which sample of the dataset.
        senders: int64[T], who sent it; -1: the server.
        receivers: int64[T], who received it.
    """

    samples: Ints
    senders: Ints
    receivers: Ints

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def distinct_samples(self) -> int:
        """Different samples that left their owner."""
        return len(np.unique(self.samples))

    def revealed_shares(self, sizes: Ints) -> NDArray[np.float64]:
        """Share of each user's samples that others have seen, float64[K]; what the server sent is nobody's.

        Args:
            sizes: int64[K], samples of each user before sharing.
        """
        pairs = np.unique(np.stack([self.senders, self.samples]), axis=1)
        counts = np.bincount(pairs[0][pairs[0] >= 0], minlength=len(sizes))
        return np.divide(counts, sizes, out=np.zeros(len(sizes)), where=sizes > 0)

    def save(self, path: str | Path) -> Path:
        """Write sample, sender and receiver as .csv or .parquet."""
        return save_table({"sample": self.samples, "sender": self.senders, "receiver": self.receivers}, path)


@dataclass(frozen=True, eq=False)
class Shared:
    """Data after sharing.

    Attributes:
        assignment: samples of each user, its own first, then what it received.
        ledger: who sent what to whom.
    """

    assignment: Assignment
    ledger: Ledger


def share_samples(population: Population, clustering: Clustering, seed: int = 0) -> Shared:
    """Let every head send whole samples to each of its members, or the server its one set to everybody.

    A head sends the same samples to all its members, as a multicast does: at random, or as equal over classes as it can
    when the clustering's composition is balanced. Volumes are rounded down to whole samples.
    """
    if population.assignment is None or population.dataset is None:
        raise FedcastError("synthetic populations have counts but no samples: nothing can be shared or trained")
    if clustering.problem.num_users != population.num_users:
        raise FedcastError(
            f"the clustering is of {clustering.problem.num_users} users, the population of {population.num_users}"
        )
    ledger = (
        _broadcast(population, clustering, seed) if clustering.broadcast else _multicast(population, clustering, seed)
    )
    own = population.assignment
    owners = np.concatenate([own.owners, ledger.receivers])
    samples = np.concatenate([own.samples, ledger.samples])
    return Shared(assignment_from_owners(owners, samples, own.num_users), ledger)


def _multicast(population: Population, clustering: Clustering, seed: int) -> Ledger:
    assert population.assignment is not None
    balanced = clustering.problem.settings.composition == "balanced"
    samples, senders, receivers = [], [], []
    for head in clustering.heads:
        volume = int(clustering.shared[head])
        rng = generator(seed, "share", user=int(head))
        sent = _choose(population, population.assignment.of(head), volume, balanced, rng)
        members = clustering.members_of(int(head))
        samples.append(np.tile(sent, len(members)))
        receivers.append(np.repeat(members, len(sent)))
        senders.append(np.full(len(members) * len(sent), head))
    return Ledger(*(_joined(part) for part in (samples, senders, receivers)))


def _broadcast(population: Population, clustering: Clustering, seed: int) -> Ledger:
    assert clustering.broadcast is not None
    assert population.assignment is not None
    pool = np.sort(population.assignment.samples)
    sent = _choose(population, pool, int(clustering.broadcast.volume), True, generator(seed, "share"))
    everyone = np.arange(population.num_users)
    return Ledger(
        np.tile(sent, len(everyone)), np.full(len(everyone) * len(sent), SERVER), np.repeat(everyone, len(sent))
    )


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def _choose(population: Population, pool: Ints, volume: int, balanced: bool, rng: np.random.Generator) -> Ints:
    """`volume` samples of the pool, at random or as equal over classes as the pool allows."""
    shuffled = rng.permutation(pool)
    if not balanced:
        return shuffled[:volume]
    assert population.dataset is not None
    labels = population.dataset.labels[shuffled]
    counts = np.bincount(labels, minlength=population.dataset.num_classes)
    wanted = whole_water_fill(counts, volume)
    order = np.argsort(labels, kind="stable")
    rank = np.arange(len(pool)) - np.repeat(np.cumsum(counts) - counts, counts)
    return shuffled[np.sort(order[rank < np.repeat(wanted, counts)])]


def whole_water_fill(counts: Ints, volume: int) -> Ints:
    """Whole numbers as near to equal as the counts allow, with that sum; classes that hold most get the rest.

    Example:
        >>> whole_water_fill(np.array([10, 1, 5]), 8).tolist()
        [4, 1, 3]
    """
    taken = np.floor(water_fill(counts, float(volume)) + 1e-9).astype(np.int64)
    rest = volume - int(taken.sum())
    room = np.argsort(-(counts - taken), kind="stable")[:rest]
    taken[room] += 1
    return taken
