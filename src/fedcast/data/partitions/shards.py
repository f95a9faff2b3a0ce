"""shards: every user holds k classes, every class is split evenly over the users that hold it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcast.data.partitions.base import Partition
from fedcast.errors import DataError
from fedcast.random import generator
from fedcast.registry import option
from fedcast.typing import Ints


@dataclass(frozen=True)
class ShardsOptions:
    """Options of partition ``shards``."""

    classes_per_user: int = option(2, "classes of each user", ge=1)


def shards(class_sizes: Ints, num_users: int, classes_per_user: int, *, seed: int) -> Ints:
    """Class counts [K, Y] with exactly `classes_per_user` classes in each row.

    Classes are dealt like cards, a freshly shuffled pack after another, so that every class has equally many holders
    to within one, and pairs of classes are mixed.

    Example:
        >>> counts = shards(np.array([12, 12, 12]), 6, 2, seed=0)
        >>> (counts > 0).sum(axis=1).tolist(), counts.sum(axis=0).tolist()
        ([2, 2, 2, 2, 2, 2], [12, 12, 12])
    """
    present = np.flatnonzero(class_sizes)
    if classes_per_user > len(present):
        raise DataError(f"data.shards.classes_per_user = {classes_per_user}: the data have only {len(present)} classes")
    if num_users * classes_per_user < len(present):
        raise DataError(
            f"shards: {num_users} users with {classes_per_user} classes each cannot hold {len(present)} classes; "
            "raise data.num_users or data.shards.classes_per_user"
        )
    rng = generator(seed, "shards")
    hands = present[_deal_cards(len(present), num_users, classes_per_user, rng)]
    counts = np.zeros((num_users, len(class_sizes)), dtype=np.int64)
    for label in present:
        holders = rng.permutation(np.flatnonzero((hands == label).any(axis=1)))
        if class_sizes[label] < len(holders):
            raise DataError(
                f"shards: class {label} has {class_sizes[label]} samples for {len(holders)} users that should hold it; "
                "lower data.num_users or data.shards.classes_per_user"
            )
        share, rest = divmod(int(class_sizes[label]), len(holders))
        counts[holders, label] = share + (np.arange(len(holders)) < rest)
    return counts


def _deal_cards(num_classes: int, num_users: int, per_user: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Hands of `per_user` different classes, int64[K, per_user], from shuffled packs used up one after another."""
    hands = np.empty((num_users, per_user), dtype=np.int64)
    pack: NDArray[np.int64] = np.empty(0, dtype=np.int64)
    for user in range(num_users):
        hand, pack = pack[:per_user], pack[per_user:]
        if len(hand) < per_user:
            fresh = rng.permutation(num_classes)
            # Classes already in the hand go to the bottom of the new pack, so that no hand holds one twice.
            fresh = np.concatenate([fresh[~np.isin(fresh, hand)], fresh[np.isin(fresh, hand)]])
            needed = per_user - len(hand)
            hand, pack = np.concatenate([hand, fresh[:needed]]), fresh[needed:]
        hands[user] = hand
    return hands


def _counts(class_sizes: Ints, num_users: int, options: ShardsOptions, seed: int) -> Ints:
    return shards(class_sizes, num_users, options.classes_per_user, seed=seed)


PARTITION = Partition("k classes for each user", counts=_counts, options=ShardsOptions)
