"""Who steps where: users of unequal size share a few lanes, so that hardly a step is taken for nobody."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fedcast.typing import Ints

# A twentieth more steps is a fair price for lanes that need not be held and stepped.
AS_SOON = 1.05


@dataclass(frozen=True)
class Lanes:
    """Users in lanes, one after another.

    Attributes:
        lane: int64[U], of each user.
        first: int64[U], the step at which each user begins.
        end: int64[U], the step before which each user ends.
        count: lanes there are.
    """

    lane: Ints
    first: Ints
    end: Ints
    count: int

    @property
    def length(self) -> int:
        """Steps until the last user ends."""
        return int(self.end.max(initial=0))


def own_lanes(steps: Ints) -> Lanes:
    """A lane for each user."""
    return Lanes(np.arange(len(steps)), np.zeros(len(steps), dtype=np.int64), steps, len(steps))


def fill_lanes(steps: Ints, count: int) -> Lanes:
    """Give each user the lane that is free first, those with the most steps before the others.

    Args:
        steps: int64[U], of each user.
        count: of lanes.

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


def useful_lanes(steps: Ints, most: int) -> int:
    """The fewest lanes that end about as soon as `most` would: more would mostly wait for the longest user.

    Example:
        >>> useful_lanes(np.array([10, 4, 3, 3]), 4), useful_lanes(np.array([5] * 10), 8)
        (2, 5)
    """
    most = max(1, min(most, len(steps)))
    if len(steps) <= most and np.ptp(steps) == 0:
        return len(steps)
    soon = AS_SOON * fill_lanes(steps, most).length
    candidates = range(1, most + 1)
    return candidates[bisect_left(candidates, True, key=lambda count: fill_lanes(steps, count).length <= soon)]


def stretches(lanes: Lanes) -> Iterator[tuple[int, int, Ints, Ints]]:
    """Steps between which nobody begins or ends: (from, to, who begins at its start, who ends at its end)."""
    begin, end = np.argsort(lanes.first, kind="stable"), np.argsort(lanes.end, kind="stable")
    stops = np.unique(lanes.end)
    starts = np.concatenate([[0], stops[:-1]])
    begins = np.searchsorted(lanes.first[begin], [*starts, lanes.length])
    ends = np.searchsorted(lanes.end[end], [0, *stops], side="right")
    for place, (start, stop) in enumerate(zip(starts, stops, strict=True)):
        yield int(start), int(stop), begin[begins[place] : begins[place + 1]], end[ends[place] : ends[place + 1]]
