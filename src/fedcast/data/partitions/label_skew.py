"""label_skew: a share of the users holds one class only (the paper's partition)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcast.data.assignment import random_deal
from fedcast.data.partitions import Partition, check_one_each
from fedcast.errors import DataError
from fedcast.random import generator
from fedcast.registry import option
from fedcast.typing import Ints


@dataclass(frozen=True)
class LabelSkewOptions:
    """Options of partition ``label_skew``."""

    single_class_share: float = option(0.8, "share of users that hold one class only", ge=0, le=1)


def label_skew(class_sizes: Ints, num_users: int, options: LabelSkewOptions, seed: int) -> Ints:
    """Return the class counts [K, Y]: users 0, 1, … hold one class in turn, the others draw from the remaining samples.

    All sizes are ⌊n/K⌋, but if a class has too few samples, its users are equally smaller. Some samples are left over.

    Example:
        >>> label_skew(np.array([10, 10]), 4, LabelSkewOptions(single_class_share=0.5), seed=0)[:2].tolist()
        [[5, 0], [0, 5]]
    """
    size = check_one_each(class_sizes, num_users) // num_users
    present = np.flatnonzero(class_sizes)
    single = np.arange(round(options.single_class_share * num_users))
    class_of = present[single % len(present)]
    holders = np.bincount(class_of, minlength=len(class_sizes))
    portion = np.minimum(size, class_sizes // np.maximum(holders, 1))
    if (short := np.flatnonzero((portion == 0) & (holders > 0))).size:
        label = short[0]
        raise DataError(
            f"label_skew: class {label} has {class_sizes[label]} samples for {holders[label]} users that hold only it; "
            "decrease data.num_users or data.label_skew.single_class_share"
        )
    counts = np.zeros((num_users, len(class_sizes)), dtype=np.int64)
    counts[single, class_of] = portion[class_of]
    mixed_sizes = np.full(num_users - len(single), size)
    counts[len(single) :] = random_deal(class_sizes - counts.sum(axis=0), mixed_sizes, generator(seed, "label-skew"))
    return counts


PARTITION = Partition(
    "a share of the users holds one class only", counts=label_skew, complete=False, options=LabelSkewOptions
)
