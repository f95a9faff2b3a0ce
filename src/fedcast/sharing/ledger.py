"""Kinds of sharing, the data of users after sharing, and the privacy ledger: the record of every sample sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedcast import registry
from fedcast.clustering import Clustering
from fedcast.data import Assignment, Population, assignment_from_owners
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
        kept = users[self.assignment.owners]
        owners, samples = self.assignment.owners[kept], self.assignment.samples[kept]
        return Shared(assignment_from_owners(owners, samples, self.assignment.num_users), self.ledger)


@dataclass(frozen=True)
class Sharing:
    """A kind of sharing: the value that `fedcast.registry` holds under its name; `fedcast.testing.sharing` checks one.

    `share` returns the data after sharing from (population, clustering, seed, options); the same arguments always give
    the same result. `options` is a frozen dataclass, see `fedcast.registry.option`.
    """

    share: Callable[[Population, Clustering, int, Any], Shared]
    summary: str  #: one line that says what is sent
    options: type[Any] = registry.NoOptions


def find_sharing(name: str) -> Sharing:
    """Return the kind of sharing of that name.

    Example:
        >>> find_sharing("raw").summary
        'heads send raw samples to their members'
    """
    kind: Sharing = registry.find("sharing", name).value
    return kind
