"""Kinds of sharing, the data of users after sharing, and the privacy ledger: the record of every sample sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fedcast import registry
from fedcast.clustering import Clustering
from fedcast.data import Assignment, Population
from fedcast.errors import FedcastError
from fedcast.io import save_table
from fedcast.typing import Bools, Floats, Ints

# The sender of what the server broadcasts.
SERVER = -1


@dataclass(frozen=True, eq=False)
class Ledger:
    """The privacy ledger: one entry for every sample that another user received."""

    samples: Ints  #: int64[T], index in the dataset
    senders: Ints  #: int64[T], user, or -1 for the server
    receivers: Ints  #: int64[T], user

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def distinct_samples(self) -> int:
        """The number of different samples that were sent."""
        return len(np.unique(self.samples))

    def revealed_shares(self, sizes: Ints) -> Floats:
        """Return the share of each user's samples that other users received, float64[K].

        `sizes` are their numbers of samples before sharing. What the server sends counts for no user.
        """
        pairs = np.unique(np.stack([self.senders, self.samples]), axis=1)
        counts = np.bincount(pairs[0][pairs[0] >= 0], minlength=len(sizes))
        return np.divide(counts, sizes, out=np.zeros(len(sizes)), where=sizes > 0)

    def save(self, path: str | Path) -> Path:
        """Write columns sample, sender and receiver as .csv or .parquet."""
        return save_table({"sample": self.samples, "sender": self.senders, "receiver": self.receivers}, path)


@dataclass(frozen=True, eq=False)
class Shared:
    """Data after sharing: samples of each user, first its own, then those that it received; and the ledger."""

    assignment: Assignment
    ledger: Ledger

    def of(self, users: Bools) -> Shared:
        """Return the same with no samples for users outside the mask, so that they do not train."""
        return Shared(self.assignment.only(users), self.ledger)


@dataclass(frozen=True)
class Sharing:
    """A kind of sharing: the value that `fedcast.registry` holds under its name; `fedcast.testing.sharing` checks one.

    `share` returns the data after sharing from (population, clustering, seed, options); the same arguments always give
    the same result. `options` is a frozen dataclass, see `fedcast.registry.option`.

    A kind that sends nothing (`sends` is false) is a control: users train on samples of their own as often as `share`
    lists them, so that its ledger is empty and its runs have no sharing delay, no leakage and the skew of before.
    """

    share: Callable[[Population, Clustering, int, Any], Shared]
    summary: str  #: one line that says what is sent
    options: type[Any] = registry.NoOptions
    sends: bool = True  #: whether samples leave a device
    weights: Literal["shared", "own"] = "shared"  #: of users under `training.aggregation` = shared: ñ_k, or own: n_k


def own_samples(population: Population, clustering: Clustering) -> Assignment:
    """Return the samples of each user before sharing; raise an error if there are none, or of other users."""
    if population.assignment is None or population.dataset is None:
        raise FedcastError("synthetic populations have counts but no samples: nothing can be shared or trained")
    if clustering.problem.num_users != population.num_users:
        raise FedcastError(
            f"the clustering is of {clustering.problem.num_users} users, the population of {population.num_users}"
        )
    return population.assignment


def find_sharing(name: str) -> Sharing:
    """Return the kind of sharing of that name.

    Example:
        >>> find_sharing("raw").summary
        'heads send raw samples to their members'
    """
    kind: Sharing = registry.find("sharing", name).value
    return kind
