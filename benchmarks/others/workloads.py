"""The workloads of BENCHMARKS and their data; needs numpy alone, so that any framework's environment can make them."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_MADE_AT_ONCE = 4096  # samples; the noise of all at once, in float64, would be the peak of every process's memory
_PATCH = 2  # side of a pattern's squares: pixels

_CHECKSUMS: dict[str, int] = {}


@dataclass(frozen=True)
class Workload:
    """One setting of BENCHMARKS."""

    name: str
    model: str
    shape: tuple[int, ...]
    num_users: int
    samples_per_user: int
    per_round: int
    batch_size: int
    epochs: int
    learning_rate: float
    loss_tolerance: float = 0.05  # ways shuffle differently, and Flower draws other users: felt where the loss falls

    @property
    def total(self) -> int:
        """Samples of all users."""
        return self.num_users * self.samples_per_user

    @property
    def samples(self) -> int:
        """Samples stepped through in a round."""
        return self.per_round * self.samples_per_user * self.epochs

    def of_user(self, user: int) -> slice:
        """Return the range of a user's samples: one user after another, all with as many."""
        return slice(user * self.samples_per_user, (user + 1) * self.samples_per_user)

    def participants(self, number: int) -> NDArray[np.int64]:
        """Return the users of a round, drawn anew in each."""
        rng = np.random.default_rng([number, self.num_users])
        return np.sort(rng.choice(self.num_users, self.per_round, replace=False)).astype(np.int64)


WORKLOADS = {
    "w1": Workload("w1", "cnn", (1, 28, 28), 100, 600, 10, 10, 1, 0.05),
    "w2": Workload("w2", "cnn", (1, 28, 28), 100, 600, 100, 32, 1, 0.05),
    "w3": Workload("w3", "mlp", (1, 8, 8), 100, 14, 100, 10, 5, 0.05),
    "gpu_w1": Workload("gpu_w1", "cnn", (1, 28, 28), 100, 600, 100, 10, 1, 0.05),
    "gpu_w4": Workload("gpu_w4", "vgg16", (3, 32, 32), 50, 200, 50, 32, 1, 0.01, loss_tolerance=0.2),
}


def make_samples(work: Workload) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Noise over one coarse pattern per class, so that a few rounds bring the loss down and losses can be compared."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, work.total)
    channels, height, width = work.shape
    coarse = rng.random((10, channels, height // _PATCH, width // _PATCH)) < 0.25
    patterns = np.kron(coarse, np.ones((_PATCH, _PATCH)))
    images = np.empty((work.total, *work.shape), dtype=np.uint8)
    for start in range(0, work.total, _MADE_AT_ONCE):
        some = slice(start, min(start + _MADE_AT_ONCE, work.total))
        noise = rng.random((some.stop - some.start, *work.shape))
        images[some] = (0.7 * patterns[labels[some]] + 0.3 * noise) * 255
    _CHECKSUMS[work.name] = zlib.crc32(labels.tobytes(), zlib.crc32(images.tobytes()))
    return images, labels


def scaled_samples(work: Workload) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return them as numbers in [0, 1], for frameworks that leave the conversion to their user."""
    images, labels = make_samples(work)
    return images.astype(np.float32) / np.float32(255), labels


def checksum(work: Workload) -> int:
    """Of samples and labels: numpy may differ between environments, the data may not."""
    if work.name not in _CHECKSUMS:
        make_samples(work)
    return _CHECKSUMS[work.name]
