import numpy as np
from scipy import stats

from fedcast.random import _splitmix, generator, pair_uniform, user_uniform


def test_every_part_of_the_key_matters():
    draws = [
        generator(0, "a").random(),
        generator(1, "a").random(),
        generator(0, "b").random(),
        generator(0, "a", round=1).random(),
        generator(0, "a", user=1).random(),
        generator(0, "a", round=1, user=1).random(),
    ]
    assert len(set(draws)) == len(draws)


def test_keys_do_not_run_into_each_other():
    assert generator(1, "a", round=23).random() != generator(12, "a", round=3).random()
    assert generator(0, "a", round=11, user=1).random() != generator(0, "a", round=1, user=11).random()


def test_draws_do_not_depend_on_the_process():
    # Written down once: a change here means that every stored result changes.
    assert generator(7, "batches", round=3, user=5).integers(10**9) == 855_024_028
    assert user_uniform(0, "x", 3).item() == 0.6829136986338872
    assert pair_uniform(0, "trust", 3, 8).item() == 0.14297626828456056


def test_hash_is_splitmix64():
    # First outputs of SplitMix64 from state 0, as published with the reference implementation.
    states = (np.arange(3, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)).astype(np.uint64)
    with np.errstate(over="ignore"):
        assert [hex(word) for word in _splitmix(states)] == [
            "0xe220a8397b1dcdaf", "0x6e789e6aa1b965f4", "0x6c45d188009454f",
        ]  # fmt: skip


def test_hashed_numbers_are_uniform_and_independent():
    users = user_uniform(3, "x", np.arange(200_000))
    assert stats.kstest(users, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(users[:-1], users[1:])[0, 1]) < 0.01
    rows, columns = np.triu_indices(600, 1)
    pairs = pair_uniform(3, "x", rows, columns)
    assert stats.kstest(pairs, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(pairs, pair_uniform(4, "x", rows, columns))[0, 1]) < 0.01
    table = np.zeros((600, 600))
    table[rows, columns] = pairs
    means = (table + table.T).sum(axis=1) / 599
    assert np.std(means) * np.sqrt(599 * 12) < 1.15  # a user is not closer to all others than chance allows


def test_pairs_are_unordered_and_distinct():
    rows, columns = np.triu_indices(500, 1)
    values = pair_uniform(0, "x", rows, columns)
    assert (values == pair_uniform(0, "x", columns, rows)).all()
    assert len(np.unique(values)) == len(values)
