"""quantity: random parts of unequal size."""

from __future__ import annotations

from dataclasses import dataclass

from fedcast.data.assignment import dirichlet_shares, ensure_minimum, random_deal, split_by_shares
from fedcast.data.partitions import Partition
from fedcast.random import generator
from fedcast.registry import option
from fedcast.typing import Ints


@dataclass(frozen=True)
class QuantityOptions:
    """Options of partition ``quantity``."""

    alpha: float = option(0.5, "concentration of the sizes; small values are skewed", gt=0)
    min_samples: int = option(1, "every user holds at least this many samples", ge=0)


def quantity(class_sizes: Ints, num_users: int, options: QuantityOptions, seed: int) -> Ints:
    """Return the class counts [K, Y] of users whose sizes are drawn from Dir(alpha).

    Example:
        >>> import numpy as np
        >>> sizes = quantity(np.array([500, 500]), 4, QuantityOptions(alpha=0.5), seed=0).sum(axis=1)
        >>> int(sizes.sum()), bool(sizes.max() > 2 * sizes.min())
        (1000, True)
    """
    rng = generator(seed, "quantity")
    drawn = split_by_shares(int(class_sizes.sum()), dirichlet_shares(options.alpha, (num_users,), rng))
    sizes = ensure_minimum(drawn[:, None], options.min_samples, rng)[:, 0]
    return random_deal(class_sizes, sizes, rng)


PARTITION = Partition("random parts of unequal size", counts=quantity, options=QuantityOptions)
