"""noise: random parts of equal size; user k = 1 … K adds Gaussian noise of variance level·k/K (feature skew)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedcast.data.assignment import Assignment
from fedcast.data.dataset import Dataset, scaled
from fedcast.data.partitions import Partition
from fedcast.data.partitions.iid import iid
from fedcast.errors import DataError
from fedcast.random import generator
from fedcast.registry import option


@dataclass(frozen=True)
class NoiseOptions:
    """Options of partition ``noise``."""

    level: float = option(0.1, "variance of the last user's noise; user k has level*k/K", ge=0)


def noise_std(num_users: int, level: float) -> NDArray[np.float64]:
    """Return the standard deviation of each user's noise, float64[K], as in NIID-Bench (Li et al. 2022).

    Example:
        >>> (noise_std(4, 0.1) ** 2).round(3).tolist()
        [0.025, 0.05, 0.075, 0.1]
    """
    return np.sqrt(level * np.arange(1, num_users + 1) / num_users)


def add_noise(dataset: Dataset, assignment: Assignment, options: NoiseOptions, seed: int) -> Dataset:
    """Return the dataset with each user's noise added to its samples, and a second, noisy test set.

    A noisy test sample has the noise of a random user.
    """
    if not isinstance(dataset.inputs, np.ndarray):
        raise DataError(
            f"invalid value 'noise' for data.partition: dataset {dataset.name} is text, and noise needs numbers"
        )
    noisy = scaled(dataset.inputs, dataset.scale)
    deviations = noise_std(assignment.num_users, options.level)
    for user, deviation in enumerate(deviations):
        samples = assignment.of(user)
        rng = generator(seed, "feature-noise", user=user)
        noisy[samples] += np.float32(deviation) * rng.standard_normal(noisy[samples].shape, np.float32)
    test = scaled(np.asarray(dataset.test_inputs), dataset.scale)
    rng = generator(seed, "test-noise")
    drawn = rng.choice(deviations, len(test)).astype(np.float32).reshape(-1, *[1] * (test.ndim - 1))
    noisy_test = test + rng.standard_normal(test.shape, np.float32) * drawn
    return replace(dataset, inputs=noisy, test_inputs=test, scale=1.0, noisy_test_inputs=noisy_test)


PARTITION = Partition(
    "equal parts, noise that grows from user to user", counts=iid, transform=add_noise, options=NoiseOptions
)
