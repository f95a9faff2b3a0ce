"""Lanes: everybody steps as long as asked, nobody shares a step, and the table of steps is always long enough."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedcast.data import Assignment
from fedcast.training import TrainingSettings
from fedcast.training.engines import Task
from fedcast.training.engines.lane_buffers import longest_block
from fedcast.training.engines.schedule import STEPS_TOLERANCE, fill_lanes, stretches, useful_lanes

STEPS = st.lists(st.integers(1, 30), min_size=1, max_size=15).map(np.array)


@given(STEPS, st.integers(1, 9))
def test_every_user_has_its_steps_to_itself(steps, count):
    lanes = fill_lanes(steps, count)
    taken = np.zeros((lanes.length, count), dtype=int)
    for user in range(len(steps)):
        taken[lanes.first[user] : lanes.end[user], lanes.lane[user]] += 1
    assert taken.max() == 1
    assert taken.sum() == steps.sum()


@given(STEPS, st.integers(1, 9))
def test_stretches_cover_all_steps_and_name_everybody_twice(steps, count):
    lanes, reached, began, ended = fill_lanes(steps, count), 0, [], []
    for start, stop, begins, ends in stretches(lanes):
        assert start == reached < stop
        assert (lanes.first[begins] == start).all()
        assert (lanes.end[ends] == stop).all()
        reached, began, ended = stop, [*began, *begins], [*ended, *ends]
    assert reached == lanes.length
    assert sorted(began) == sorted(ended) == list(range(len(steps)))


@given(STEPS, st.integers(1, 20))
def test_lanes_are_the_fewest_that_end_about_as_soon(steps, most):
    found = useful_lanes(steps, most)
    soon = STEPS_TOLERANCE * fill_lanes(steps, min(most, len(steps))).length
    ends = [fill_lanes(steps, count).length for count in range(1, found + 1)]
    assert ends == sorted(ends, reverse=True)
    assert ends[-1] <= soon
    assert len(set(steps)) == 1 or all(end > soon for end in ends[:-1])


@given(STEPS, st.integers(1, 9), st.integers(1, 15), st.randoms())
def test_no_block_of_any_round_is_longer_than_the_table(steps, most, block, random):
    users = Assignment(np.zeros(steps.sum(), dtype=np.int64), np.concatenate([[0], np.cumsum(steps)]))
    task = Task(None, None, users, TrainingSettings(batch_size=1), 0)  # type: ignore[arg-type]
    drawn = np.array(random.sample(list(steps), random.randint(1, min(block, len(steps)))))
    lanes = fill_lanes(drawn, useful_lanes(drawn, min(most, block)))
    assert lanes.length <= longest_block(task, min(most, block), block)


def test_one_large_user_does_not_decide_for_blocks_of_small_ones():
    assert useful_lanes(np.array([1000, 100, 1, 1]), 4) == 2
    assert useful_lanes(np.array([1, 1, 1, 1]), 4) == 4
    assert useful_lanes(np.array([10, 4, 3, 3]), 4) == 2
    assert useful_lanes(np.array([5] * 10), 8) == 5
