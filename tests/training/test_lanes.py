"""Lanes: everybody steps as long as asked, nobody shares a step, and the table of steps is always long enough."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedcast.data import Assignment
from fedcast.training import TrainingSettings
from fedcast.training.engines import Task
from fedcast.training.engines.lane_buffers import longest_block
from fedcast.training.engines.schedule import STEPS_TOLERANCE, fill_lanes, rounded_lanes, stretches, useful_lanes

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
    most = min(most, block)
    filling = random.randint(1, most)
    for chosen in (useful_lanes, rounded_lanes):
        lanes = fill_lanes(drawn, chosen(drawn, most, filling))
        assert lanes.length <= longest_block(task, filling, block)


def test_one_large_user_does_not_decide_for_blocks_of_small_ones():
    assert useful_lanes(np.array([1000, 100, 1, 1]), 4) == 2
    assert useful_lanes(np.array([1, 1, 1, 1]), 4) == 4
    assert useful_lanes(np.array([10, 4, 3, 3]), 4) == 2
    assert useful_lanes(np.array([5] * 10), 8) == 5


@given(STEPS, st.integers(2, 20), st.integers(1, 20))
def test_where_lanes_keep_the_device_busy_no_number_of_them_is_much_faster(steps, most, filling):
    most = min(most, len(steps))
    found = useful_lanes(steps, most, filling)
    fastest = min(seconds(steps, count, min(filling, most)) for count in range(1, most + 1))
    assert len(set(steps)) == 1 or seconds(steps, found, min(filling, most)) <= STEPS_TOLERANCE * fastest


def test_more_lanes_than_keep_the_device_busy_are_not_left_empty():
    # With five lanes all end with the largest user; two take 28 steps of two fifths of that time each.
    steps = np.array([12, *[4] * 11])
    assert useful_lanes(steps, 12) == 5
    assert useful_lanes(steps, 12, 2) == 2


def seconds(steps, count, filling):
    """Return the time of a block if a step takes as long with `filling` lanes or fewer, and in proportion to more."""
    return fill_lanes(steps, count).length * max(count, filling)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=60).map(np.array), st.integers(1, 60), st.integers(1, 60))
def test_rounding_the_number_of_lanes_takes_hardly_longer(steps, most, filling):
    most = min(most, len(steps))
    filling = min(filling, most)
    useful, count = useful_lanes(steps, most, filling), rounded_lanes(steps, most, filling)
    assert abs(count - useful) <= useful / 4
    assert count <= most
    assert seconds(steps, count, filling) <= STEPS_TOLERANCE * seconds(steps, useful, filling)


def test_few_numbers_of_lanes_are_used():
    """Nine users of 40 to 60 take part, others in every round."""
    rng = np.random.default_rng(0)
    drawn = [rng.integers(20, 60, size=rng.integers(24, 33)) for _ in range(200)]
    exact, rounded = ({lanes(steps, 32, 32) for steps in drawn} for lanes in (useful_lanes, rounded_lanes))
    assert len(rounded) < len(exact) / 2


def test_equal_users_fill_their_lanes():
    # 50 users of 32 steps: 25 lanes are never empty; 24 would need a third pass, and 28 are an eighth slower.
    assert rounded_lanes(np.full(50, 32), 46, 16) == 25
