"""iid: random parts of equal size."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedcast.data.assignment import random_deal
from fedcast.data.partitions import Partition, check_one_each
from fedcast.random import generator
from fedcast.typing import Ints


def iid(class_sizes: Ints, num_users: int, _: Any, seed: int) -> Ints:
    """Return the class counts [K, Y] of users who draw all samples without replacement, sizes equal to within one.

    Example:
        >>> iid(np.array([6, 4]), 5, None, seed=0).sum(axis=1).tolist()
        [2, 2, 2, 2, 2]
    """
    size, rest = divmod(check_one_each(class_sizes, num_users), num_users)
    return random_deal(class_sizes, size + (np.arange(num_users) < rest), generator(seed, "iid"))


PARTITION = Partition("random parts of equal size", counts=iid)
