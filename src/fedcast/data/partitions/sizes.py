"""How many samples each user gets when sizes are meant to be equal."""

from __future__ import annotations

import numpy as np

from fedcast.errors import DataError
from fedcast.typing import Ints


def equal_sizes(class_sizes: Ints, num_users: int) -> Ints:
    """All samples over K users, sizes equal to within one, int64[K].

    Example:
        >>> equal_sizes(np.array([7]), 3).tolist()
        [3, 2, 2]
    """
    total = require_one_each(class_sizes, num_users)
    return np.where(np.arange(num_users) < total % num_users, total // num_users + 1, total // num_users)


def require_one_each(class_sizes: Ints, num_users: int) -> int:
    """The number of samples; an error if there are fewer than users."""
    total = int(class_sizes.sum())
    if total < num_users:
        raise DataError(f"data.num_users = {num_users}: only {total} samples; every user needs at least one")
    return total
