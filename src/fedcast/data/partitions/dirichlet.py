"""dirichlet: each class is split over the users by Dirichlet shares (Hsu et al. 2019, as in NIID-Bench)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedcast.data.assignment import dirichlet_shares, ensure_minimum, split_by_shares
from fedcast.data.partitions.base import Partition
from fedcast.random import generator
from fedcast.typing import Ints

if TYPE_CHECKING:
    from fedcast.scenario import Data


def dirichlet(class_sizes: Ints, num_users: int, alpha: float, *, seed: int, min_samples: int = 1) -> Ints:
    """Class counts [K, Y]; every class is split by its own draw from Dir(alpha) over the users.

    Users short of `min_samples` get them from the largest users in one pass, instead of drawing again until chance
    obliges, so that many users and tiny alpha take no longer than others.

    Example:
        >>> counts = dirichlet(np.array([50, 50]), 10, 0.01, seed=0)
        >>> counts.sum(axis=0).tolist(), bool((counts.sum(axis=1) >= 1).all())
        ([50, 50], True)
    """
    rng = generator(seed, "dirichlet")
    shares = dirichlet_shares(alpha, (num_users, len(class_sizes)), rng)
    columns = [split_by_shares(int(total), shares[:, label]) for label, total in enumerate(class_sizes)]
    return ensure_minimum(np.stack(columns, axis=1), min_samples, rng)


def _counts(class_sizes: Ints, data: Data, seed: int) -> Ints:
    return dirichlet(class_sizes, data.num_users, data.alpha, seed=seed, min_samples=data.min_samples)


PARTITION = Partition("classes split by Dirichlet shares", counts=_counts)
