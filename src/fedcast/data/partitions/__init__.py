"""Partitions of a dataset over users, one file each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fedcast.data.assignment import Assignment
from fedcast.data.dataset import Dataset
from fedcast.errors import DataError
from fedcast.registry import NoOptions, Values, find
from fedcast.typing import Ints

__all__ = ["PARTITIONS", "Partition", "check_one_each", "find_partition"]


@dataclass(frozen=True)
class Partition:
    """A method to divide a dataset among users. Exactly one of `counts` and `assign` is set."""

    summary: str  #: one line that describes it
    #: (class_sizes[Y], num_users, options, seed) → counts[K, Y]; it needs no dataset
    counts: Callable[[Ints, int, Any, int], Ints] | None = None
    #: (dataset, num_users, options, seed) → assignment, where class counts are not sufficient
    assign: Callable[[Dataset, int, Any, int], Assignment] | None = None
    complete: bool = True  #: whether every sample is assigned to a user; otherwise some may be left over
    #: (dataset, assignment, options, seed) → dataset with samples changed depending on their user
    transform: Callable[[Dataset, Assignment, Any, int], Dataset] | None = None
    options: type[Any] = NoOptions  #: dataclass of its options, the table ``[data.NAME]``


PARTITIONS: Values[Partition] = Values("partition")


def find_partition(name: str) -> Partition:
    """Return the partition of that name."""
    partition: Partition = find("partition", name).value
    return partition


def check_one_each(class_sizes: Ints, num_users: int) -> int:
    """Return the number of samples, or raise an error if there are fewer samples than users."""
    total = int(class_sizes.sum())
    if total < num_users:
        raise DataError(
            f"invalid value {num_users} for data.num_users: expected at most {total} (samples), "
            "since every user needs at least one"
        )
    return total
