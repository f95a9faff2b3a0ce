import time
import tracemalloc

import numpy as np
import pytest

from fedcast.data import dataset_from_arrays, describe, make_population, populate, population_from
from fedcast.data.assignment import Assignment
from fedcast.data.skew import average_emd, skew_of
from fedcast.errors import DataError
from fedcast.scenario import Data


def test_mnist_with_a_thousand_users_is_quick(data_dir):
    data = Data(dataset="mnist", partition="dirichlet", num_users=1000, alpha=0.1)
    started = time.process_time()
    people = make_population(data, 0, data_dir)
    skew = skew_of(describe(people, data))
    assert 1.2 < average_emd(skew) < 1.6
    assert time.process_time() - started < 2


def test_a_hundred_thousand_synthetic_users_are_quick_and_small():
    tracemalloc.start()
    started = time.process_time()
    data = Data(dataset="synthetic", partition="dirichlet", num_users=100_000)
    skew = skew_of(describe(make_population(data), data))
    assert average_emd(skew) > 1
    assert time.process_time() - started < 5
    assert tracemalloc.get_traced_memory()[1] < 2**30
    tracemalloc.stop()


def test_synthetic_counts_follow_the_partition():
    data = Data(dataset="synthetic", partition="shards", num_users=50, classes_per_user=3, num_classes=7)
    people = make_population(data)
    assert ((people.counts > 0).sum(axis=1) == 3).all()
    assert people.sizes.sum() == 50 * 600
    assert people.dataset is None


@pytest.mark.parametrize("partition", ["natural", "noise", "concept", "indices"])
def test_synthetic_data_have_counts_only(partition):
    with pytest.raises(DataError, match="counts only; use label_skew, dirichlet"):
        make_population(Data(dataset="synthetic", partition=partition))


def test_no_sample_is_copied():
    images = np.zeros((1000, 3, 8, 8), np.uint8)
    labels = np.arange(1000) % 10
    dataset = dataset_from_arrays(images, labels, images[:1], labels[:1])
    people = populate(dataset, Data(partition="dirichlet", num_users=20))
    assert people.dataset is dataset
    assert np.shares_memory(people.dataset.inputs, images)


def test_value_histograms_against_numpy():
    rng = np.random.default_rng(0)
    images = rng.normal(0.5, 0.6, (60, 1, 5, 5)).astype(np.float32)
    labels = np.arange(60) % 3
    dataset = dataset_from_arrays(np.clip(images, 0, 1), labels, images[:1] * 0, labels[:1])
    data = Data(partition="noise", num_users=6, descriptor="values", noise_level=0.5)
    people = populate(dataset, data)
    table = describe(people, data)
    edges = np.linspace(-1, 2, 17)
    for user in range(6):
        values = np.clip(people.dataset.features(people.assignment.of(user)), -1, 2 - 1e-6)
        expected = np.histogram(values, edges)[0] / 25
        assert table[user] == pytest.approx(expected, abs=0.05)  # float32 values on an edge may fall either side
        assert table[user].sum() == pytest.approx(10)


def test_value_histograms_of_bytes_and_of_floats_agree():
    rng = np.random.default_rng(0)
    raw = rng.integers(0, 256, (40, 4, 4), dtype=np.uint8)
    labels = np.arange(40) % 2
    data = Data(partition="iid", num_users=4, descriptor="values")
    as_bytes = describe(populate(dataset_from_arrays(raw, labels), data), data)
    scaled = raw.astype(np.float32) * np.float32(1 / 255)
    as_floats = describe(populate(dataset_from_arrays(scaled, labels), data), data)
    assert as_bytes == pytest.approx(as_floats)


def test_noise_is_seen_by_values_and_not_by_classes():
    seen, unseen = (
        Data(dataset="digits", partition="noise", num_users=10, descriptor=kind, noise_level=0.5)
        for kind in ("values", "classes")
    )
    people = make_population(seen)
    by_values = skew_of(describe(people, seen)).emd
    assert by_values[-1] > 2 * by_values[5]
    by_classes = skew_of(describe(people, unseen)).emd
    assert by_classes.max() < 0.5


def test_cluster_histograms_find_blobs():
    rng = np.random.default_rng(0)
    labels = np.arange(300) % 3
    points = rng.normal(0, 0.02, (300, 2)) + np.array([[0.1, 0.1], [0.9, 0.1], [0.5, 0.9]])[labels]
    data = Data(partition="label_skew", single_class_share=1.0, num_users=6, descriptor="clusters", feature_clusters=3)
    people = populate(dataset_from_arrays(np.clip(points, 0, 1), labels, points[:1] * 0, labels[:1]), data)
    table = describe(people, data)
    assert ((table > 0).sum(axis=1) == 1).all(), "a one-class user falls into one cluster"
    assert np.allclose(skew_of(table).emd, skew_of(people.counts).emd)


def test_descriptors_that_cannot_be_made(data_dir):
    synthetic = Data(dataset="synthetic", descriptor="values")
    with pytest.raises(DataError, match="synthetic data have no inputs"):
        describe(make_population(synthetic), synthetic)
    text = Data(dataset="tiny_shakespeare", partition="natural", num_users=10, descriptor="values")
    with pytest.raises(DataError, match="next characters"):
        describe(make_population(text, 0, data_dir), text)
    many = Data(dataset="digits", descriptor="clusters", feature_clusters=5000)
    with pytest.raises(DataError, match=r"5000 for data.feature_clusters: expected at most 1400 \(samples\)"):
        describe(make_population(many), many)
    rotated = Data(dataset="tiny_shakespeare", partition="concept")
    with pytest.raises(DataError, match="has no images"):
        make_population(rotated, 0, data_dir)
    noisy = Data(dataset="tiny_shakespeare", partition="noise")
    with pytest.raises(DataError, match="is text"):
        make_population(noisy, 0, data_dir)


def test_next_characters_are_the_descriptor_of_text(data_dir):
    data = Data(dataset="tiny_shakespeare", partition="natural", num_users=20)
    people = make_population(data, 0, data_dir)
    skew = skew_of(describe(people, data))
    assert skew.distributions.shape == (20, 80)
    assert people.class_names[skew.global_distribution.argmax()] == " "


def test_an_assignment_made_elsewhere():
    dataset = dataset_from_arrays(np.zeros((10, 2)), np.arange(10) % 2, np.zeros((1, 2)), np.zeros(1, int))
    people = population_from(dataset, Assignment(np.array([0, 2, 1]), np.array([0, 2, 2, 3])))
    assert people.counts.tolist() == [[2, 0], [0, 0], [0, 1]]
