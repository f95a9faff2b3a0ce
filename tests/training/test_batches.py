import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedcast.data import Assignment
from fedcast.training.engines.schedule import batches_of, steps_of


def assignment(sizes):
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return Assignment(np.random.default_rng(0).permutation(10_000)[: offsets[-1]], offsets)


@given(st.lists(st.integers(0, 17), min_size=1, max_size=6), st.integers(1, 6), st.integers(1, 3), st.integers(0, 99))
def test_every_epoch_sees_every_sample_once(sizes, batch, epochs, seed):
    data = assignment(sizes)
    users = np.arange(len(sizes))
    samples, weights = batches_of(data, users, batch, epochs, seed=seed, round_number=2)
    all_steps = steps_of(np.array(sizes), batch, epochs)
    assert len(samples) == all_steps.max()
    for user, size in enumerate(sizes):
        per_epoch = -(-size // batch)
        for epoch in range(epochs):
            steps = slice(epoch * per_epoch, (epoch + 1) * per_epoch)
            used = weights[steps, user] > 0
            assert sorted(samples[steps, user][used]) == sorted(data.of(user))
        real = weights[: all_steps[user], user]
        assert np.allclose(real.sum(axis=1), 1)
        assert (weights[all_steps[user] :, user] == 0).all()


def test_order_changes_with_round_epoch_and_seed_but_not_with_other_users():
    data = assignment([40, 40, 40])

    def order(users, seed=0, round_number=1):
        return batches_of(data, np.array(users), 40, 2, seed=seed, round_number=round_number)[0]

    alone, together = order([1]), order([0, 1, 2])
    assert np.array_equal(alone[:, 0], together[:, 1])
    assert not np.array_equal(alone[0], alone[1])
    assert not np.array_equal(alone, order([1], seed=1))
    assert not np.array_equal(alone, order([1], round_number=2))


def test_shuffles_are_fair():
    """Each sample is equally often in each place (chi-square over 2,000 rounds)."""
    from scipy.stats import chisquare

    data = assignment([6])
    counts = np.zeros((6, 6))
    for number in range(2000):
        order = batches_of(data, np.array([0]), 6, 1, seed=0, round_number=number)[0][0, 0]
        counts[np.searchsorted(np.sort(data.samples), order), np.arange(6)] += 1
    assert chisquare(counts.ravel()).pvalue > 1e-3
