"""Sharing: heads multicast at the rate of their worst member."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcast.cost.task import sharing_cost
from fedcast.errors import FedcastError


def naive_sharing(head_of, shared, rates, bits, power):
    delays = {}
    for user, head in enumerate(head_of):
        if head >= 0 and shared[head] > 0:
            delays[head] = max(delays.get(head, 0), bits * shared[head] / rates[user])
    return max(delays.values(), default=0), {head: power * delay for head, delay in delays.items()}


@given(st.integers(0, 10_000))
def test_sharing_against_a_loop(seed):
    rng = np.random.default_rng(seed)
    users = int(rng.integers(1, 40))
    heads = rng.random(users) < 0.3
    head_of = np.where(heads | ~heads.any(), -1, rng.choice(np.append(np.flatnonzero(heads), -1), users))
    shared = np.where(rng.random(users) < 0.3, 0, rng.uniform(0, 100, users))
    rates = np.where(head_of >= 0, rng.uniform(1e5, 1e8, users), np.nan)
    ours = sharing_cost(head_of, shared, rates, 6272, 0.01)
    delay, energy = naive_sharing(head_of, shared, rates, 6272, 0.01)
    assert ours.sharing_s == pytest.approx(delay)
    assert dict(zip(ours.heads.tolist(), ours.energy_j, strict=True)) == pytest.approx(energy)
    assert ours.sent_bytes == pytest.approx(sum(6272 * shared[head] / 8 for head in energy))


def test_sharing_nothing_costs_nothing():
    empty = sharing_cost([-1, -1], [5, 5], [0, 0], 6272, 0.01)
    assert (empty.sharing_s, empty.sent_bytes, len(empty.heads)) == (0, 0, 0)


def test_ten_seconds_at_ten_milliwatts_are_a_tenth_of_a_joule():
    shared = sharing_cost([-1, 0], [100, 0], [0, 1e5], 1e4, 0.01)
    assert shared.sharing_s == pytest.approx(10)
    assert shared.energy_j.sum() == pytest.approx(0.1)


def test_a_member_without_a_link_is_named():
    with pytest.raises(FedcastError, match="user 1 has no link to its head 0"):
        sharing_cost([-1, 0], [100, 0], [0, 0], 1e4, 0.01)
