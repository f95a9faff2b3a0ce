"""natural: a user is whoever the data come from: a speaking role, a writer."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedcast.data.assignment import Assignment, assignment_from_owners
from fedcast.data.dataset import Dataset
from fedcast.data.partitions.base import Partition
from fedcast.errors import DataError
from fedcast.random import generator
from fedcast.typing import Ints


def natural(groups: Ints, num_users: int, *, seed: int) -> Assignment:
    """Give each of K owners, chosen at random if there are more, the samples that come from it.

    Args:
        groups: int64[n], the owner of each sample.
        num_users: users K; at most as many as owners.
        seed: of the choice.

    Example:
        >>> natural(np.array([0, 1, 1, 2]), 3, seed=0).sizes.tolist()
        [1, 2, 1]
    """
    owners = np.unique(groups)
    if num_users > len(owners):
        raise DataError(
            f"data.num_users = {num_users}: the data come from {len(owners)} users; ask for at most that many"
        )
    chosen = np.sort(generator(seed, "natural").choice(owners, num_users, replace=False))
    user = np.searchsorted(chosen, groups)
    user[user == num_users] = 0
    kept = np.flatnonzero(chosen[user] == groups)
    return assignment_from_owners(user[kept], kept, num_users)


def _assign(dataset: Dataset, num_users: int, _: Any, seed: int) -> Assignment:
    if dataset.groups is None:
        raise DataError(f"data.partition = natural: dataset {dataset.name} does not say whom its samples come from")
    return natural(dataset.groups, num_users, seed=seed)


PARTITION = Partition("users as the data come (roles, writers)", assign=_assign, complete=False)
