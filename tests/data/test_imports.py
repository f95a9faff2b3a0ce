"""Partitions of other tools, written as these write them, and read again."""

import csv
import io
import json
import pickle
import zipfile

import numpy as np
import pytest

from fedcast import load_dataset, load_scenario, make_population
from fedcast.cli.app import run
from fedcast.data import import_partition, read_indices
from fedcast.errors import DataError


def save_pfllib(folder, users, tests, num_classes=4):
    """As `save_file` in PFLlib's dataset/utils/dataset_utils.py does."""
    for part, data in (("train", users), ("test", tests)):
        (folder / part).mkdir(parents=True)
        for client, held in enumerate(data):
            with (folder / part / f"{client}.npz").open("wb") as stream:
                np.savez_compressed(stream, data=held)
    config = {"num_clients": len(users), "num_classes": num_classes, "non_iid": True, "balance": False}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def save_leaf(file, user_data):
    """As `save_json` in LEAF's data/synthetic/main.py does."""
    counts = [len(held["y"]) for held in user_data.values()]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"users": list(user_data), "num_samples": counts, "user_data": user_data}))
    return file


def images(count, seed=0, shape=(1, 6, 6)):
    """Images as torchvision normalises them, in [-1, 1]."""
    drawn = np.random.default_rng(seed).integers(0, 256, (count, *shape))
    return ((drawn / 255 - 0.5) / 0.5).astype(np.float32)


def imported(folder):
    """The population of an imported folder, and its dataset."""
    scenario = load_scenario(folder / "scenario.toml")
    return make_population(scenario.data), load_dataset(scenario.data)


def test_pfllib(tmp_path):
    users = [{"x": images(5 + k, k), "y": np.arange(5 + k) % 4} for k in range(3)]
    tests = [{"x": images(2, 10 + k), "y": np.array([k, 3])} for k in range(3)]
    found = import_partition(save_pfllib(tmp_path / "pfl", users, tests), tmp_path / "imported", "pfllib")
    assert (found.num_users, found.num_samples, found.num_test, found.num_classes) == (3, 18, 6, 4)
    assert not found.held_out
    population, dataset = imported(tmp_path / "imported")
    every = np.concatenate([held["x"] for held in users])
    for user, held in enumerate(users):
        samples = population.assignment.of(user)
        assert np.allclose(dataset.inputs[samples], (held["x"] - every.min()) / np.ptp(every), atol=1e-6)
        assert np.array_equal(dataset.labels[samples], held["y"])
    assert dataset.test_labels.tolist() == [0, 3, 1, 3, 2, 3]


def test_leaf_with_a_test_set(tmp_path):
    train = {"b": {"x": [[0.1, 0.2], [0.3, 0.4]], "y": [0, 1]}, "a": {"x": [[0.5, 0.6]], "y": [2.0]}}
    save_leaf(tmp_path / "leaf/train/first.json", {"b": train["b"]})
    save_leaf(tmp_path / "leaf/train/second.json", {"a": train["a"], "empty": {"x": [], "y": []}})
    save_leaf(
        tmp_path / "leaf/test/first.json", {"a": {"x": [[0.7, 0.8]], "y": [1]}, "b": {"x": [[1.0, 0.0]], "y": [0]}}
    )
    import_partition(tmp_path / "leaf", tmp_path / "imported", "leaf")
    population, dataset = imported(tmp_path / "imported")
    held = [dataset.inputs[population.assignment.of(user)].tolist() for user in range(3)]
    assert held == [[[pytest.approx(0.5), pytest.approx(0.6)]], np.float32(train["b"]["x"]).tolist(), []]
    assert dataset.labels[population.assignment.of(0)].tolist() == [2]
    assert dataset.test_labels.tolist() == [1, 0]
    with (tmp_path / "imported/users.csv").open() as stream:
        assert [row["name"] for row in csv.DictReader(stream)] == ["a", "b", "empty"]


def test_without_test_samples_a_fifth_of_each_class_is_held_out(tmp_path):
    rng = np.random.default_rng(1)
    users = {str(k): {"x": rng.random((25, 16)).tolist(), "y": (np.arange(25) % 5).tolist()} for k in range(4)}
    file = save_leaf(tmp_path / "data.json", users)
    found = import_partition(file, tmp_path / "imported", "leaf", shape=(4, 4))
    assert (found.num_samples, found.num_test, found.held_out) == (80, 20, True)
    population, dataset = imported(tmp_path / "imported")
    assert dataset.sample_shape == (1, 4, 4)
    assert np.bincount(dataset.test_labels).tolist() == [4] * 5
    for user, held in enumerate(users.values()):
        own = {tuple(np.float32(row).tolist()) for row in held["x"]}
        rows = dataset.inputs[population.assignment.of(user)].reshape(-1, 16).tolist()
        assert {tuple(row) for row in rows} < own


@pytest.fixture
def partitions(tmp_path):
    """Images divided by a partitioner of flwr-datasets, saved as `flwr-datasets create` does."""
    pytest.importorskip("flwr_datasets", reason='needs pip install "fedcast[flwr-datasets]"')
    import datasets
    from flwr_datasets.partitioner import DirichletPartitioner

    drawn = np.random.default_rng(0).integers(0, 256, (60, 5, 7, 3), dtype=np.uint8)
    features = datasets.Features({"img": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog", "owl"])})
    everything = datasets.Dataset.from_dict({"img": list(drawn), "label": np.arange(60) % 3}, features=features)
    partitioner = DirichletPartitioner(num_partitions=4, partition_by="label", alpha=1.0, min_partition_size=3, seed=1)
    partitioner.dataset = everything
    loaded = [partitioner.load_partition(number) for number in range(4)]
    for number, partition in enumerate(loaded):
        partition.save_to_disk(tmp_path / "flwr" / f"partition_{number}")
    return tmp_path / "flwr", loaded, everything


def test_flwr_datasets(partitions, tmp_path):
    folder, loaded, everything = partitions
    everything.select(range(9)).save_to_disk(folder / "test")
    import_partition(folder, tmp_path / "imported", "flwr")
    population, dataset = imported(tmp_path / "imported")
    assert dataset.class_names == ("cat", "dog", "owl")
    assert (dataset.sample_shape, dataset.inputs.dtype, len(dataset.test_labels)) == ((3, 5, 7), np.uint8, 9)
    for user, partition in enumerate(loaded):
        samples = population.assignment.of(user)
        pixels = np.stack([np.asarray(image) for image in partition["img"]])
        assert np.array_equal(dataset.inputs[samples], pixels.transpose(0, 3, 1, 2))
        assert dataset.labels[samples].tolist() == list(partition["label"])


def test_flwr_partitions_that_users_split_themselves(partitions, tmp_path):
    _, loaded, _ = partitions
    for number, partition in enumerate(loaded):
        partition.train_test_split(0.3, seed=1).save_to_disk(tmp_path / "split" / f"partition_{number}")
    found = import_partition(tmp_path / "split", tmp_path / "imported", "flwr", inputs="img", labels="label")
    assert (found.num_samples + found.num_test, found.held_out) == (60, False)
    with pytest.raises(DataError, match="partition_0: no column 'picture'; there are img, label"):
        import_partition(tmp_path / "split", tmp_path / "other", "flwr", inputs="picture")


def test_faults_of_flwr_folders(partitions, tmp_path):
    folder, _, _ = partitions
    (folder / "partition_2").rename(folder / "partition_7")
    with pytest.raises(DataError, match="expected folders partition_0, partition_1, … without gaps"):
        import_partition(folder, tmp_path / "imported", "flwr")
    (folder / "partition_7").rename(folder / "partition_2")
    (folder / "partition_1/state.json").unlink()
    with pytest.raises(DataError, match="partition_1: not a dataset saved by save_to_disk"):
        import_partition(folder, tmp_path / "imported", "flwr")
    assert not (tmp_path / "imported").exists()


GOOD = {"x": [[0.1, 0.2]], "y": [0]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1, 2", "data.json: not valid JSON"),
        ({"users": ["a"]}, "expected an object with users, num_samples and user_data"),
        ({"users": ["a"], "user_data": {"b": GOOD}}, "users and the keys of user_data are not the same"),
        ({"users": ["a"], "user_data": {"a": {"x": []}}}, "user 'a': expected an object with x and y"),
        (
            {"users": ["a"], "user_data": {"a": {"x": [[1], [2, 3]], "y": [0, 1]}}},
            "user 'a': samples have different shapes",
        ),
        ({"users": ["a"], "user_data": {"a": {"x": ["Yonder"], "y": ["c"]}}}, "'Yonder'; text cannot be imported"),
        (
            {"users": ["a"], "user_data": {"a": {"x": [[1], [2]], "y": [0]}}},
            r"shape \(2, 1\) and labels of shape \(1,\)",
        ),
        (
            {"users": ["a"], "user_data": {"a": {"x": [[1], [2]], "y": [0, 0.5]}}},
            "'a': sample 1 has label 0.5; ex",
        ),
        ({"users": ["a"], "user_data": {"a": {"x": [[1], [2]], "y": [0, -1]}}}, "user 'a': sample 1 has label -1"),
        ({"users": ["a", "b"], "user_data": {"a": GOOD, "b": {"x": [[1]], "y": [0]}}}, "samples of user b are float32"),
        ({"users": ["a"], "user_data": {"a": GOOD}}, "a single sample cannot be used for training and test"),
        ({"users": [], "user_data": {}}, "no sample in it"),
    ],
)
def test_faults_of_leaf_files(tmp_path, content, message):
    file = tmp_path / "data.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(DataError, match=message):
        import_partition(file, tmp_path / "imported", "leaf")
    assert not (tmp_path / "imported").exists()


def test_a_user_of_two_leaf_files_is_an_error(tmp_path):
    save_leaf(tmp_path / "one.json", {"a": GOOD})
    save_leaf(tmp_path / "two.json", {"a": GOOD})
    with pytest.raises(DataError, match=r"two.json: user 'a' is in another file of the folder, too"):
        import_partition(tmp_path, tmp_path / "imported", "leaf")


class Harmful:
    def __reduce__(self):
        return (print, ("code of the file was run",))


def pickled(held):
    stream = io.BytesIO()
    np.savez_compressed(stream, data=held)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no archive", "0.npz: not a file of PFLlib"),
        (pickled(np.arange(3)), "not a file of PFLlib .*plain array"),
        (pickled({"x": np.zeros((2, 3))}), "expected a dictionary with x and y"),
        (pickled({"x": Harmful(), "y": [0]}), "it holds builtins.print, expected arrays of numbers alone"),
        (pickled({"x": [([1, 2], 2)], "y": [0]}), "samples have different shapes"),
        (pickled({"x": np.zeros((2, 3)), "y": np.zeros(3)}), "expected pairs"),
        (pickled({"x": np.full((2, 3), np.nan), "y": np.zeros(2)}), "contains NaN"),
    ],
)
def test_faults_of_pfllib_files(tmp_path, capsys, content, message):
    folder = save_pfllib(tmp_path / "pfl", [{"x": images(3), "y": np.arange(3)}], [{"x": images(1), "y": np.zeros(1)}])
    (folder / "train/0.npz").write_bytes(content)
    with pytest.raises(DataError, match=message):
        import_partition(folder, tmp_path / "imported", "pfllib")
    assert "code of the file was run" not in capsys.readouterr().out


def test_every_client_of_pfllib_has_a_file(tmp_path):
    folder = save_pfllib(tmp_path / "pfl", [{"x": images(3), "y": np.arange(3)}] * 2, [])
    (folder / "test").rmdir()
    (folder / "train/1.npz").unlink()
    with pytest.raises(DataError, match=r"train/1.npz: no such file, but config.json counts this client"):
        import_partition(folder, tmp_path / "imported", "pfllib")
    (folder / "config.json").write_text('{"num_clients": "two"}')
    with pytest.raises(DataError, match="expected an object with num_clients"):
        import_partition(folder, tmp_path / "imported", "pfllib")


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_arrays_pickled_by_any_protocol_are_read(tmp_path, protocol):
    folder = save_pfllib(tmp_path / "pfl", [{"x": images(3), "y": np.arange(3)}], [{"x": images(1), "y": np.zeros(1)}])
    content = np.empty((), dtype=object)
    content[()] = {"x": images(4), "y": np.array([0, 1, 2, 3])}
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, np.lib.format.header_data_from_array_1_0(content))
    with zipfile.ZipFile(folder / "train/0.npz", "w") as archive:
        archive.writestr("data.npy", stream.getvalue() + pickle.dumps(content, protocol))
    assert import_partition(folder, tmp_path / "imported", "pfllib").num_samples == 4


def test_the_command_writes_what_trains(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    users = [{"x": images(20, k), "y": (np.arange(20) + k) % 4} for k in range(3)]
    tests = [{"x": images(4, 5), "y": np.arange(4)}] * 3
    save_pfllib(tmp_path / "pfl", users, tests)
    assert run(["import-partition", "pfl", "mine", "--format", "pfllib"]) == 0
    assert "3 users, 4 classes, 60 samples for training, 12 for the test" in capsys.readouterr().out
    short = ["training.rounds=1", "training.local_epochs=1", "clustering.rule=daca", "allocation.method=fixed"]
    assert run(["train", "mine/scenario.toml", *(word for value in short for word in ("--set", value))]) == 0
    assert read_indices("mine/partition.json", 60, 3).sizes.tolist() == [20, 20, 20]
    for words, message in [
        (["pfl", "mine", "--format", "pfllib"], "mine: the folder has files"),
        (["pfl", "new", "--format", "csv"], "invalid value 'csv' for format: expected flwr, leaf, pfllib"),
        (["none", "new", "--format", "leaf"], "none: no such file or folder"),
        (["pfl", "new", "--format", "pfllib", "--shape", "2,x"], "--shape: invalid value '2,x'"),
        (["pfl", "new", "--format", "pfllib", "--shape", "5,5"], "invalid value 5×5 for shape: samples of pfl have 36"),
    ]:
        assert run(["import-partition", *words]) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
