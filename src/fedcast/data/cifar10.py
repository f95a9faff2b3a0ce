"""CIFAR-10: 60,000 colour images, 32×32, ten classes; the binary version as one archive or as compressed batches."""

from __future__ import annotations

import lzma
import tarfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from fedcast.data.catalogue import DatasetEntry, SourceFile, fetch
from fedcast.data.dataset import Dataset, Part, SampleSpec, byte_images

_BATCHES = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
_TEST_BATCH = "test_batch.bin"
_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

_COMPRESSED = (
    SourceFile("cifar10/data_batch_1.bin.xz", "197c10cbddaff2d43f8714b1f47834ba0225844e1c87143fc53f8ad819914865"),
    SourceFile("cifar10/data_batch_2.bin.xz", "ce4dc3fc446db42d3dfa262eb1c1d772a808fa4f4d320a99fca61d126a08c35a"),
    SourceFile("cifar10/data_batch_3.bin.xz", "11fcb6f6d4728ebe0ca2154c90494bfff4afc1a0b872f7a2d727c0de4de8aafa"),
    SourceFile("cifar10/data_batch_4.bin.xz", "036a3f7eec76fe54b0bc57124d701700b87cba5fed141c4ffc1393065959f115"),
    SourceFile("cifar10/data_batch_5.bin.xz", "6bae83ba0278f0ef0dd4803ade45020bcea40039e1bbdf5601124560126b1c40"),
    SourceFile("cifar10/test_batch.bin.xz", "88d811b524a5420db2da701769b48211385108512a846196d4e6ae8ac0d3333a"),
)
_ARCHIVE = (
    SourceFile(
        "cifar10/cifar-10-binary.tar.gz",
        "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    ),
)
SOURCES = (_ARCHIVE, _COMPRESSED)


def load_cifar10(data_dir: str | Path | None = None) -> Dataset:
    """Load CIFAR-10 from a data folder, the cache or a download."""
    source, paths = fetch("cifar10", SOURCES, data_dir)
    if source is _ARCHIVE:
        batches = read_archive(paths[0], (*_BATCHES, _TEST_BATCH))
    else:
        with ThreadPoolExecutor() as pool:  # on several cores: lzma works outside of Python's lock
            contents = pool.map(lambda path: lzma.decompress(path.read_bytes()), paths)
            batches = dict(zip([path.stem for path in paths], contents, strict=True))
    train = read_records(b"".join(batches[name] for name in _BATCHES))
    return byte_images("cifar10", train, read_records(batches[_TEST_BATCH]), _CLASSES)


def read_archive(path: Path, names: Sequence[str]) -> dict[str, bytes]:
    """Return the content of some files of a verified .tar.gz archive, by name without its folder."""
    found = {}
    with tarfile.open(path) as archive:
        for member in archive:
            name = Path(member.name).name
            if name in names and member.isfile():
                stream = archive.extractfile(member)
                assert stream is not None, f"{name} is a regular file of a verified archive"
                found[name] = stream.read()
    return found


def read_records(raw: bytes, labels: int = 1, used: int = 0) -> Part:
    """Split records of some labels, of which one is used, and 1,024 red, green and blue bytes each, row by row."""
    records = np.frombuffer(raw, np.uint8).reshape(-1, labels + 3 * 32 * 32)
    return np.ascontiguousarray(records[:, labels:]).reshape(-1, 3, 32, 32), records[:, used].astype(np.int64)


DATASET = DatasetEntry(
    lambda _, data_dir: load_cifar10(data_dir),
    "50,000 + 10,000 colour images 32×32, 10 classes",
    "no licence stated; cite A. Krizhevsky, 2009",
    SOURCES,
    spec=lambda _: SampleSpec((3, 32, 32), len(_CLASSES)),
)
