"""MNIST: 70,000 handwritten digits, 28×28 grey values, in the four original idx files."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedcast.data.catalogue import DatasetEntry, Source, SourceFile, fetch
from fedcast.data.dataset import Dataset, SampleSpec, byte_images

_ADDRESS = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_BYTES = b"\0\0\x08"  # first bytes of an idx file whose values are bytes

_SHA256 = {
    "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}
SOURCES = (tuple(SourceFile(f"mnist/{name}", sha256, _ADDRESS + name) for name, sha256 in _SHA256.items()),)


def load_idx(
    name: str, sources: tuple[Source, ...], class_names: Sequence[str], data_dir: str | Path | None = None
) -> Dataset:
    """Load images 28×28 from four compressed idx files in a data folder, the cache, a system folder or a download."""
    _, paths = fetch(name, sources, data_dir)
    images, labels, test_images, test_labels = (idx_values(gzip.decompress(path.read_bytes())) for path in paths)
    train = images.reshape(-1, 1, 28, 28), labels.astype(np.int64)
    test = test_images.reshape(-1, 1, 28, 28), test_labels.astype(np.int64)
    return byte_images(name, train, test, class_names)


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
    lambda _, data_dir: load_idx("mnist", SOURCES, "0123456789", data_dir),
    "60,000 + 10,000 images 28×28, 10 classes",
    "Y. LeCun, C. Cortes; generally stated as CC BY-SA 3.0",
    SOURCES,
    spec=lambda _: SampleSpec((1, 28, 28), 10),
)
