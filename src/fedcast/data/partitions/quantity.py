"""quantity: sizes are skewed by Dirichlet shares, each user's data are a random part of the whole."""

from __future__ import annotations

from dataclasses import dataclass

from fedcast.data.assignment import dirichlet_shares, ensure_minimum, random_deal, split_by_shares
from fedcast.data.partitions.base import Partition
from fedcast.random import generator
from fedcast.registry import option
from fedcast.typing import Ints


@dataclass(frozen=True)
class QuantityOptions:
    """Options of partition ``quantity``."""

    alpha: float = option(0.5, "concentration of the sizes; small values are skewed", gt=0)
    min_samples: int = option(1, "every user holds at least this many samples", ge=0)


def quantity(class_sizes: Ints, num_users: int, alpha: float, *, seed: int, min_samples: int = 1) -> Ints:
    """Class counts [K, Y] of users whose sizes follow Dir(alpha), every user at least `min_samples`.

    Example:
        >>> import numpy as np
        >>> sizes = quantity(np.array([500, 500]), 4, 0.5, seed=0).sum(axis=1)
        >>> int(sizes.sum()), bool(sizes.max() > 2 * sizes.min())
        (1000, True)
    """
    rng = generator(seed, "quantity")
    drawn = split_by_shares(int(class_sizes.sum()), dirichlet_shares(alpha, (num_users,), rng))
    sizes = ensure_minimum(drawn[:, None], min_samples, rng)[:, 0]
    return random_deal(class_sizes, sizes, rng)


def _counts(class_sizes: Ints, num_users: int, options: QuantityOptions, seed: int) -> Ints:
    return quantity(class_sizes, num_users, options.alpha, seed=seed, min_samples=options.min_samples)


PARTITION = Partition("random parts of unequal size", counts=_counts, options=QuantityOptions)
