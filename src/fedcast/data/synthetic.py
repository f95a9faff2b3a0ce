"""synthetic: class counts without samples, for populations of any size."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedcast.data.catalogue import DatasetEntry
from fedcast.data.dataset import Dataset
from fedcast.errors import DataError
from fedcast.registry import option
from fedcast.typing import Ints

SYNTHETIC = "synthetic"


@dataclass(frozen=True)
class SyntheticOptions:
    """Options of dataset ``synthetic``."""

    samples_per_user: int = option(600, "mean samples of a user", ge=1)
    num_classes: int = option(10, "number of classes", ge=1)


def synthetic_class_sizes(num_users: int, options: SyntheticOptions) -> Ints:
    """Return the samples of each class, int64[Y]: equal to within one."""
    total, classes = num_users * options.samples_per_user, options.num_classes
    return np.full(classes, total // classes) + (np.arange(classes) < total % classes)


def _no_samples(_options: Any, _data_dir: str | Path | None) -> Dataset:
    raise DataError("invalid value 'synthetic' for data.dataset: it has class counts, but no samples to load")


DATASET = DatasetEntry(_no_samples, "class counts without samples, any number of users", "", (), SyntheticOptions)
