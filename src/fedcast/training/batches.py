"""Which samples each user steps through in a round: a function of (seed, round, epoch, user), nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcast.data.assignment import Assignment
from fedcast.random import hash_words, stream_key

Ints = NDArray[np.int64]

_OWNER_BITS = np.uint64(24)


@dataclass(frozen=True)
class Batches:
    """The steps of a block of users.

    Attributes:
        samples: int64[S, U, B]; where nothing is left, sample 0.
        weights: float64[S, U, B]; 1/(samples in the batch), 0 where nothing is left.
        steps: int64[U], steps of each user.
    """

    samples: Ints
    weights: NDArray[np.float64]
    steps: Ints


def steps_of(sizes: Ints, batch_size: int, epochs: int) -> Ints:
    """Local steps of users in a round: every epoch ends with a smaller batch if need be."""
    return epochs * -(-sizes // batch_size)


def batches_of(
    data: Assignment,
    users: Ints,
    batch_size: int,
    epochs: int,
    *,
    seed: int,
    round_number: int,
    num_steps: int | None = None,
) -> Batches:
    """Shuffle each user's samples in each epoch and cut them into batches.

    The order is that of a hash of (seed, round, epoch, user, position), so that it does not change with other users.

    Args:
        data: who trains on what, after sharing.
        users: int64[U], who steps.
        batch_size: samples of a step.
        epochs: passes over a user's samples.
        seed: of the shuffles.
        round_number: likewise.
        num_steps: pad to so many steps; default: the most any of these users has.
    """
    sizes = data.sizes[users]
    row = np.repeat(np.arange(len(users)), sizes)
    position = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    held = data.samples[np.repeat(data.offsets[users], sizes) + position]
    key_of_sample = hash_words(users[row], position)
    per_epoch = -(-sizes // batch_size)
    steps = epochs * per_epoch
    length = int(steps.max(initial=0)) if num_steps is None else num_steps
    samples = np.zeros((length, len(users), batch_size), dtype=np.int64)
    weights = np.zeros((length, len(users), batch_size))
    step_in_epoch, slot = position // batch_size, position % batch_size
    batch_fill = np.minimum(sizes[row] - step_in_epoch * batch_size, batch_size)
    for epoch in range(epochs):
        key = hash_words(key_of_sample, stream_key(seed, f"batches/{round_number}/{epoch}"))
        order = np.argsort(
            (row.astype(np.uint64) << (np.uint64(64) - _OWNER_BITS)) | (key >> _OWNER_BITS), kind="stable"
        )
        step = epoch * per_epoch[row] + step_in_epoch
        samples[step, row, slot] = held[order]
        weights[step, row, slot] = 1.0 / batch_fill
    return Batches(samples, weights, steps)
