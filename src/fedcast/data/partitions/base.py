"""What a partition is: class counts for every user, or a direct assignment; and what it promises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fedcast.data.assignment import Assignment
from fedcast.data.dataset import Dataset
from fedcast.registry import NoOptions
from fedcast.typing import Ints


@dataclass(frozen=True)
class Partition:
    """One way to spread a dataset over users. Exactly one of `counts` and `assign` is set.

    Attributes:
        summary: one line that says what it does.
        counts: (class_sizes[Y], num_users, options, seed) → counts[K, Y]. It sees no sample, so that populations of any
            size can be made without a dataset.
        assign: (dataset, num_users, options, seed) → assignment, where counts alone do not say who gets what.
        complete: every sample goes to exactly one user; else to at most one.
        transform: (dataset, assignment, options, seed) → dataset whose samples look different for each user.
        options: dataclass of its options, the table ``[data.NAME]``.
    """

    summary: str
    counts: Callable[[Ints, int, Any, int], Ints] | None = None
    assign: Callable[[Dataset, int, Any, int], Assignment] | None = None
    complete: bool = True
    transform: Callable[[Dataset, Assignment, Any, int], Dataset] | None = None
    options: type[Any] = NoOptions
