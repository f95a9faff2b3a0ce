"""Test properties that all partitions have, and those of each one."""

import time

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from fedcast.data import PARTITIONS, dataset_from_arrays, populate
from fedcast.data.assignment import deal, ensure_minimum, random_deal, split_by_shares
from fedcast.data.partitions.dirichlet import DirichletOptions, dirichlet
from fedcast.data.partitions.label_skew import LabelSkewOptions, label_skew
from fedcast.data.partitions.noise import noise_std
from fedcast.data.partitions.quantity import QuantityOptions, quantity
from fedcast.data.partitions.shards import ShardsOptions, shards
from fedcast.errors import DataError, FedcastError
from fedcast.scenario import Data


def small_dataset(labels, rng):
    images = rng.random((len(labels), 4, 4), dtype=np.float32)
    return dataset_from_arrays(
        images, labels, images[:3], labels[:3], groups=rng.integers(0, 200, len(labels)), name="small"
    )


def write_indices(tmp_path_factory, num_samples, num_users):
    path = tmp_path_factory.mktemp("indices") / "p.npz"
    np.savez(path, samples=np.arange(num_samples)[::-1], offsets=np.linspace(0, num_samples, num_users + 1).astype(int))
    return str(path)


worlds = st.tuples(
    st.integers(1, 30),  # users
    st.integers(2, 8),  # classes
    st.integers(0, 2**31),  # seed
    st.floats(0.01, 20),  # alpha
    st.just(0.0) | st.floats(1e-9, 1),  # share of one-class users
)


@pytest.mark.parametrize("name", PARTITIONS)
@given(world=worlds)
@settings(max_examples=25)
def test_conformance(name, world, tmp_path_factory):
    num_users, classes, seed, alpha, share = world
    rng = np.random.default_rng(seed)
    labels = rng.choice(classes, 400, p=rng.dirichlet(np.ones(classes)))
    dataset = small_dataset(labels, rng)
    data = Data(
        partition=name,
        num_users=num_users,
        alpha=alpha,
        quantity_alpha=alpha,
        single_class_share=share,
        concept_groups=min(3, num_users),
        indices_file=write_indices(tmp_path_factory, 400, num_users) if name == "indices" else None,
    )
    try:
        people = populate(dataset, data, seed)
    except DataError as error:
        # Refusal is right only where the promise cannot be kept, and says what to change.
        assert name in ("label_skew", "shards")
        assert "data." in str(error)
        assume(False)
    samples = people.assignment.samples
    assert people.num_users == num_users
    assert len(np.unique(samples)) == len(samples), "no sample is held twice"
    assert samples.min() >= 0
    assert samples.max() < 400
    if PARTITIONS[name].complete:
        assert len(samples) == 400, "every sample is held"
    for user in range(num_users):
        held = people.dataset.labels[people.assignment.of(user)]
        assert np.array_equal(np.bincount(held, minlength=dataset.num_classes), people.counts[user])
    again = populate(dataset, data, seed)
    assert np.array_equal(samples, again.assignment.samples)
    assert np.array_equal(people.assignment.offsets, again.assignment.offsets)
    assert np.array_equal(people.dataset.inputs, again.dataset.inputs)
    if PARTITIONS[name].counts is not None and len(samples) > 100 and num_users > 1:
        assert not np.array_equal(samples, populate(dataset, data, seed + 1).assignment.samples)


@pytest.mark.parametrize("name", [name for name, partition in PARTITIONS.items() if partition.counts])
def test_many_users_and_tiny_alpha_take_no_longer(name):
    labels = np.arange(60_000) % 10
    dataset = dataset_from_arrays(np.zeros((60_000, 2), np.uint8), labels, np.zeros((1, 2), np.uint8), labels[:1])
    concept = {"concept": "labels"} if name == "concept" else {}
    data = Data(partition=name, num_users=10_000, alpha=0.01, quantity_alpha=0.01, **concept)
    started = time.process_time()
    people = populate(dataset, data)
    assert time.process_time() - started < 5
    assert people.sizes.min() >= 1


@pytest.mark.parametrize("name", ["iid", "noise", "concept"])
def test_equal_parts(name):
    rng = np.random.default_rng(0)
    people = populate(small_dataset(rng.integers(0, 5, 403), rng), Data(partition=name, num_users=10))
    assert set(people.sizes) == {40, 41}


@given(st.integers(1, 40), st.floats(0, 1), st.integers(0, 1000))
def test_label_skew_sizes_and_classes(num_users, share, seed):
    class_sizes = np.array([300, 250, 0, 40, 410])
    counts = label_skew(class_sizes, num_users, LabelSkewOptions(share), seed)
    single = round(share * num_users)
    size = 1000 // num_users
    present = [0, 1, 3, 4]
    for user in range(single):
        assert np.flatnonzero(counts[user]).tolist() == [present[user % 4]]
    holders = np.bincount([present[user % 4] for user in range(single)], minlength=5)
    for user in range(num_users):
        if user < single:
            label = present[user % 4]
            assert counts[user].sum() == min(size, class_sizes[label] // holders[label])
        else:
            assert counts[user].sum() == size
    assert (counts.sum(axis=0) <= class_sizes).all()


def test_label_skew_of_mnist_shrinks_the_short_class():
    mnist_classes = np.array([5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949])
    counts = label_skew(mnist_classes, 100, LabelSkewOptions(1.0), seed=0)
    assert counts[5].sum() == 542
    assert counts[1].sum() == 600


def test_label_skew_says_when_a_class_is_too_small():
    with pytest.raises(DataError, match="class 1 has 2 samples for 5 users"):
        label_skew(np.array([500, 2]), 10, LabelSkewOptions(1.0), seed=0)


@given(st.integers(1, 30), st.integers(1, 6), st.integers(0, 1000))
def test_shards_hold_exactly_k_classes_and_split_them_evenly(num_users, per_user, seed):
    class_sizes = np.array([100, 90, 120, 80, 100, 110])
    assume(num_users * per_user >= 6)
    counts = shards(class_sizes, num_users, ShardsOptions(per_user), seed)
    assert ((counts > 0).sum(axis=1) == per_user).all()
    assert (counts.sum(axis=0) == class_sizes).all()
    holders = (counts > 0).sum(axis=0)
    assert holders.max() - holders.min() <= 1
    for column in counts.T:
        held = column[column > 0]
        assert held.max() - held.min() <= 1


@given(st.integers(5, 30), st.integers(1, 5), st.integers(0, 1000))
def test_shards_with_random_holders_are_those_of_niid_bench(num_users, per_user, seed):
    counts = shards(np.full(5, 90), num_users, ShardsOptions(per_user, "random"), seed)
    held = counts > 0
    assert (held.sum(axis=1) == per_user).all()
    assert held[np.arange(num_users), np.arange(num_users) % 5].all(), "user k holds class k mod Y"
    assert counts.sum(axis=0).tolist() == [90] * 5
    for label in range(5):
        parts = counts[held[:, label], label]
        assert np.ptp(parts) <= 1


def test_random_holders_are_not_equally_many_and_need_a_user_for_each_class():
    numbers = np.array(
        [(shards(np.full(10, 90), 10, ShardsOptions(2, "random"), seed) > 0).sum(axis=0) for seed in range(200)]
    )
    assert numbers.min() == 1
    # One holder in turn, and each of the 9 others with probability 1/9: a binomial number of mean 1.
    found = np.bincount(numbers.ravel() - 1, minlength=10)[:5] / numbers.size
    assert np.abs(found - stats.binom(9, 1 / 9).pmf(np.arange(5))).max() < 0.03
    with pytest.raises(DataError, match=r"'random' for data\.shards\.holders: expected at least 10 users"):
        shards(np.full(10, 90), 9, ShardsOptions(2, "random"), 0)


def test_shards_mix_pairs_of_classes():
    counts = shards(np.full(10, 1000), 200, ShardsOptions(2), seed=0)
    pairs = {tuple(np.flatnonzero(row)) for row in counts}
    assert len(pairs) > 35  # of 45


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((5, 4), r"expected at most 3 \(classes\)"),
        ((1, 2), "cannot hold 3 classes"),
        ((30, 2), "class 0 has 10 samples for 20 users"),
    ],
)
def test_impossible_shards(arguments, message):
    num_users, per_user = arguments
    with pytest.raises(DataError, match=message):
        shards(np.array([10, 10, 10]), num_users, ShardsOptions(per_user), seed=0)


def test_dirichlet_shares_have_the_right_law():
    """A user's share of a class is Beta(alpha, (K-1) alpha)."""
    total, users = 100_000, 50
    draws = np.concatenate(
        [dirichlet(np.array([total]), users, DirichletOptions(0.5, 0), seed)[:, 0] / total for seed in range(200)]
    )
    assert stats.kstest(draws[::50], stats.beta(0.5, 49 * 0.5).cdf).pvalue > 1e-3
    assert draws.var() == pytest.approx(stats.beta(0.5, 49 * 0.5).var(), rel=0.1)


@given(st.integers(1, 12), st.floats(0.005, 5), st.integers(0, 1000))
@settings(max_examples=50)
def test_balanced_dirichlet_gives_full_users_no_further_class(num_users, alpha, seed):
    sizes = np.array([70, 10, 120, 40, 60])
    counts = dirichlet(sizes, num_users, DirichletOptions(alpha, 0, balanced=True), seed)
    assert counts.sum(axis=0).tolist() == sizes.tolist()
    before = np.cumsum(counts, axis=1) - counts
    assert not counts[before * num_users >= sizes.sum()].any()


def test_balanced_dirichlet_has_the_sizes_of_niid_bench():
    """Its partition function, written out with NumPy's own draws: the sizes of users follow the same law."""

    def niid_bench(rng, users=10, classes=10, per_class=1000):
        held = np.zeros((users, classes))
        for label in range(classes):
            part = rng.dirichlet(np.full(users, 0.5)) * (held.sum(axis=1) < classes * per_class / users)
            edges = (np.cumsum(part / part.sum()) * per_class).astype(int)[:-1]
            held[:, label] = np.diff([0, *edges, per_class])
        return held.sum(axis=1)

    options, rng = DirichletOptions(0.5, 0, balanced=True), np.random.default_rng(0)
    ours = np.concatenate([dirichlet(np.full(10, 1000), 10, options, seed).sum(axis=1) for seed in range(150)])
    theirs = np.concatenate([niid_bench(rng) for _ in range(150)])
    assert stats.ks_2samp(ours, theirs).pvalue > 0.01
    unbalanced = [dirichlet(np.full(10, 1000), 10, DirichletOptions(0.5, 0), seed).sum(axis=1) for seed in range(150)]
    assert stats.ks_2samp(np.concatenate(unbalanced), theirs).pvalue < 1e-6


def test_tiny_alpha_puts_each_class_on_one_user():
    counts = dirichlet(np.full(10, 1000), 100, DirichletOptions(1e-4, 0), seed=0)
    assert np.isfinite(counts).all()
    assert (counts.max(axis=0) > 990).all()


@given(st.integers(1, 50), st.integers(0, 9), st.integers(0, 100))
def test_minimum_is_kept_by_moving_as_little_as_possible(num_users, minimum, seed):
    counts = dirichlet(np.array([250, 250]), num_users, DirichletOptions(0.05, 0), seed)
    repaired = ensure_minimum(counts, minimum, np.random.default_rng(seed))
    sizes, new_sizes = counts.sum(axis=1), repaired.sum(axis=1)
    assert (repaired >= 0).all()
    assert (repaired.sum(axis=0) == counts.sum(axis=0)).all()
    assert new_sizes.min() >= minimum
    assert (new_sizes[sizes < minimum] == minimum).all()
    moved = np.maximum(sizes - new_sizes, 0).sum()
    assert moved == np.maximum(minimum - sizes, 0).sum()
    givers = sizes > new_sizes
    if givers.any():
        assert new_sizes[givers].min() >= new_sizes[~givers & (sizes >= minimum)].max(initial=0) - 1


def test_minimum_that_cannot_be_kept():
    with pytest.raises(
        DataError, match=r"invalid value 10 for min_samples: 100 users need 1000 samples, there are 500"
    ):
        quantity(np.array([250, 250]), 100, QuantityOptions(0.5, 10), seed=0)


def test_random_deal_has_the_law_of_dealing_cards():
    """Against dealing real samples: mean and variance of the hypergeometric law, user by user."""
    pool, sizes = np.array([30, 20, 10]), np.array([5, 25, 10])
    draws = np.stack([random_deal(pool, sizes, np.random.default_rng(seed)) for seed in range(4000)])
    for user, size in enumerate(sizes):
        for label, of_class in enumerate(pool):
            law = stats.hypergeom(60, of_class, size)
            assert draws[:, user, label].mean() == pytest.approx(law.mean(), abs=5 * law.std() / np.sqrt(4000))
            assert draws[:, user, label].var() == pytest.approx(law.var(), rel=0.15)
    assert (draws.sum(axis=2) == sizes).all()
    assert (draws.sum(axis=1) <= pool).all()


def test_dealing_gives_the_counts_asked_for():
    labels = np.random.default_rng(0).integers(0, 3, 60)
    counts = np.array([[2, 0, 1], [0, 5, 3]])
    assignment = deal(labels, counts, np.random.default_rng(0))
    for user in range(2):
        assert np.bincount(labels[assignment.of(user)], minlength=3).tolist() == counts[user].tolist()


@given(st.integers(0, 10**6), st.lists(st.floats(1e-6, 1), min_size=1, max_size=20))
def test_split_by_shares_is_within_one(total, shares):
    shares = np.array(shares)
    parts = split_by_shares(total, shares)
    assert parts.sum() == total
    assert (parts >= 0).all()
    assert np.abs(parts - total * shares / shares.sum()).max() <= 1 + 1e-6


def test_quantity_skews_sizes_not_classes():
    counts = quantity(np.full(10, 6000), 100, QuantityOptions(0.5), seed=0)
    sizes = counts.sum(axis=1)
    assert sizes.sum() == 60_000
    assert sizes.std() / sizes.mean() > 0.8  # 1.4 in expectation; equal sizes have 0
    large = counts[sizes > 500]
    assert np.abs(large / large.sum(axis=1, keepdims=True) - 0.1).max() < 0.06


def test_noise_grows_from_user_to_user_and_is_drawn_once():
    labels = np.arange(4000) % 4
    images = np.full((4000, 1, 8, 8), 0.5, np.float32)
    clean = dataset_from_arrays(images, labels, images[:400], labels[:400])
    people = populate(clean, Data(partition="noise", num_users=20, noise_level=0.1))
    for user in range(20):
        noise = people.dataset.features(people.assignment.of(user)) - 0.5
        assert noise.var() == pytest.approx(0.1 * (user + 1) / 20, rel=0.1)
        assert abs(noise.mean()) < 0.02
    assert (people.dataset.test_inputs == 0.5).all()
    noisy = people.dataset.noisy_test_inputs - 0.5
    assert noisy.var() == pytest.approx((noise_std(20, 0.1) ** 2).mean(), rel=0.1)
    # A mixture: one test sample has the noise of one user, another that of another.
    assert noisy.reshape(400, -1).std(axis=1).max() > 2 * noisy.reshape(400, -1).std(axis=1).min()
    assert clean.noisy_test_inputs is None


def test_noise_on_bytes_is_on_the_unit_scale():
    images = np.full((500, 8, 8), 128, np.uint8)
    people = populate(dataset_from_arrays(images, np.arange(500) % 5), Data(partition="noise", num_users=5))
    noise = people.dataset.features(people.assignment.of(4)) - 128 / 255
    assert noise.var() == pytest.approx(0.1, rel=0.1)


def test_concept_rotation_turns_images_by_group():
    rng = np.random.default_rng(0)
    images, labels = rng.random((80, 1, 5, 5), dtype=np.float32), np.arange(80) % 4
    people = populate(
        dataset_from_arrays(images, labels, images, labels), Data(partition="concept", num_users=8, concept_groups=4)
    )
    for user in range(8):
        for sample in people.assignment.of(user):
            expected = np.rot90(images[sample], user % 4, axes=(-2, -1))
            assert np.array_equal(people.dataset.inputs[sample], expected)
    assert np.array_equal(people.dataset.test_inputs, images)


def test_concept_rotation_by_other_angles_keeps_the_middle():
    images = np.zeros((30, 1, 9, 9), np.float32)
    images[:, :, 4, :] = 1.0
    labels = np.arange(30) % 3
    people = populate(
        dataset_from_arrays(images, labels, images, labels), Data(partition="concept", num_users=3, concept_groups=3)
    )
    turned = people.dataset.inputs[people.assignment.of(1)[0], 0]
    assert turned[4, 4] == pytest.approx(1.0, abs=1e-5)
    assert turned[4, 8] < 0.2


def test_concept_labels_are_permuted_by_group():
    rng = np.random.default_rng(0)
    images, labels = rng.random((120, 4), dtype=np.float32), np.arange(120) % 6
    people = populate(
        dataset_from_arrays(images, labels, images, labels),
        Data(partition="concept", concept="labels", num_users=6, concept_groups=3),
    )
    groups = np.arange(6) % 3
    maps = {}
    for user in range(6):
        for sample in people.assignment.of(user):
            seen = maps.setdefault(groups[user], {}).setdefault(labels[sample], people.dataset.labels[sample])
            assert seen == people.dataset.labels[sample]
    assert all(before == after for before, after in maps[0].items())
    assert any(before != after for before, after in maps[1].items())
    assert maps[1] != maps[2]
    assert np.array_equal(people.dataset.test_labels, labels)


def test_natural_users_are_whole_owners():
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 12, 300)
    labels = rng.integers(0, 3, 300)
    dataset = dataset_from_arrays(np.zeros((300, 2)), labels, np.zeros((1, 2)), labels[:1], groups=groups)
    people = populate(dataset, Data(partition="natural", num_users=5))
    owners = [set(groups[people.assignment.of(user)]) for user in range(5)]
    assert all(len(owner) == 1 for owner in owners)
    for user, (owner,) in enumerate(owners):
        assert people.sizes[user] == (groups == owner).sum()
    with pytest.raises(DataError, match=r"invalid value 13 for data.num_users: expected at most 12 \(owners\)"):
        populate(dataset, Data(partition="natural", num_users=13))


def test_natural_owners_are_joined_whole_and_in_equal_numbers():
    rng = np.random.default_rng(0)
    groups = rng.permutation(np.repeat(np.arange(7) * 3, [5, 1, 8, 2, 9, 4, 3]))
    images = np.zeros((32, 4, 4), dtype=np.float32)
    dataset = dataset_from_arrays(images, np.arange(32) % 4, images[:3], [0, 1, 2], groups=groups)
    data = Data(partition="natural", num_users=3, natural={"join": True})
    owners = [np.unique(groups[populate(dataset, data, 1).assignment.of(user)]) for user in range(3)]
    assert sorted(len(of_user) for of_user in owners) == [2, 2, 3]
    assert sorted(np.concatenate(owners)) == (np.arange(7) * 3).tolist(), "every owner is in one user, as a whole"
    assert len(populate(dataset, data, 1).assignment.samples) == 32
    others = [np.unique(groups[populate(dataset, data, 2).assignment.of(user)]).tolist() for user in range(3)]
    assert others != [of_user.tolist() for of_user in owners]
    with pytest.raises(DataError, match="expected at most 7"):
        populate(dataset, Data(partition="natural", num_users=8, natural={"join": True}), 1)


def test_natural_needs_owners():
    dataset = dataset_from_arrays(np.zeros((30, 2)), np.arange(30) % 3)
    with pytest.raises(DataError, match="has no owners of its samples"):
        populate(dataset, Data(partition="natural", num_users=2))


@pytest.mark.parametrize("name", ["iid", "label_skew", "quantity", "noise"])
def test_more_users_than_samples(name):
    dataset = dataset_from_arrays(np.zeros((30, 2)), np.arange(30) % 3)
    with pytest.raises(DataError, match="invalid value 100 for data.num_users|min_samples"):
        populate(dataset, Data(partition=name, num_users=100))


def test_unknown_partition_is_refused_with_the_nearest():
    with pytest.raises(FedcastError, match="did you mean dirichlet"):
        populate(dataset_from_arrays(np.zeros((30, 2)), np.arange(30) % 3), Data(partition="dirichelt"))
