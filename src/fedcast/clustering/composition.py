"""What a head sends: a random part of its data, or a part as equal over classes as its data allow."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fedcast.data import Skew
from fedcast.typing import Floats

# Rows handled at once: their temporaries stay in the processor's cache.
BLOCK = 16_384


def water_fill(counts: ArrayLike, volumes: ArrayLike) -> Floats:
    r"""Take `volumes` samples out of `counts`, as equally over the columns as they allow.

    .. math:: s_y = \min(c_y, \ell), \qquad \ell \text{ such that } \sum_y s_y = N

    Among all choices with :math:`0 \le s_y \le c_y` and sum N, this one has the largest smallest part, and is the
    nearest to equal parts in every convex distance.

    Args:
        counts: float[..., Y], what there is, not negative.
        volumes: float[...], how much to take, at most the sum of the row.

    Returns:
        float64[..., Y], what is taken from each column.

    Example:
        >>> water_fill([10, 1, 5], 9).tolist()
        [4.0, 1.0, 4.0]
    """
    table, wanted = np.asarray(counts, dtype=np.float64), np.asarray(volumes, dtype=np.float64)
    columns = table.shape[-1]
    ascending = np.sort(table, axis=-1)
    before = np.cumsum(ascending, axis=-1) - ascending
    open_columns = columns - np.arange(columns)
    # Column i of the sorted row is the first that the level leaves partly unused.
    first_open = (before + open_columns * ascending < wanted[..., None]).sum(axis=-1, keepdims=True)
    first_open = np.minimum(first_open, columns - 1)
    rest = wanted[..., None] - np.take_along_axis(before, first_open, axis=-1)
    taken: Floats = np.minimum(table, rest / open_columns[first_open])
    return taken


def balanced_mixes(skew: Skew, volumes: Floats) -> Floats:
    """The distribution of the most equal part of each user's data that has `volumes` samples, float64[K, Y].

    A user that sends nothing keeps its own distribution.

    Example:
        >>> from fedcast.data import skew_of
        >>> balanced_mixes(skew_of([[90, 10], [98, 2]]), np.array([10.0, 10.0])).tolist()
        [[0.5, 0.5], [0.8, 0.2]]
    """
    mixes = skew.distributions.copy()
    for start in range(0, len(mixes), BLOCK):
        rows = start + np.flatnonzero(volumes[start : start + BLOCK] > 0)
        taken = water_fill(skew.sizes[rows, None] * skew.distributions[rows], volumes[rows])
        mixes[rows] = taken / taken.sum(axis=1, keepdims=True)
    return mixes
