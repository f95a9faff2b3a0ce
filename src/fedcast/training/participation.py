"""Choose the users of a round: a sample of those with data, without those that drop out."""

from __future__ import annotations

import numpy as np

from fedcast.random import generator, user_uniform
from fedcast.typing import Ints


def asked_users(sizes: Ints, share: float) -> int:
    """Return how many users are chosen in a round: a share of those that hold data, at least one.

    Example:
        >>> asked_users(np.array([3, 0, 5, 2]), 0.5)
        2
    """
    able = np.count_nonzero(sizes)
    return max(1, round(share * able)) if share < 1 else int(able)


def participants(
    sizes: Ints,
    share: float,
    dropout_probability: float,
    dropped: set[tuple[int, int]],
    *,
    seed: int,
    round_number: int,
) -> Ints:
    """Return the users of a round, ascending: a share of those with samples, without those that drop out.

    Users drop out by chance, or in pairs (round, user) of `dropped`.

    Example:
        >>> participants(np.array([3, 0, 5]), 1.0, 0.0, {(2, 2)}, seed=0, round_number=2).tolist()
        [0]
    """
    able = np.flatnonzero(sizes > 0)
    asked = able
    if share < 1:
        rng = generator(seed, "participants", round=round_number)
        asked = np.sort(rng.choice(able, asked_users(sizes, share), replace=False))
    if dropout_probability:
        answers = user_uniform(seed, f"dropout/{round_number}", asked) >= dropout_probability
        asked = asked[answers]
    return np.array([user for user in asked if (round_number, int(user)) not in dropped], dtype=np.int64)
