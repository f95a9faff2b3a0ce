"""natural: the users from whom the data come, such as speaking roles or writers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcast.data.assignment import Assignment, assignment_from_owners
from fedcast.data.dataset import Dataset
from fedcast.data.partitions import Partition
from fedcast.errors import DataError
from fedcast.random import generator
from fedcast.registry import option


@dataclass(frozen=True)
class NaturalOptions:
    """Options of partition ``natural``."""

    join: bool = option(False, "divide all owners among the users, several for each, as NIID-Bench does with FEMNIST")


def natural(dataset: Dataset, num_users: int, options: NaturalOptions, seed: int) -> Assignment:
    """Assign to each user the samples of one natural owner; if there are more owners than users, draw K of them.

    With `join`, users get the samples of all owners instead, equally many owners each.

    Example:
        >>> from fedcast.data import dataset_from_arrays
        >>> data = dataset_from_arrays(np.zeros((4, 2)), np.arange(4), np.zeros((1, 2)), [0], groups=[0, 1, 1, 2])
        >>> natural(data, 3, NaturalOptions(), seed=0).sizes.tolist()
        [1, 2, 1]
        >>> int(natural(data, 2, NaturalOptions(join=True), seed=0).sizes.sum())
        4
    """
    if dataset.groups is None:
        raise DataError(
            f"invalid value 'natural' for data.partition: dataset {dataset.name} has no owners of its samples (groups)"
        )
    owners = np.unique(dataset.groups)
    if num_users > len(owners):
        raise DataError(f"invalid value {num_users} for data.num_users: expected at most {len(owners)} (owners)")
    if options.join:
        order = generator(seed, "natural").permutation(len(owners))
        user_of_owner = np.empty(len(owners), dtype=np.int64)
        user_of_owner[order] = np.arange(len(owners)) * num_users // len(owners)
        users = user_of_owner[np.searchsorted(owners, dataset.groups)]
        return assignment_from_owners(users, np.arange(len(dataset)), num_users)
    chosen = np.sort(generator(seed, "natural").choice(owners, num_users, replace=False))
    user = np.searchsorted(chosen, dataset.groups)
    user[user == num_users] = 0
    kept = np.flatnonzero(chosen[user] == dataset.groups)
    return assignment_from_owners(user[kept], kept, num_users)


PARTITION = Partition(
    "users from whom the data come (roles, writers)", assign=natural, complete=False, options=NaturalOptions
)
