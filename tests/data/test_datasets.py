import gzip
import hashlib
import lzma
import os
import shutil
import tarfile
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_digits as sklearn_digits

from fedcast.data import CATALOGUE, DatasetEntry, dataset_from_arrays, load_dataset, presence
from fedcast.data.catalogue import SourceFile, fetch
from fedcast.data.dataset import stratified_split
from fedcast.data.shakespeare import SEQUENCE_LENGTH, VOCABULARY, text_dataset
from fedcast.errors import DataError, FedcastError
from fedcast.registry import NoOptions
from fedcast.runs import train_scenario
from fedcast.scenario import Data, load_scenario
from fedcast.testing import datasets

MNIST_TRAIN = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
MNIST_TEST = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


def test_digits_are_those_of_scikit_learn():
    digits = load_dataset(Data(dataset="digits"))
    theirs = sklearn_digits()
    assert (len(digits), len(digits.test_labels)) == (1437, 360)
    ours = np.concatenate([digits.inputs, digits.test_inputs]).reshape(1797, 64)
    labels = np.concatenate([digits.labels, digits.test_labels])
    key = np.column_stack([ours, labels])
    their_key = np.column_stack([theirs.data, theirs.target])
    assert np.array_equal(key[np.lexsort(key.T)], their_key[np.lexsort(their_key.T)])
    assert digits.features(slice(None)).max() == 1.0
    due = np.bincount(theirs.target) * 360 / 1797
    assert np.abs(np.bincount(digits.test_labels) - due).max() < 1
    assert digits.bits_per_sample == 256


def test_mnist(data_dir):
    mnist = load_dataset(Data(dataset="mnist"), data_dir)
    assert mnist.class_sizes.tolist() == MNIST_TRAIN
    assert np.bincount(mnist.test_labels).tolist() == MNIST_TEST
    assert mnist.inputs.shape == (60_000, 1, 28, 28)
    assert mnist.features(slice(None)).mean() == pytest.approx(0.1307, abs=1e-4)  # the well-known mean
    assert mnist.bits_per_sample == 6272


def test_cifar10(data_dir, monkeypatch):
    # Decompressing takes most of the time, so that this test also runs the conformance kit.
    monkeypatch.setattr(lzma, "decompress", cache(lzma.decompress))
    monkeypatch.setenv("FEDCAST_DATA", str(data_dir))
    for check in datasets.CHECKS:
        check(CATALOGUE["cifar10"], NoOptions())
    cifar = load_dataset(Data(dataset="cifar10"), data_dir)
    assert cifar.class_sizes.tolist() == [5000] * 10
    assert np.bincount(cifar.test_labels).tolist() == [1000] * 10
    channels = cifar.features(slice(None)).mean(axis=(0, 2, 3), dtype=np.float64)
    assert channels == pytest.approx([0.49140, 0.48216, 0.44653], abs=1e-5)
    assert cifar.class_names[cifar.labels[0]] == "frog"
    assert cifar.bits_per_sample == 24_576


def test_cifar10_from_the_original_archive(data_dir, tmp_path, monkeypatch):
    """The archive holds the unpacked batches; here a small one, under its own checksum."""
    import hashlib

    from fedcast.data import cifar10

    batch = lzma.decompress((data_dir / "cifar10" / "test_batch.bin.xz").read_bytes())[: 3073 * 20]
    folder = tmp_path / "cifar10"
    folder.mkdir()
    archive = folder / "cifar-10-binary.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for name in (*cifar10._BATCHES, cifar10._TEST_BATCH, "readme.html"):
            file = tmp_path / name
            file.write_bytes(batch)
            tar.add(file, f"cifar-10-batches-bin/{name}")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    source = (SourceFile("cifar10/cifar-10-binary.tar.gz", digest),)
    monkeypatch.setattr(cifar10, "_ARCHIVE", source)
    monkeypatch.setattr(cifar10, "SOURCES", (source,))
    small = cifar10.load_cifar10(tmp_path)
    assert len(small) == 100
    assert np.array_equal(small.inputs[:20], small.test_inputs)


def test_shakespeare(data_dir):
    plays = load_dataset(Data(dataset="shakespeare"), data_dir)
    assert len(plays.group_names) == 639
    assert plays.num_classes == 80
    assert plays.bits_per_sample == 648
    hamlet = plays.group_names.index("hamlet/HAMLET")
    own = np.flatnonzero(plays.groups == hamlet)
    text = "".join(VOCABULARY[code] for code in plays.inputs[own[0]])
    assert text.startswith("[Aside] A little more than kin, and less than kind.")
    assert VOCABULARY[plays.labels[own[0]]] == "".join(VOCABULARY[code] for code in plays.inputs[own[1]])[-1]
    train_end = plays.inputs.starts[own[-1]] + SEQUENCE_LENGTH
    test_start = plays.test_inputs.starts[np.flatnonzero(plays.test_groups == hamlet)[0]]
    assert train_end < test_start, "no character is in both"


def test_tiny_shakespeare(data_dir):
    tiny = load_dataset(Data(dataset="tiny_shakespeare", text_stride=80), data_dir)
    assert "ROMEO" in tiny.group_names
    starts = tiny.inputs.starts[tiny.groups == tiny.group_names.index("ROMEO")]
    assert (np.diff(starts) == 80).all()


def test_short_roles_are_left_out_and_unknown_characters_dropped():
    text = text_dataset("t", [("short", "x" * 999), ("long", "ab$€" * 1000)])
    assert text.group_names == ("long",)
    assert {VOCABULARY[code] for code in np.unique(text.inputs.codes)} == {"a", "b"}
    assert len(text) == 1600 - SEQUENCE_LENGTH
    assert len(text.test_labels) == 400 - SEQUENCE_LENGTH


def test_held_out_keeps_class_shares():
    labels = np.repeat([0, 1, 2], [700, 200, 100])
    train, test = stratified_split(labels, 200)
    assert sorted(np.concatenate([train, test])) == list(range(1000))
    assert np.bincount(labels[test]).tolist() == [140, 40, 20]


def test_own_arrays():
    rng = np.random.default_rng(0)
    bytes_images = rng.integers(0, 256, (50, 6, 6), dtype=np.uint8)
    mine = dataset_from_arrays(bytes_images, np.arange(50) % 5)
    assert mine.inputs.shape == (40, 1, 6, 6)
    assert mine.features(slice(None)).max() <= 1
    assert mine.bits_per_sample == 6 * 6 * 8
    wide = dataset_from_arrays(rng.normal(0, 5, (50, 7)), np.arange(50) % 5, rng.normal(0, 5, (9, 7)), np.zeros(9, int))
    assert (wide.inputs.min(), wide.inputs.max()) == (0, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": np.zeros(9, int)}, r"labels: shape \(9,\); expected \(10,\)"),
        ({"labels": np.linspace(0, 1, 10)}, "labels: type float64; expected whole numbers 0, 1, 2, …$"),
        ({"labels": np.arange(10) % 2.0}, r"labels: type float64; .*: pass labels\.astype\(int\)$"),
        ({"labels": np.array([0] * 9 + [-1])}, "labels: sample 9 has -1"),
        ({"inputs": np.full((10, 2), np.nan)}, "inputs: sample 0 contains NaN"),
        ({"inputs": np.zeros(10)}, r"inputs: shape \(10,\)"),
        ({"inputs": np.array([["a"] * 2] * 10)}, "inputs: type <U1; expected integers or floats"),
        ({"test_inputs": np.zeros((3, 2))}, "expected both test_inputs and test_labels, or neither"),
        ({"test_inputs": np.zeros((3, 5)), "test_labels": np.zeros(3, int)}, r"test_inputs have shape \(5,\)"),
        (
            {"inputs": np.zeros((10, 8, 8, 3))},
            r"inputs: shape \(10, 8, 8, 3\) has its channels last; .*: pass inputs\.transpose\(0, 3, 1, 2\)",
        ),
        (
            {"inputs": np.zeros((10, 2), np.uint8), "test_inputs": np.zeros((3, 2)), "test_labels": np.zeros(3, int)},
            "test_inputs are of type float64, inputs uint8; expected the same type",
        ),
        ({"inputs": np.zeros((1, 2)), "labels": np.zeros(1, int)}, "the only sample would be held out"),
        ({"class_names": ("a", "b", "c")}, "3 class names for 2 classes"),
        ({"groups": np.zeros(3, int)}, r"groups: shape \(3,\)"),
    ],
)
def test_bad_arrays_are_refused(changes, message):
    arrays = {"inputs": np.zeros((10, 2)), "labels": np.arange(10) % 2} | changes
    with pytest.raises(DataError, match=message):
        dataset_from_arrays(**arrays)


@pytest.mark.parametrize("shape", [(3, 8, 8), (1, 4, 4), (9, 128, 1), (4, 4, 4)])
def test_channels_that_come_first_are_taken_as_they_are(shape):
    assert dataset_from_arrays(np.zeros((10, *shape)), np.arange(10) % 2).sample_shape == shape


def test_two_samples_are_enough_for_a_test():
    two = dataset_from_arrays(np.zeros((2, 3)), np.array([0, 1]))
    assert (len(two), len(two.test_labels), two.num_classes) == (1, 1, 2)


def test_shape_of_a_sample():
    assert load_dataset(Data(dataset="digits")).sample_shape == (1, 8, 8)
    assert text_dataset("t", [("long", "ab" * 2000)]).sample_shape == (SEQUENCE_LENGTH,)


def test_own_npz(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, inputs=np.zeros((20, 3)), labels=np.arange(20) % 4, class_names=["a", "b", "c", "d"])
    mine = load_dataset(Data(dataset="file", file=str(path)))
    assert (mine.name, mine.class_names) == ("mine", ("a", "b", "c", "d"))


def test_an_npz_with_scale_and_label_distributions_is_used_as_it_is(tmp_path):
    path, values = tmp_path / "mine.npz", np.array([[-3.0, 32.0], [0.0, 16.0], [1.0, 2.0]], dtype=np.float32)
    soft = np.array([[0.25, 0.75], [1.0, 0.0], [0.5, 0.5]])
    labels = np.array([1, 0, 0])
    np.savez(path, inputs=values, labels=labels, test_inputs=values, test_labels=labels, scale=1 / 16, soft_labels=soft)
    mine = load_dataset(Data(dataset="file", file=str(path)))
    assert (mine.scale, mine.inputs.dtype) == (1 / 16, np.float32)
    assert np.array_equal(mine.inputs, values)
    assert np.array_equal(mine.test_inputs, values)
    assert np.array_equal(mine.soft_labels, soft)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"inputs": np.zeros((4, 2))}, "no array 'labels'"),
        ({"inputs": np.zeros((4, 2)), "labels": np.arange(4), "lables": np.arange(4)}, "unknown array 'lables'"),
        ({"inputs": np.zeros((4, 2)), "labels": np.arange(3)}, r"mine.npz: labels: shape"),
        (
            {"inputs": np.zeros((4, 2)), "labels": np.arange(4), "scale": -1},
            "mine.npz: scale: -1; expected",
        ),
        ({"inputs": np.zeros((4, 2)), "labels": np.arange(4), "scale": "a"}, "scale: 'a'; expected a number > 0"),
        (
            {"inputs": np.zeros((10, 2)), "labels": np.arange(10) % 2, "soft_labels": np.full((10, 2), 0.5)},
            r"soft_labels: shape \(10, 2\), type float64; expected \(8, 2\)",
        ),
        (
            {"inputs": np.zeros((10, 2)), "labels": np.arange(10) % 2, "soft_labels": np.ones((8, 2))},
            "soft_labels: expected a distribution, with sum 1",
        ),
    ],
)
def test_bad_npz(tmp_path, arrays, message):
    path = tmp_path / "mine.npz"
    np.savez(path, **arrays)
    with pytest.raises(DataError, match=message):
        load_dataset(Data(dataset="file", file=str(path)))


def test_npz_that_is_none(tmp_path):
    path = tmp_path / "mine.npz"
    path.write_text("hello")
    with pytest.raises(DataError, match="not a readable"):
        load_dataset(Data(dataset="file", file=str(path)))
    np.save(tmp_path / "mine.npy", np.zeros(3))
    with pytest.raises(DataError, match=r"mine.npy: not a readable .npz file, as written by numpy.savez_compressed"):
        load_dataset(Data(dataset="file", file=str(tmp_path / "mine.npy")))
    (tmp_path / "counts.csv").write_text("user,a,b\n0,1,2\n")
    with pytest.raises(DataError, match=r"counts.csv: expected an .npz file with samples"):
        load_dataset(Data(dataset="file", file=str(tmp_path / "counts.csv")))
    with pytest.raises(DataError, match="no such file"):
        load_dataset(Data(dataset="file", file=str(tmp_path / "none.npz")))
    with pytest.raises(DataError, match="data.file is not set"):
        load_dataset(Data(dataset="file"))
    with pytest.raises(DataError, match='for data.dataset: expected "file"'):
        load_dataset(Data(dataset="digits", file=str(path)))


def test_unknown_dataset():
    with pytest.raises(FedcastError, match="did you mean mnist"):
        load_dataset(Data(dataset="minst"))


def test_truncated_or_altered_file_is_named_and_never_used(data_dir, tmp_path):
    shutil.copytree(data_dir / "mnist", tmp_path / "mnist", copy_function=shutil.copyfile)
    labels = tmp_path / "mnist" / "train-labels-idx1-ubyte.gz"
    raw = labels.read_bytes()
    intact = load_dataset(Data(dataset="mnist"), tmp_path)
    assert load_dataset(Data(dataset="mnist", num_users=7), tmp_path) is intact  # kept while its files are the same
    for broken in (raw[:-100], gzip.compress(gzip.decompress(raw)[:-1] + b"\x07")):
        labels.write_bytes(broken)
        with pytest.raises(DataError, match=r"train-labels-idx1-ubyte.gz: damaged or altered: SHA-256 is"):
            load_dataset(Data(dataset="mnist"), tmp_path)


@pytest.fixture
def reads(tmp_path, monkeypatch):
    """Calls of the loader of a published dataset of one file, which stands for Shakespeare here."""
    calls = []

    def load(options, data_dir):
        calls.append((options.stride, data_dir))
        return dataset_from_arrays(np.zeros((40, 3)), np.arange(40) % 2)

    # Plug-ins may list files, and have options that are not hashable.
    sources = ([SourceFile("mine.txt", "")],)
    entry = DatasetEntry(load, "mine", "none", sources, CATALOGUE["shakespeare"].options)
    monkeypatch.setattr("fedcast.data.catalogue.find", lambda *_: SimpleNamespace(value=entry))
    (tmp_path / "mine.txt").write_text("a")
    return calls


def test_a_dataset_is_read_again_if_its_files_or_options_change(reads, tmp_path):
    def load(**options):
        return load_dataset(Data(dataset="shakespeare", shakespeare=options), tmp_path)

    first = load()
    assert load() is first
    assert load(stride=5) is not first
    assert load(stride=5) is load(stride=5)
    assert [stride for stride, _ in reads] == [1, 5]
    file = tmp_path / "mine.txt"
    os.utime(file, ns=(0, file.stat().st_mtime_ns + 1))  # of the same size
    load(stride=5)
    file.write_text("ab")
    os.utime(file, ns=(0, 0))
    load(stride=5)
    assert [stride for stride, _ in reads] == [1, 5, 5, 5]
    file.unlink()
    load(stride=5)  # the loader says what is missing
    assert len(reads) == 5


@pytest.mark.usefixtures("reads")
def test_a_dataset_that_runs_share_cannot_be_written_to(tmp_path):
    shared = load_dataset(Data(dataset="shakespeare"), tmp_path)
    for array in (shared.inputs, shared.labels, shared.test_inputs, shared.test_labels):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0


def test_a_text_that_runs_share_cannot_be_written_to(data_dir):
    inputs = load_dataset(Data(dataset="tiny_shakespeare"), data_dir).inputs
    for array in (inputs.codes, inputs.starts):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0


@pytest.fixture(scope="module")
def fashion_mnist():
    """The real files: CI installs Debian's package."""
    if presence("fashion_mnist").state != "here":
        pytest.skip("neither $FEDCAST_DATA nor Debian's package dataset-fashion-mnist has it")
    return load_dataset(Data(dataset="fashion_mnist"))


def test_fashion_mnist(fashion_mnist):
    found = fashion_mnist
    assert found.class_sizes.tolist() == [6_000] * 10
    assert np.bincount(found.test_labels).tolist() == [1_000] * 10
    assert found.inputs.shape == (60_000, 1, 28, 28)
    assert found.features(slice(None)).mean() == pytest.approx(0.2860, abs=1e-4)  # the well-known mean
    assert found.class_names[int(found.labels[0])] == "ankle boot"


def test_federated_training_on_fashion_mnist(fashion_mnist):
    """One round of ten users with 6,000 samples each: guessing is right for one image in ten."""
    values = ["data.partition=iid", "training.model=mlp", "training.rounds=1", "training.local_epochs=2"]
    first, last = train_scenario(load_scenario(base="niid-fashion-mnist", overrides=values)).history.records
    assert first.accuracy < 0.2
    assert last.accuracy > 0.7


def idx_files(folder):
    """Write four idx files of 20 + 10 images, and return them."""
    folder.mkdir(parents=True)
    rng, made = np.random.default_rng(0), {}
    for part, count in (("train", 20), ("t10k", 10)):
        images, labels = rng.integers(0, 256, (count, 28, 28), np.uint8), np.arange(count, dtype=np.uint8) % 10
        sizes = {"images-idx3": (images, [count, 28, 28]), "labels-idx1": (labels, [count])}
        for name, (values, shape) in sizes.items():
            head = bytes([0, 0, 8, len(shape)]) + np.array(shape, ">i4").tobytes()
            path = folder / f"{part}-{name}-ubyte.gz"
            path.write_bytes(gzip.compress(head + values.tobytes()))
            made[path.name] = values
    return made


@pytest.mark.parametrize("kind", ["md5", "sha256"])
def test_files_of_the_system_are_found_and_verified(tmp_path, empty_cache, monkeypatch, kind):
    """As a package of Debian installs them; with either kind of checksum."""
    made = idx_files(tmp_path / "fashion-mnist")
    monkeypatch.setattr("fedcast.data.catalogue.SYSTEM_FOLDER", tmp_path)
    files = {name: (tmp_path / "fashion-mnist" / name).read_bytes() for name in made}
    sums = {name: hashlib.new(kind, content).hexdigest() for name, content in files.items()}
    names = [f"{part}-{one}-ubyte.gz" for part in ("train", "t10k") for one in ("images-idx3", "labels-idx1")]
    source = tuple(SourceFile(f"fashion-mnist/{name}", **{"sha256": "", kind: sums[name]}) for name in names)
    monkeypatch.setattr("fedcast.data.fashion_mnist.SOURCES", (source,))
    found = load_dataset(Data(dataset="fashion_mnist"))
    assert (found.inputs[:, 0] == made["train-images-idx3-ubyte.gz"]).all()
    assert found.test_labels.tolist() == made["t10k-labels-idx1-ubyte.gz"].tolist()
    (tmp_path / "fashion-mnist" / names[1]).write_bytes(b"damaged")
    with pytest.raises(DataError, match=f"damaged or altered: {'MD5' if kind == 'md5' else 'SHA-256'} is"):
        load_dataset(Data(dataset="fashion_mnist"))


def test_no_file_and_no_network_says_which_file_to_put_where(empty_cache, monkeypatch):
    import pooch

    def no_network(*_, **__):
        raise ConnectionError("no route")

    monkeypatch.setattr(pooch, "retrieve", no_network)
    with pytest.raises(DataError) as caught:
        load_dataset(Data(dataset="mnist"))
    for part in ("could not be downloaded", "mnist/train-images-idx3-ubyte.gz", str(empty_cache), "--data-dir"):
        assert part in str(caught.value)
    with pytest.raises(DataError, match="roles.jsonl.xz under"):
        load_dataset(Data(dataset="shakespeare"))


def test_download_is_checked_and_kept(empty_cache, tmp_path):
    """A real download from a file on disk: the right one is kept, a wrong one is not."""
    import threading
    from functools import partial
    from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    site = tmp_path / "site"
    site.mkdir()
    (site / "good.bin").write_bytes(b"good")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/good.bin"
    try:
        right = (SourceFile("d/good.bin", hashlib.sha256(b"good").hexdigest(), address),)
        _, (path,) = fetch("d", (right,))
        assert path.read_bytes() == b"good"
        assert path.is_relative_to(empty_cache)
        wrong = (SourceFile("d/bad.bin", hashlib.sha256(b"other").hexdigest(), address),)
        with pytest.raises(DataError, match="could not be downloaded"):
            fetch("d", (wrong,))
        assert not (empty_cache / "d" / "bad.bin").exists()
    finally:
        server.shutdown()
        server.server_close()
    _, (path,) = fetch("d", (right,))  # from the cache now
    assert path.read_bytes() == b"good"


def test_presence(empty_cache, tmp_path, data_dir):
    assert presence("digits").state == "built in"
    assert presence("mnist").state == "to download"
    assert presence("shakespeare").state == "missing"
    assert presence("file").state == "yours"
    found = presence("mnist", data_dir)
    assert (found.state, round(found.megabytes, 1)) == ("here", 11.6)
    with pytest.raises(DataError, match="invalid value .* for --data-dir: no such folder"):
        presence("mnist", tmp_path / "nowhere")
    assert all(entry.summary and (entry.terms or name == "synthetic") for name, entry in CATALOGUE.items())
