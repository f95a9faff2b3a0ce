"""The privacy ledger, the record of every sample that was sent, and the data of users after sharing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedcast.data import Assignment, assignment_from_owners
from fedcast.io import save_table
from fedcast.typing import Ints

# The sender of what the server broadcasts.
SERVER = -1


@dataclass(frozen=True, eq=False)
class Ledger:
    """The privacy ledger: one entry for every sample that another user received.

    Attributes:
        samples: int64[T], index in the dataset.
        senders: int64[T], user; -1: the server.
        receivers: int64[T], user.
    """

    samples: Ints
    senders: Ints
    receivers: Ints

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def distinct_samples(self) -> int:
        """Return the number of different samples that were sent."""
        return len(np.unique(self.samples))

    def revealed_shares(self, sizes: Ints) -> NDArray[np.float64]:
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

    def of(self, users: NDArray[np.bool_]) -> Shared:
        """Return the same with no samples for users outside the mask, so that they do not train."""
        kept = users[self.assignment.owners]
        owners, samples = self.assignment.owners[kept], self.assignment.samples[kept]
        return Shared(assignment_from_owners(owners, samples, self.assignment.num_users), self.ledger)
