"""noise: feature skew. Random parts of equal size; user k = 1 … K adds Gaussian noise of variance level·k/K."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedcast.data.assignment import Assignment
from fedcast.data.dataset import Dataset, scaled
from fedcast.data.partitions import iid
from fedcast.data.partitions.base import Partition
from fedcast.errors import DataError
from fedcast.random import generator
from fedcast.registry import option


@dataclass(frozen=True)
class NoiseOptions:
    """Options of partition ``noise``."""

    level: float = option(0.1, "variance of the last user's noise; user k has level*k/K", ge=0)


def noise_std(num_users: int, level: float) -> NDArray[np.float64]:
    """Standard deviation of each user's noise, float64[K], as in NIID-Bench (Li et al. 2022).

    Example:
        >>> (noise_std(4, 0.1) ** 2).round(3).tolist()
        [0.025, 0.05, 0.075, 0.1]
    """
    deviations: NDArray[np.float64] = np.sqrt(level * np.arange(1, num_users + 1) / num_users)
    return deviations


def add_noise(dataset: Dataset, assignment: Assignment, level: float, *, seed: int) -> Dataset:
    """The dataset with every user's noise on its samples, drawn once, and a noisy twin of the clean test set."""
    clean = _images(dataset)
    noisy = scaled(clean, dataset.scale)
    for user, deviation in enumerate(noise_std(assignment.num_users, level)):
        samples = assignment.of(user)
        drawn = generator(seed, "feature-noise", user=user).standard_normal(
            (len(samples), *clean.shape[1:]), np.float32
        )
        noisy[samples] += np.float32(deviation) * drawn
    test = scaled(np.asarray(dataset.test_inputs), dataset.scale)
    mixed = _as_if_held(test, noise_std(assignment.num_users, level), seed)
    return replace(dataset, inputs=noisy, test_inputs=test, scale=1.0, noisy_test_inputs=mixed)


def _as_if_held(inputs: NDArray[np.float32], deviations: NDArray[np.float64], seed: int) -> NDArray[np.float32]:
    """Each input with the noise of a user drawn at random: the mixture that all users together have."""
    rng = generator(seed, "test-noise")
    drawn = rng.choice(deviations, len(inputs)).astype(np.float32)
    return inputs + rng.standard_normal(inputs.shape, np.float32) * drawn.reshape(-1, *[1] * (inputs.ndim - 1))


def _images(dataset: Dataset) -> NDArray[np.generic]:
    if not isinstance(dataset.inputs, np.ndarray):
        raise DataError(f"data.partition = noise: dataset {dataset.name} is text; noise needs numbers")
    return dataset.inputs


def _transform(dataset: Dataset, assignment: Assignment, options: NoiseOptions, seed: int) -> Dataset:
    return add_noise(dataset, assignment, options.level, seed=seed)


PARTITION = Partition(
    "equal parts, noise that grows from user to user",
    counts=iid.PARTITION.counts,
    transform=_transform,
    options=NoiseOptions,
)
