"""Partitions from a `flwr-datasets` partitioner (extra ``fedcast[flwr-datasets]``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedcast.data.assignment import Assignment, assignment_from_owners
from fedcast.data.dataset import Dataset
from fedcast.errors import DataError

if TYPE_CHECKING:
    from flwr_datasets.partitioner import Partitioner

_SAMPLE = "fedcast_sample"


def assignment_from_flwr(dataset: Dataset, partitioner: Partitioner, label_column: str = "label") -> Assignment:
    """Return the assignment that a flwr-datasets partitioner makes of a dataset.

    The partitioner must have no dataset yet. It gets the labels as `label_column`, the natural owners as ``group`` and
    the number of each training sample, but no inputs.
    """
    try:
        import datasets
    except ImportError:
        raise DataError('flwr-datasets is not installed: pip install "fedcast[flwr-datasets]"') from None
    columns = {label_column: dataset.labels, _SAMPLE: np.arange(len(dataset))}
    if dataset.groups is not None:
        columns["group"] = dataset.groups
    partitioner.dataset = datasets.Dataset.from_dict(columns)
    parts = [
        np.asarray(partitioner.load_partition(user)[_SAMPLE], dtype=np.int64)
        for user in range(partitioner.num_partitions)
    ]
    owners = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    return assignment_from_owners(owners, np.concatenate(parts), len(parts))
