"""iid: every user holds a random part of the data, sizes equal to within one."""

from __future__ import annotations

from typing import Any

from fedcast.data.assignment import random_deal
from fedcast.data.partitions.base import Partition
from fedcast.data.partitions.sizes import equal_sizes
from fedcast.random import generator
from fedcast.typing import Ints


def iid(class_sizes: Ints, num_users: int, *, seed: int) -> Ints:
    """Class counts [K, Y] of a random deal of all samples.

    Example:
        >>> import numpy as np
        >>> iid(np.array([6, 4]), 5, seed=0).sum(axis=1).tolist()
        [2, 2, 2, 2, 2]
    """
    return random_deal(class_sizes, equal_sizes(class_sizes, num_users), generator(seed, "iid"))


def _counts(class_sizes: Ints, num_users: int, _: Any, seed: int) -> Ints:
    return iid(class_sizes, num_users, seed=seed)


PARTITION = Partition("random parts of equal size", counts=_counts)
