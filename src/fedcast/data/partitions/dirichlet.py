"""dirichlet: each class is split over the users by Dirichlet shares (Yurochkin et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcast.data.assignment import dirichlet_shares, ensure_minimum, split_by_shares
from fedcast.data.partitions import Partition
from fedcast.random import generator
from fedcast.registry import option
from fedcast.typing import Ints


@dataclass(frozen=True)
class DirichletOptions:
    """Options of partition ``dirichlet``."""

    alpha: float = option(0.1, "concentration; small values are skewed", gt=0)
    min_samples: int = option(1, "every user holds at least this many samples", ge=0)
    balanced: bool = option(False, "users that hold 1/K of all samples get no further class, as in NIID-Bench")


def dirichlet(class_sizes: Ints, num_users: int, options: DirichletOptions, seed: int) -> Ints:
    """Return the class counts [K, Y]; every class is split by its own draw from Dir(alpha) over the users.

    Users with fewer than `min_samples` get samples of the largest users in one pass, instead of redrawing the whole
    partition until every user has enough. With `balanced`, classes are split one after another, and users that already
    hold n/K samples have no part in the next.

    Example:
        >>> counts = dirichlet(np.array([50, 50]), 10, DirichletOptions(alpha=0.01), seed=0)
        >>> counts.sum(axis=0).tolist(), bool((counts.sum(axis=1) >= 1).all())
        ([50, 50], True)
    """
    rng = generator(seed, "dirichlet")
    shares = dirichlet_shares(options.alpha, (num_users, len(class_sizes)), rng)
    counts = np.zeros((num_users, len(class_sizes)), dtype=np.int64)
    for label, total in enumerate(class_sizes):
        # Not all users are full: before the last class they hold fewer than all samples together.
        full = options.balanced & (counts.sum(axis=1) * num_users >= class_sizes.sum())
        part = np.where(full, 0.0, shares[:, label])
        # For a tiny alpha the shares of all others may be 0; they then get equal parts.
        counts[:, label] = split_by_shares(int(total), part if part.any() else (~full).astype(np.float64))
    return ensure_minimum(counts, options.min_samples, rng)


PARTITION = Partition("classes split by Dirichlet shares", counts=dirichlet, options=DirichletOptions)
