"""concept: groups of users whose images are rotated, or whose labels are permuted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedcast.data.assignment import Assignment
from fedcast.data.dataset import Dataset
from fedcast.data.partitions import Partition
from fedcast.data.partitions.iid import iid
from fedcast.errors import DataError
from fedcast.random import generator
from fedcast.registry import option


@dataclass(frozen=True)
class ConceptOptions:
    """Options of partition ``concept``."""

    change: Literal["rotation", "labels"] = option("rotation", "rotate the images of each group, or permute its labels")
    groups: int = option(4, "number of groups of users", ge=1)


def change_groups(dataset: Dataset, assignment: Assignment, options: ConceptOptions, seed: int) -> Dataset:
    """Rotate the images of group g by 360°·g/G, or permute its labels; group 0 and the test set are unchanged.

    User k is in group k mod G.
    """
    if options.groups > assignment.num_users:
        raise DataError(
            f"invalid value {options.groups} for data.concept.groups: expected at most the number of users "
            f"({assignment.num_users})"
        )
    rotates = options.change == "rotation"
    if rotates and len(dataset.sample_shape) != 3:
        raise DataError(
            f"invalid value 'rotation' for data.concept.change: dataset {dataset.name} has no images; use labels"
        )
    values = np.array(dataset.inputs if rotates else dataset.labels)
    group_of_sample = assignment.owners % options.groups
    for group in range(1, options.groups):
        samples = assignment.samples[group_of_sample == group]
        if rotates:
            values[samples] = _rotated(values[samples], 360.0 * group / options.groups)
        else:
            permutation = generator(seed, "concept-labels", user=group).permutation(dataset.num_classes)
            values[samples] = permutation[values[samples]]
    return replace(dataset, inputs=values) if rotates else replace(dataset, labels=values)


def _rotated(images: NDArray[Any], degrees: float) -> NDArray[Any]:
    quarter_turns = degrees / 90
    if quarter_turns.is_integer() and images.shape[-1] == images.shape[-2]:
        return np.rot90(images, int(quarter_turns), axes=(-2, -1))
    from scipy.ndimage import rotate

    turned: NDArray[Any] = rotate(images, degrees, axes=(-2, -1), reshape=False, order=1)
    return turned


PARTITION = Partition(
    "equal parts, images rotated or labels permuted per group",
    counts=iid,
    transform=change_groups,
    options=ConceptOptions,
)
