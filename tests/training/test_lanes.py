"""Lanes: everybody steps as long as asked, nobody shares a step, and the table of steps is always long enough."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fedcast.data import Assignment
from fedcast.training import TrainingSettings, build_model
from fedcast.training.device_data import training_data
from fedcast.training.engines import Task
from fedcast.training.engines.lane_buffers import longest_block
from fedcast.training.engines.schedule import STEPS_TOLERANCE, fill_lanes, rounded_lanes, stretches, useful_lanes
from fedcast.training.engines.stacked import filling_lanes
from tests.training.conftest import federation, run

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
    found = useful_lanes(steps, most, most)
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
    for chosen in (useful_lanes, rounded_lanes, partial(rounded_lanes, always=False)):
        lanes = fill_lanes(drawn, chosen(drawn, most, filling))
        assert lanes.length <= longest_block(task, filling, block)


def test_one_large_user_does_not_decide_for_blocks_of_small_ones():
    assert useful_lanes(np.array([1000, 100, 1, 1]), 4, 4) == 2
    assert useful_lanes(np.array([1, 1, 1, 1]), 4, 4) == 4
    assert useful_lanes(np.array([10, 4, 3, 3]), 4, 4) == 2
    assert useful_lanes(np.array([5] * 10), 8, 8) == 5


@given(STEPS, st.integers(2, 20), st.integers(1, 20))
def test_where_lanes_keep_the_device_busy_no_number_of_them_is_much_faster(steps, most, filling):
    most = min(most, len(steps))
    found = useful_lanes(steps, most, filling)
    fastest = min(seconds(steps, count, min(filling, most)) for count in range(1, most + 1))
    assert len(set(steps)) == 1 or seconds(steps, found, min(filling, most)) <= STEPS_TOLERANCE * fastest


def test_more_lanes_than_keep_the_device_busy_are_not_left_empty():
    # With five lanes all end with the largest user; two take 28 steps of two fifths of that time each.
    steps = np.array([12, *[4] * 11])
    assert useful_lanes(steps, 12, 12) == 5
    assert useful_lanes(steps, 12, 2) == 2


def seconds(steps, count, filling):
    """Return the time of a block if a step takes as long with `filling` lanes or fewer, and in proportion to more."""
    return fill_lanes(steps, count).length * max(count, filling)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=60).map(np.array), st.integers(1, 60), st.integers(1, 60))
def test_rounding_the_number_of_lanes_takes_hardly_longer(steps, most, filling):
    most = min(most, len(steps))
    filling = min(filling, most)
    useful, always = useful_lanes(steps, most, filling), rounded_lanes(steps, most, filling)
    count = rounded_lanes(steps, most, filling, always=False)
    assert abs(count - useful) <= useful / 4
    assert max(count, always) <= most
    assert seconds(steps, count, filling) <= STEPS_TOLERANCE * seconds(steps, useful, filling)
    assert always == count or useful < always <= useful * 5 / 4


@pytest.mark.parametrize("drawn_from", [(20, 60), (32, 33)])
def test_few_numbers_of_lanes_are_used(drawn_from):
    """20 to 80 users take part, others in every round: of 20 to 59 steps, or of 32 each."""
    rng = np.random.default_rng(0)
    drawn = [rng.integers(*drawn_from, size=rng.integers(20, 81)) for _ in range(200)]
    exact, rounded = ({lanes(steps, 46, 16) for steps in drawn} for lanes in (useful_lanes, rounded_lanes))
    assert len(rounded) <= 10 < len(exact)


def test_equal_users_fill_their_lanes():
    # 50 users of 32 steps: 25 lanes are never empty; 24 would need a third pass, and 28 are an eighth slower.
    assert rounded_lanes(np.full(50, 32), 46, 16, always=False) == 25
    assert rounded_lanes(np.full(50, 32), 46, 16) == 28


@pytest.mark.parametrize(("participation", "always"), [(1.0, False), (0.5, True)])
def test_lanes_are_rounded_if_other_users_take_part_in_every_round(participation, always, monkeypatch):
    asked = []

    def chosen(*given, always):
        asked.append(always)
        return rounded_lanes(*given, always=always)

    monkeypatch.setattr("fedcast.training.engines.stacked.rounded_lanes", chosen)
    # A compiled step is needed for each number of lanes; here it is left as it is.
    monkeypatch.setattr("fedcast.training.engines.stacked.compiled", lambda step: step)
    run(engine="stacked", compile="always", participation=participation)
    assert set(asked) == {always}


def filling(model, dataset, batch_size):
    """Return how many lanes fill a GPU, from a task whose device says that it is one."""
    data = training_data(dataset, TrainingSettings(), torch.device("cpu"))
    gpu = {"device": torch.device("cuda"), "settings": TrainingSettings(batch_size=batch_size)}
    return filling_lanes(SimpleNamespace(model=model, data=data, **gpu))


def test_lanes_that_fill_a_gpu():
    images = federation((3, 32, 32), 10).dataset
    # Measured: 512 images in VGG-16, of 3.1e8 multiplications each.
    assert filling(build_model("vgg16", (3, 32, 32), 10, seed=0), images, 32) == 16
    assert filling(build_model("vgg16", (3, 32, 32), 10, seed=0), images, 1024) == 1
    # A model whose multiplications are not in its layers.
    assert filling(Scaled(), images, 32) == 512


class Scaled(nn.Module):
    """A model that multiplies by a weight of its own."""

    def __init__(self):
        super().__init__()
        self.weight, self.act = nn.Parameter(torch.ones(3 * 32 * 32, 10)), nn.ReLU()

    def forward(self, inputs):
        return self.act(inputs.flatten(1) @ self.weight)
