"""The schedule of a round: in which lane each user steps, and on which samples.

Users of different size share a few lanes, one after another, so that few steps are taken with an empty lane. The
samples of a step depend on (seed, round, epoch, user) alone.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fedcast.data import Assignment
from fedcast.random import hash_words, stream_key
from fedcast.typing import Floats, Ints

_OWNER_BITS = np.uint64(24)

# Fewer lanes are preferred if they need at most a twentieth more steps.
STEPS_TOLERANCE = 1.05
# Numbers of lanes above those that fill a device of which the best is taken.
_TRIED = 32


@dataclass(frozen=True)
class Lanes:
    """Lane, first step and step after the last of each user of a block, [U] each, and the number of lanes."""

    lane: Ints
    first: Ints
    end: Ints
    count: int

    @property
    def length(self) -> int:
        """Number of steps until the last user ends."""
        return int(self.end.max(initial=0))


def fill_lanes(steps: Ints, count: int) -> Lanes:
    """Give each user the lane that is free first, users with the most steps first.

    Example:
        >>> lanes = fill_lanes(np.array([2, 5, 3]), 2)
        >>> lanes.lane.tolist(), lanes.first.tolist(), lanes.length
        ([1, 0, 1], [3, 0, 0], 5)
    """
    lane, first = np.zeros(len(steps), dtype=np.int64), np.zeros(len(steps), dtype=np.int64)
    free = [(0, number) for number in range(count)]
    for user in np.argsort(-steps, kind="stable"):
        first[user], lane[user] = free[0]
        heapq.heapreplace(free, (int(first[user] + steps[user]), int(lane[user])))
    return Lanes(lane, first, first + steps, count)


def useful_lanes(steps: Ints, most: int, filling: int) -> int:
    """Return the fewest lanes that train a block in about the least time.

    Args:
        steps: steps of each user.
        most: the most lanes to use.
        filling: with more lanes than these a step takes longer in proportion, since they keep the device busy; with
            fewer it takes as long.
    """
    most = max(1, min(most, len(steps)))
    if len(steps) <= most and np.ptp(steps) == 0:
        return len(steps)
    fewest = min(filling, most)
    tried = range(fewest, most + 1, 1 + (most - fewest) // _TRIED)
    best = min(tried, key=lambda count: _time(steps, count, fewest))
    limit = STEPS_TOLERANCE * fill_lanes(steps, best).length
    candidates = range(1, best + 1)
    return candidates[bisect_left(candidates, True, key=lambda count: fill_lanes(steps, count).length <= limit)]


def rounded_lanes(steps: Ints, most: int, filling: int, *, always: bool = True) -> int:
    """Return `useful_lanes`, rounded so that few numbers of lanes are ever used.

    Args:
        steps: steps of each user.
        most: the most lanes to use.
        filling: number of lanes that keep the device busy.
        always: whether to round up also where that takes longer than `STEPS_TOLERANCE`; else the number is kept there.

    Example:
        >>> steps = np.arange(10, 30)
        >>> useful_lanes(steps, 20, 20), rounded_lanes(steps, 20, 20)
        (15, 16)
    """
    useful = useful_lanes(steps, most, filling)
    grain = 1 << max(0, useful.bit_length() - 3)
    down, up = useful // grain * grain, min(most, -(-useful // grain) * grain)
    best = min(down, up, key=lambda count: _time(steps, count, filling))
    if _time(steps, best, filling) <= STEPS_TOLERANCE * _time(steps, useful, filling):
        return best
    return up if always else useful


def _time(steps: Ints, count: int, filling: int) -> int:
    """Return the time of a block, in steps of one lane."""
    return fill_lanes(steps, count).length * max(count, filling)


def stretches(lanes: Lanes) -> Iterator[tuple[int, int, Ints, Ints]]:
    """Yield ranges of steps in which no user begins or ends: (start, stop, users that begin, users that end)."""
    begin, end = np.argsort(lanes.first, kind="stable"), np.argsort(lanes.end, kind="stable")
    stops = np.unique(lanes.end)
    starts = np.concatenate([[0], stops[:-1]])
    begins = np.searchsorted(lanes.first[begin], [*starts, lanes.length])
    ends = np.searchsorted(lanes.end[end], [0, *stops], side="right")
    for place, (start, stop) in enumerate(zip(starts, stops, strict=True)):
        yield int(start), int(stop), begin[begins[place] : begins[place + 1]], end[ends[place] : ends[place + 1]]


def steps_of(sizes: Ints, batch_size: int, epochs: int) -> Ints:
    """Return the local steps of users in a round; the last batch of an epoch may be smaller."""
    return epochs * -(-sizes // batch_size)


def batches_of(
    data: Assignment,
    users: Ints,
    batch: int,
    epochs: int,
    *,
    seed: int,
    round_number: int,
    views: int = 1,
    num_samples: int = 0,
    lanes: Lanes | None = None,
) -> tuple[Ints, Floats]:
    """Shuffle each user's samples in each epoch and cut them into batches.

    Return the samples of steps and lanes, [S, L, B], and weights 1/(samples in the batch), 0 in unused places. The
    order is that of a hash of (seed, round, epoch, user, position), so that it does not change with other users.
    Without `lanes` every user has a lane of its own. With several `views` (see `DeviceData`) a view of each sample is
    drawn likewise, which adds a multiple of `num_samples` to its number.
    """
    sizes = data.sizes[users]
    row = np.repeat(np.arange(len(users)), sizes)
    position = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    held = data.samples[np.repeat(data.offsets[users], sizes) + position]
    key_of_sample = hash_words(users[row], position)
    per_epoch = -(-sizes // batch)
    lanes = lanes or Lanes(np.arange(len(users)), np.zeros_like(sizes), epochs * per_epoch, len(users))
    samples = np.zeros((lanes.length, lanes.count, batch), dtype=np.int64)
    weights = np.zeros((lanes.length, lanes.count, batch))
    step_in_epoch, slot = position // batch, position % batch
    # All epochs at once, [epochs, samples].
    keys = np.array([stream_key(seed, f"batches/{round_number}/{epoch}") for epoch in range(epochs)])
    owner = row.astype(np.uint64) << (np.uint64(64) - _OWNER_BITS)
    order = np.argsort(owner | (hash_words(key_of_sample, keys[:, None]) >> _OWNER_BITS), axis=1, kind="stable")
    step = lanes.first[row] + step_in_epoch + np.arange(epochs)[:, None] * per_epoch[row]
    lane = lanes.lane[row]
    samples[step, lane, slot] = held[order]
    if views > 1:
        keys = np.array([stream_key(seed, f"views/{round_number}/{epoch}") for epoch in range(epochs)])
        drawn = hash_words(key_of_sample, keys[:, None]) % np.uint64(views)
        samples[step, lane, slot] += drawn.astype(np.int64) * num_samples
    weights[step, lane, slot] = 1.0 / np.minimum(sizes[row] - step_in_epoch * batch, batch)
    return samples, weights
