"""MNIST: 70,000 handwritten digits, 28×28 grey values, in the four original idx files."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedcast.data.catalogue import DatasetEntry, SourceFile, fetch
from fedcast.data.dataset import Dataset, SampleSpec

_ADDRESS = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_BITS_PER_SAMPLE = 28 * 28 * 8
_BYTES = b"\0\0\x08"  # first bytes of an idx file whose values are bytes

_SHA256 = {
    "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}
SOURCES = (tuple(SourceFile(f"mnist/{name}", sha256, _ADDRESS + name) for name, sha256 in _SHA256.items()),)


def load_mnist(data_dir: str | Path | None = None) -> Dataset:
    """Load MNIST from a data folder, the cache or a download."""
    _, paths = fetch("mnist", SOURCES, data_dir)
    images, labels, test_images, test_labels = map(read_idx, paths)
    train = images.reshape(-1, 1, 28, 28), labels.astype(np.int64)
    test = test_images.reshape(-1, 1, 28, 28), test_labels.astype(np.int64)
    return Dataset("mnist", *train, *test, 10, _BITS_PER_SAMPLE, scale=1 / 255, class_names=tuple("0123456789"))


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Return the values of a compressed idx file."""
    with gzip.open(path) as stream:
        return idx_values(stream.read())


def idx_values(raw: bytes) -> NDArray[np.uint8]:
    """Return the array of an idx file of bytes: type, number of dimensions, sizes, values (yann.lecun.com/exdb/mnist).

    Example:
        >>> idx_values(bytes([0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 3, 7, 8, 9])).tolist()
        [[7, 8, 9]]
    """
    start = 4 + 4 * raw[3] if raw[:3] == _BYTES and len(raw) > 3 else len(raw) + 1
    if len(raw) < start:
        raise ValueError("not an idx file of bytes")
    sizes = np.frombuffer(raw, ">u4", raw[3], 4).tolist()
    return np.frombuffer(raw, np.uint8, offset=start).reshape(sizes)


DATASET = DatasetEntry(
    lambda _, data_dir: load_mnist(data_dir),
    "60,000 + 10,000 images 28×28, 10 classes",
    "Y. LeCun, C. Cortes; generally stated as CC BY-SA 3.0",
    SOURCES,
    spec=lambda _: SampleSpec((1, 28, 28), 10),
)
