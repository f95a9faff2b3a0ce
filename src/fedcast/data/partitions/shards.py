"""shards: every user holds k classes, and every class is split evenly over its holders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedcast.data.partitions import Partition
from fedcast.errors import DataError
from fedcast.random import generator
from fedcast.registry import option
from fedcast.typing import Ints


@dataclass(frozen=True)
class ShardsOptions:
    """Options of partition ``shards``."""

    classes_per_user: int = option(2, "classes of each user", ge=1)
    holders: Literal["even", "random"] = option(
        "even", "even: equally many users hold each class; random: user k class k mod Y and others, as in NIID-Bench"
    )


def shards(class_sizes: Ints, num_users: int, options: ShardsOptions, seed: int) -> Ints:
    """Return the class counts [K, Y] with exactly `classes_per_user` classes in each row.

    Classes are dealt from one shuffled pack of all classes after another, so that the numbers of holders of two classes
    differ by at most one, and pairs of classes are random. With `holders` ``random``, user k holds class k mod Y and
    others that it draws by itself.

    Example:
        >>> counts = shards(np.array([12, 12, 12]), 6, ShardsOptions(classes_per_user=2), seed=0)
        >>> (counts > 0).sum(axis=1).tolist(), counts.sum(axis=0).tolist()
        ([2, 2, 2, 2, 2, 2], [12, 12, 12])
    """
    present, per_user = np.flatnonzero(class_sizes), options.classes_per_user
    if per_user > len(present):
        raise DataError(
            f"invalid value {per_user} for data.shards.classes_per_user: expected at most {len(present)} (classes)"
        )
    if num_users * per_user < len(present):
        raise DataError(
            f"shards: {num_users} users with {per_user} classes each cannot hold {len(present)} classes; "
            "increase data.num_users or data.shards.classes_per_user"
        )
    if options.holders == "random" and num_users < len(present):
        raise DataError(
            f"invalid value 'random' for data.shards.holders: expected at least {len(present)} users (classes), since "
            f"{num_users} might leave a class out; use even"
        )
    rng = generator(seed, "shards")
    deal = _deal_cards if options.holders == "even" else _draw_cards
    hands = present[deal(len(present), num_users, per_user, rng)]
    counts = np.zeros((num_users, len(class_sizes)), dtype=np.int64)
    for label in present:
        holders = rng.permutation(np.flatnonzero((hands == label).any(axis=1)))
        if class_sizes[label] < len(holders):
            raise DataError(
                f"shards: class {label} has {class_sizes[label]} samples for {len(holders)} users that should hold it; "
                "decrease data.num_users or data.shards.classes_per_user"
            )
        share, rest = divmod(int(class_sizes[label]), len(holders))
        counts[holders, label] = share + (np.arange(len(holders)) < rest)
    return counts


def _deal_cards(num_classes: int, num_users: int, per_user: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return `per_user` different classes for each user, int64[K, per_user], from one shuffled pack after another."""
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


def _draw_cards(num_classes: int, num_users: int, per_user: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return `per_user` different classes for each user, int64[K, per_user]: one in turn, the others at random."""
    first = np.arange(num_users) % num_classes
    order = rng.permuted(np.tile(np.arange(1, num_classes), (num_users, 1)), axis=1)
    others = (first[:, None] + order[:, : per_user - 1]) % num_classes
    return np.concatenate([first[:, None], others], axis=1)


PARTITION = Partition("k classes for each user", counts=shards, options=ShardsOptions)
