r"""Class counts with noise, for a planner that must not see the exact ones: the discrete Laplace mechanism.

A count gets a whole number k with probability proportional to :math:`e^{-\varepsilon |k|/2}`, since replacing a sample
changes two counts by one each. The number of samples of a user is public.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fedcast.random import user_uniform
from fedcast.typing import Ints

#: How far the counts of a user move together if one of its samples is replaced.
COUNTS_SENSITIVITY = 2


def noisy_counts(counts: Ints, epsilon: float, seed: int) -> Ints:
    """Return the counts of all users, int64[K, Y], as a planner sees them that each user answers with noise.

    Noise repeats with the seed: this simulates the answers of devices, which draw theirs in secret.

    Example:
        >>> noisy_counts(np.array([[50, 0, 10], [0, 30, 30]]), 1.0, seed=0).sum(axis=1).tolist()
        [60, 60]
    """
    users, classes = counts.shape
    drawn = [[_geometric(epsilon, seed, f"{label}/{part}", users) for label in range(classes)] for part in range(2)]
    return counts_of_size(counts + np.transpose(drawn[0]) - np.transpose(drawn[1]), counts.sum(axis=1))


def _geometric(epsilon: float, seed: int, purpose: str, users: int) -> Ints:
    """Draw k ≥ 0 with probability proportional to exp(−k·ε/2) for each user."""
    uniform = 1 - user_uniform(seed, f"noisy counts/{purpose}", range(users))  # above 0
    return np.floor(-np.log(uniform) * COUNTS_SENSITIVITY / epsilon).astype(np.int64)


def counts_of_size(noisy: Ints, sizes: ArrayLike) -> Ints:
    """Return counts ≥ 0, int64[..., Y], in the proportions of noisy ones that add up to numbers of samples [...]."""
    positive, wanted = np.maximum(noisy, 0).astype(np.float64), np.asarray(sizes)[..., None]
    totals = positive.sum(axis=-1, keepdims=True)
    shares = np.where(totals > 0, positive / np.maximum(totals, 1.0), 1 / noisy.shape[-1])
    edges = np.floor(np.cumsum(shares, axis=-1) * wanted + 0.5).astype(np.int64)
    edges[..., -1:] = wanted
    counts: Ints = np.diff(edges, axis=-1, prepend=0)
    return counts
