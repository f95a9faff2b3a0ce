"""Which of many to show."""

from __future__ import annotations

import numpy as np

from fedcast.typing import Ints


def evenly(count: int, most: int) -> Ints:
    """Places of at most `most` of `count` things in a row, evenly spread, the first and the last among them.

    Example:
        >>> evenly(9, 5).tolist(), evenly(3, 5).tolist()
        ([0, 2, 4, 6, 8], [0, 1, 2])
    """
    places: Ints = np.round(np.linspace(0, count - 1, min(count, most))).astype(np.int64)
    return places
