"""Which samples each user steps through in a round: a function of (seed, round, epoch, user), nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcast.data import Assignment
from fedcast.random import hash_words, stream_key
from fedcast.training.lanes import Lanes, own_lanes
from fedcast.typing import Ints

_OWNER_BITS = np.uint64(24)


@dataclass(frozen=True)
class Batches:
    """The steps of a block of users.

    Attributes:
        samples: int64[S, L, B] of steps and lanes; where nothing is left, sample 0.
        weights: float64[S, L, B]; 1/(samples in the batch), 0 where nothing is left.
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
    lanes: Lanes | None = None,
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
        lanes: where each user steps; default: a lane for each.
    """
    sizes = data.sizes[users]
    row = np.repeat(np.arange(len(users)), sizes)
    position = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    held = data.samples[np.repeat(data.offsets[users], sizes) + position]
    key_of_sample = hash_words(users[row], position)
    per_epoch = -(-sizes // batch_size)
    steps = epochs * per_epoch
    lanes = lanes or own_lanes(steps)
    samples = np.zeros((lanes.length, lanes.count, batch_size), dtype=np.int64)
    weights = np.zeros((lanes.length, lanes.count, batch_size))
    step_in_epoch, slot = position // batch_size, position % batch_size
    # All epochs at once, [epochs, samples].
    keys = np.array([stream_key(seed, f"batches/{round_number}/{epoch}") for epoch in range(epochs)])
    owner = row.astype(np.uint64) << (np.uint64(64) - _OWNER_BITS)
    order = np.argsort(owner | (hash_words(key_of_sample, keys[:, None]) >> _OWNER_BITS), axis=1, kind="stable")
    step = lanes.first[row] + step_in_epoch + np.arange(epochs)[:, None] * per_epoch[row]
    lane = lanes.lane[row]
    samples[step, lane, slot] = held[order]
    weights[step, lane, slot] = 1.0 / np.minimum(sizes[row] - step_in_epoch * batch_size, batch_size)
    return Batches(samples, weights, steps)
