"""concept: the same label looks different in each group of users, or the same input is labelled differently."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedcast.data.assignment import Assignment
from fedcast.data.dataset import Dataset
from fedcast.data.partitions import iid
from fedcast.data.partitions.base import Partition
from fedcast.errors import DataError
from fedcast.random import generator
from fedcast.registry import option
from fedcast.typing import Ints

_FULL_TURN_DEGREES = 360.0


@dataclass(frozen=True)
class ConceptOptions:
    """Options of partition ``concept``."""

    change: Literal["rotation", "labels"] = option("rotation", "rotate the images of each group, or permute its labels")
    groups: int = option(4, "number of groups of users", ge=1)


def group_of(num_users: int, num_groups: int) -> Ints:
    """Groups in turn: user k is in group k mod G; group 0 is left as it is."""
    return np.arange(num_users) % num_groups


def rotate_groups(dataset: Dataset, assignment: Assignment, num_groups: int) -> Dataset:
    """Turn the images of group g by 360°·g/G: same labels, other features. The test set stays upright."""
    if not isinstance(dataset.inputs, np.ndarray) or dataset.inputs.ndim != 4:
        raise DataError(
            f"data.concept.change = rotation: dataset {dataset.name} has no images; use data.concept.change = labels"
        )
    inputs = dataset.inputs.copy()
    owners, groups = assignment.owners, group_of(assignment.num_users, num_groups)
    for group in range(1, num_groups):
        samples = assignment.samples[groups[owners] == group]
        inputs[samples] = _rotated(inputs[samples], _FULL_TURN_DEGREES * group / num_groups)
    return replace(dataset, inputs=inputs)


def _rotated(images: NDArray[Any], degrees: float) -> NDArray[Any]:
    quarter_turns = degrees / 90
    if quarter_turns.is_integer() and images.shape[-1] == images.shape[-2]:
        return np.rot90(images, int(quarter_turns), axes=(-2, -1))
    from scipy.ndimage import rotate

    turned: NDArray[Any] = rotate(images, degrees, axes=(-2, -1), reshape=False, order=1)
    return turned


def permute_labels(dataset: Dataset, assignment: Assignment, num_groups: int, *, seed: int) -> Dataset:
    """Permute the labels of each group: same features, other labels. The test set keeps the true ones."""
    labels = dataset.labels.copy()
    owners, groups = assignment.owners, group_of(assignment.num_users, num_groups)
    for group in range(1, num_groups):
        permutation = generator(seed, "concept-labels", user=group).permutation(dataset.num_classes)
        samples = assignment.samples[groups[owners] == group]
        labels[samples] = permutation[labels[samples]]
    return replace(dataset, labels=labels)


def _transform(dataset: Dataset, assignment: Assignment, options: ConceptOptions, seed: int) -> Dataset:
    if options.groups > assignment.num_users:
        raise DataError(
            f"invalid value {options.groups} for data.concept.groups: expected at most the number of users "
            f"({assignment.num_users})"
        )
    if options.change == "rotation":
        return rotate_groups(dataset, assignment, options.groups)
    return permute_labels(dataset, assignment, options.groups, seed=seed)


PARTITION = Partition(
    "equal parts, images turned or labels permuted per group",
    counts=iid.PARTITION.counts,
    transform=_transform,
    options=ConceptOptions,
)
