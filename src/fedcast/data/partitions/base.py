"""What a partition is: class counts for every user, or a direct assignment; and what it promises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedcast.data.assignment import Assignment
from fedcast.data.dataset import Dataset
from fedcast.typing import Ints

if TYPE_CHECKING:
    from fedcast.scenario import Data


@dataclass(frozen=True)
class Partition:
    """One way to spread a dataset over users. Exactly one of `counts` and `assign` is set.

    Attributes:
        summary: one line for people.
        counts: (class_sizes[Y], settings, seed) → counts[K, Y]. It sees no sample, so that populations of any size can
            be made without a dataset.
        assign: (dataset, settings, seed) → assignment, where counts alone do not say who gets what.
        complete: every sample goes to exactly one user; else to at most one.
        transform: (dataset, assignment, settings, seed) → dataset whose samples look different for each user.
    """

    summary: str
    counts: Callable[[Ints, Data, int], Ints] | None = None
    assign: Callable[[Dataset, Data, int], Assignment] | None = None
    complete: bool = True
    transform: Callable[[Dataset, Assignment, Data, int], Dataset] | None = None
