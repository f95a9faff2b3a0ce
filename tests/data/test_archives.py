"""CIFAR-100 and EMNIST, from small archives in the published formats: their files are not at hand."""

import gzip
import hashlib
import io
import json
import pickle
import tarfile
import zipfile

import numpy as np
import pytest

from fedcast.data import CATALOGUE, load_dataset, make_population, sample_spec
from fedcast.data.catalogue import UNTRIED, SourceFile
from fedcast.data.emnist import CLASSES
from fedcast.errors import DataError
from fedcast.runs.store import run_key
from fedcast.scenario import Data, load_scenario, missing_files

FINE = [f"class{number}" for number in range(100)]
COARSE = [f"group{number}" for number in range(20)]


def images_and_labels(count, seed):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (count, 3072), np.uint8), np.arange(count) % 100, np.arange(count) % 20


def tar_of(files, folder):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def binary_files():
    """Return the files of the binary archive: records of coarse label, fine label and pixels."""
    files = {
        "fine_label_names.txt": "\n".join([*FINE, ""]).encode(),
        "coarse_label_names.txt": "\n".join(COARSE).encode(),
    }
    for part, count in (("train", 120), ("test", 100)):
        pixels, fine, coarse = images_and_labels(count, part == "test")
        files[f"{part}.bin"] = np.column_stack([coarse, fine, pixels]).astype(np.uint8).tobytes()
    return files


def python_files():
    """Return the files of the Python archive, pickled as Python 2 did."""
    files = {"meta": pickle.dumps({"fine_label_names": FINE, "coarse_label_names": COARSE}, protocol=2)}
    for part, count in (("train", 120), ("test", 100)):
        pixels, fine, coarse = images_and_labels(count, part == "test")
        content = {"data": pixels, "fine_labels": fine.tolist(), "coarse_labels": coarse.tolist(), "batch_label": b"x"}
        files[part] = pickle.dumps(content, protocol=2)
    return files


@pytest.fixture
def put(tmp_path, monkeypatch):
    """Write an archive to a data folder, as the only source of its dataset, under its own MD5 sum."""

    def write(module, source, content):
        file = vars(module)[source][0] if source in vars(module) else module.SOURCES[0][0]
        (tmp_path / file.path).parent.mkdir(exist_ok=True)
        (tmp_path / file.path).write_bytes(content)
        own = (SourceFile(file.path, "", md5=hashlib.md5(content).hexdigest()),)
        monkeypatch.setattr(module, source, own, raising=False)
        monkeypatch.setattr(module, "SOURCES", (own,))
        return tmp_path

    return write


CIFAR = {"_BINARY": (binary_files, "cifar-100-binary"), "_PYTHON": (python_files, "cifar-100-python")}


@pytest.mark.parametrize("source", CIFAR)
@pytest.mark.parametrize("labels", ["fine", "coarse"])
def test_cifar100(put, source, labels):
    from fedcast.data import cifar100

    files, folder = CIFAR[source]
    data = Data(dataset="cifar100", cifar100={"labels": labels})
    found = load_dataset(data, put(cifar100, source, tar_of(files(), folder)))
    pixels, *both = images_and_labels(120, 0)
    assert np.array_equal(found.inputs.reshape(120, -1), pixels)
    assert np.array_equal(found.labels, both[labels == "coarse"])
    assert np.array_equal(found.test_inputs.reshape(100, -1), images_and_labels(100, 1)[0])
    assert found.class_names == tuple(FINE if labels == "fine" else COARSE)
    assert found.spec == sample_spec(data)
    assert found.features(slice(None)).max() == 1.0


class Calls:
    """A pickle of this would run a command."""

    def __reduce__(self):
        import os

        return os.system, ("false",)


@pytest.mark.parametrize(
    ("source", "change", "message"),
    [
        ("_BINARY", lambda files: files.pop("test.bin"), "'test.bin'"),
        ("_BINARY", lambda files: files.update({"train.bin": files["train.bin"][:-1]}), "cannot reshape"),
        ("_BINARY", lambda files: files.update({"fine_label_names.txt": b"a b c"}), "labels from 0 to 99 for 3 names"),
        (
            "_PYTHON",
            lambda files: files.update(train=pickle.dumps({"data": Calls()}, protocol=2)),
            r"a pickle that calls",
        ),
        ("_PYTHON", lambda files: files.update(train=pickle.dumps([1], protocol=2)), "a pickle of list"),
        ("_PYTHON", lambda files: files.update(train=b"no pickle"), "not the published format"),
        ("_PYTHON", lambda files: files.update(test=files["train"][:-9]), "not the published format"),
        (
            "_PYTHON",
            lambda files: files.update(
                test=pickle.dumps({"data": np.zeros((2, 3072)), "fine_labels": [1]}, protocol=2)
            ),
            "2 images and 1 labels in test",
        ),
    ],
)
def test_other_content_of_cifar100(put, source, change, message):
    from fedcast.data import cifar100

    made, folder = CIFAR[source]
    files = made()
    change(files)
    with pytest.raises(DataError, match=message) as caught:
        load_dataset(Data(dataset="cifar100"), put(cifar100, source, tar_of(files, folder)))
    assert UNTRIED in str(caught.value)


def idx(values):
    return bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">i4").tobytes() + values.tobytes()


def emnist_files(split, first=0):
    """Return the four files of a split; images are stored column by column."""
    files, rng = {}, np.random.default_rng(0)
    for part, count in (("train", 70), ("test", 62)):
        images = rng.integers(0, 256, (count, 28, 28), np.uint8)
        labels = (np.arange(count) % len(CLASSES[split]) + first).astype(np.uint8)
        for kind, values in (("images-idx3", images.swapaxes(1, 2)), ("labels-idx1", labels)):
            files[f"gzip/emnist-{split}-{part}-{kind}-ubyte.gz"] = gzip.compress(idx(np.ascontiguousarray(values)))
    return files


def zip_of(files):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


@pytest.mark.parametrize("split", CLASSES)
def test_emnist(put, split):
    from fedcast.data import emnist

    data = Data(dataset="emnist", emnist={"split": split})
    files = zip_of(emnist_files(split, first=int(split == "letters")))
    found = load_dataset(data, put(emnist, "emnist", files))
    rng = np.random.default_rng(0)
    assert np.array_equal(found.inputs[:, 0], rng.integers(0, 256, (70, 28, 28), np.uint8))
    assert found.labels.tolist() == [number % found.num_classes for number in range(70)]
    assert found.spec == sample_spec(data)


def test_classes_of_emnist():
    """47 classes where upper and lower case of some letters are one class."""
    assert {split: len(names) for split, names in CLASSES.items()} == {
        "byclass": 62, "bymerge": 47, "balanced": 47, "letters": 26, "digits": 10, "mnist": 10,
    }  # fmt: skip
    assert CLASSES["balanced"][36:] == "abdefghnqrt"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda files: files.pop("gzip/emnist-balanced-test-labels-idx1-ubyte.gz"), "no item named"),
        (lambda files: files.update({"gzip/emnist-balanced-train-labels-idx1-ubyte.gz": b"x"}), "gzip|Not a gzipped"),
        (
            lambda files: files.update({"gzip/emnist-balanced-train-labels-idx1-ubyte.gz": gzip.compress(b"xyz")}),
            "not an idx file of bytes",
        ),
        (
            lambda files: files.update(
                {"gzip/emnist-balanced-train-labels-idx1-ubyte.gz": gzip.compress(idx(np.zeros(3, np.uint8)))}
            ),
            r"images of shape \(70, 28, 28\) and 3 labels",
        ),
        (
            lambda files: files.update(
                {"gzip/emnist-balanced-train-labels-idx1-ubyte.gz": gzip.compress(idx(np.full(70, 47, np.uint8)))}
            ),
            "labels from 47 to 47",
        ),
    ],
)
def test_other_content_of_emnist(put, change, message):
    from fedcast.data import emnist

    files = emnist_files("balanced")
    change(files)
    with pytest.raises(DataError, match=message) as caught:
        load_dataset(Data(dataset="emnist"), put(emnist, "emnist", zip_of(files)))
    assert UNTRIED in str(caught.value)


def test_a_file_that_is_no_archive(put):
    from fedcast.data import cifar100, emnist

    with pytest.raises(DataError, match="not the published format"):
        load_dataset(Data(dataset="emnist"), put(emnist, "emnist", b"no archive"))
    with pytest.raises(DataError, match="not the published format"):
        load_dataset(Data(dataset="cifar100"), put(cifar100, "_BINARY", b"no archive"))


def leaf_files(folder, **changes):
    """Write two files for training and one for the test as LEAF does, and return bytes and labels by writer."""
    rng, made = np.random.default_rng(0), {}
    for part, files in (("train", (("f2", "f0"), ("f1",))), ("test", (("f0", "f2", "f1"),))):
        (folder / part).mkdir(parents=True)
        for number, writers in enumerate(files):
            data = {}
            for writer in writers:
                pixels, labels = rng.integers(0, 256, (4, 784)), rng.integers(0, 62, 4)
                made[part, writer] = pixels, labels
                data[writer] = {"x": (pixels / 255).tolist(), "y": labels.tolist()}
                if (part, writer) == ("train", "f0"):
                    data[writer] |= changes
            content = {"users": list(writers), "num_samples": [4] * len(writers), "user_data": data}
            (folder / part / f"all_data_{number}_niid_0_keep_0_{part}_9.json").write_text(json.dumps(content))
    return made


def test_femnist(tmp_path):
    made = leaf_files(tmp_path / "leaf")
    data = Data(dataset="femnist", femnist={"folder": str(tmp_path / "leaf")})
    found = load_dataset(data)
    assert found.group_names == ("f0", "f1", "f2")
    for number, writer in enumerate(found.group_names):
        for part, inputs, labels, groups in (
            ("train", found.inputs, found.labels, found.groups),
            ("test", found.test_inputs, found.test_labels, found.test_groups),
        ):
            pixels, expected = made[part, writer]
            assert np.array_equal(inputs[groups == number].reshape(4, 784), pixels)
            assert labels[groups == number].tolist() == expected.tolist()
    assert found.spec == sample_spec(data)
    assert found.class_names[10] + found.class_names[61] == "Az"
    people = make_population(
        Data(dataset="femnist", partition="natural", num_users=2, femnist=data.tables["femnist"]), 0
    )
    assert people.sizes.tolist() == [4, 4]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": [[0.5] * 10] * 4}, "different|shape"),
        ({"x": [[2.0] * 784] * 4}, "pixels from 0 to 2; expected 0 to 1"),
        ({"x": [[float("nan")] * 784] * 4}, "pixels from nan|NaN|JSON"),
        ({"y": [62, 0, 0, 0]}, "label 62; expected 0 to 61"),
        ({"y": [0, 1]}, "expected pairs"),
    ],
)
def test_other_content_of_femnist(tmp_path, changes, message):
    leaf_files(tmp_path / "leaf", **changes)
    with pytest.raises(DataError, match=message):
        load_dataset(Data(dataset="femnist", femnist={"folder": str(tmp_path / "leaf")}))


def test_the_folder_of_femnist_is_named_exists_and_decides_the_run(tmp_path):
    with pytest.raises(DataError, match=r"data\.femnist\.folder is not set"):
        load_dataset(Data(dataset="femnist"))
    folder = tmp_path / "leaf"
    scenario = load_scenario(overrides={"data.dataset": "femnist", "data.femnist.folder": str(folder)})
    assert missing_files(scenario) == [f"data.femnist.folder: no such folder: {folder}"]
    with pytest.raises(DataError, match=r"no \.json file here"):
        load_dataset(scenario.data)
    leaf_files(folder)
    assert missing_files(scenario) == []
    before = run_key(scenario)
    (file,) = (folder / "test").iterdir()
    file.write_text(file.read_text().replace('"y": [', '"y":  ['))
    assert run_key(scenario) != before


@pytest.mark.parametrize("name", ["emnist", "femnist", "cifar100"])
def test_the_catalogue_says_what_was_not_tried(name):
    assert UNTRIED in CATALOGUE[name].summary
