"""Who trains in a round: a sample of the users, less those who drop out and those without data."""

from __future__ import annotations

import numpy as np

from fedcast.random import generator, user_uniform
from fedcast.typing import Ints


def asked_users(sizes: Ints, share: float) -> int:
    """How many users are asked in a round: that share of those who hold data, at least one.

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
    """Users of a round, ascending, int64[P].

    Args:
        sizes: samples of each user; users without any never train.
        share: part of the users that is asked, at least one user.
        dropout_probability: chance of each asked user not to answer.
        dropped: pairs (round, user) known not to answer.
        seed: of the choice.
        round_number: likewise.

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
