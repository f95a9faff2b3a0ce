import json

import numpy as np
import pytest

from fedcast.data import dataset_from_arrays, populate
from fedcast.data.partitions.indices import read_indices
from fedcast.errors import DataError
from fedcast.scenario import Data


def write(tmp_path, name, content):
    path = tmp_path / name
    if isinstance(content, dict) and name.endswith(".npz"):
        np.savez(path, **content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("p.json", [[3, 1], [], [0]]),
        ("p.json", {"2": [0], "0": [3, 1], "1": []}),
        ("p.csv", "user,sample\n0,3\n2,0\n0,1\n"),
        ("p.npz", {"samples": np.array([3, 1, 0]), "offsets": np.array([0, 2, 2, 3])}),
    ],
)
def test_all_forms_say_the_same(tmp_path, name, content):
    assignment = read_indices(write(tmp_path, name, content), 5)
    assert [assignment.of(user).tolist() for user in range(3)] == [[3, 1], [], [0]]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.json", [[0], [5]], r"user 1: sample 5 does not exist, expected 0 to 4"),
        ("p.json", [[0, 1], [1]], "sample 1 is assigned to user 0 and to user 1"),
        ("p.json", [[0], [1.5]], "user 1: 1.5 is not a sample index"),
        ("p.json", [[0], 3], "user 1: expected a list"),
        ("p.json", {"a": [0]}, "invalid users a …: expected 0 to 0"),
        ("p.json", [], "expected a list with one list"),
        ("p.json", [[], []], "no user holds any sample"),
        ("p.json", "[[0], [", "not valid JSON"),
        ("p.csv", "user,sample\n0,3\n1,x\n", "line 3"),
        ("p.csv", "user,smple\n0,3\n", "sample"),
        ("p.npz", {"samples": np.array([0, 1]), "offsets": np.array([0, 3])}, "invalid offsets"),
        ("p.npz", {"samples": np.array([0, 1])}, "p.npz: contains samples; expected arrays samples and offsets"),
        ("p.txt", "0 1", "unknown file format '.txt'"),
    ],
)
def test_faults_are_named(tmp_path, name, content, message):
    with pytest.raises(DataError, match=message):
        read_indices(write(tmp_path, name, content), 5)


def test_samples_may_be_held_by_several_users_if_that_is_said(tmp_path):
    path = write(tmp_path, "p.json", [[3, 1, 1], [1, 3]])
    with pytest.raises(DataError, match="assigned to user 0 and to user 0; set data.indices.shared = true"):
        read_indices(path, 5)
    assignment = read_indices(path, 5, shared=True)
    assert [assignment.of(user).tolist() for user in range(2)] == [[3, 1, 1], [1, 3]]
    with pytest.raises(DataError, match="sample 3 does not exist"):
        read_indices(path, 3, shared=True)
    dataset = dataset_from_arrays(np.zeros((10, 2)), np.arange(10) % 2)
    tables = {"indices": {"file": str(path), "shared": True}}
    assert populate(dataset, Data(partition="indices", num_users=2, **tables)).sizes.tolist() == [3, 2]


def test_an_npz_that_is_none_is_refused(tmp_path):
    whole = write(tmp_path, "whole.npz", {"samples": np.arange(500), "offsets": np.array([0, 500])})
    cut = tmp_path / "cut.npz"
    cut.write_bytes(whole.read_bytes()[:1000])
    single = tmp_path / "single.npz"
    with single.open("wb") as stream:
        np.save(stream, np.arange(3))
    for path in (cut, single):
        with pytest.raises(DataError, match="not a readable .npz file"):
            read_indices(path, 500)


def test_missing_file_and_setting(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read_indices(tmp_path / "none.json", 5)
    dataset = dataset_from_arrays(np.zeros((10, 2)), np.arange(10) % 2)
    with pytest.raises(DataError, match="data.indices.file is not set"):
        populate(dataset, Data(partition="indices", num_users=2))


def test_users_must_match_the_scenario(tmp_path):
    path = write(tmp_path, "p.json", [[0], [1]])
    dataset = dataset_from_arrays(np.zeros((10, 2)), np.arange(10) % 2)
    with pytest.raises(DataError, match=r"2 users, expected 3 \(data.num_users\)"):
        populate(dataset, Data(partition="indices", num_users=3, indices_file=str(path)))
    path = write(tmp_path, "p.csv", "user,sample\n0,0\n100000000000,1\n")
    with pytest.raises(DataError, match=r"100000000001 users, expected 2 \(data.num_users\)"):
        populate(dataset, Data(partition="indices", num_users=2, indices_file=str(path)))


def test_from_flwr_partitioners():
    pytest.importorskip("flwr_datasets", reason='needs pip install "fedcast[flwr-datasets]"')
    from flwr_datasets.partitioner import DirichletPartitioner, IidPartitioner, NaturalIdPartitioner

    from fedcast.data import assignment_from_flwr

    rng = np.random.default_rng(0)
    labels = rng.integers(0, 5, 500)
    groups = rng.integers(0, 7, 500)
    dataset = dataset_from_arrays(np.zeros((500, 2)), labels, np.zeros((1, 2)), labels[:1], groups=groups)
    iid = assignment_from_flwr(dataset, IidPartitioner(num_partitions=10))
    assert sorted(iid.samples) == list(range(500))
    assert set(iid.sizes) == {50}
    skewed = assignment_from_flwr(
        dataset, DirichletPartitioner(num_partitions=10, partition_by="label", alpha=0.3, min_partition_size=2, seed=1)
    )
    assert sorted(skewed.samples) == list(range(500))
    assert skewed.sizes.min() >= 2
    natural = assignment_from_flwr(dataset, NaturalIdPartitioner(partition_by="group"))
    assert all(len(set(groups[natural.of(user)])) == 1 for user in range(7))
