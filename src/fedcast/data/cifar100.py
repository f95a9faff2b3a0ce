"""CIFAR-100: 60,000 colour images 32×32 of 100 classes in 20 groups, from the binary or the Python archive.

The formats are those of cs.toronto.edu/~kriz/cifar.html, which publishes the MD5 sums of the archives.
"""

from __future__ import annotations

import io
import pickle
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fedcast.data.catalogue import UNTRIED, DatasetEntry, SourceFile, fetch
from fedcast.data.cifar10 import read_archive, read_records
from fedcast.data.dataset import Dataset, Part, SampleSpec, byte_images
from fedcast.errors import DataError
from fedcast.registry import option

_CLASSES = {"fine": 100, "coarse": 20}
_ADDRESS = "https://www.cs.toronto.edu/~kriz/"
_MD5 = {
    "cifar-100-binary.tar.gz": "03b5dce01913d631647c71ecec9e9cb8",
    "cifar-100-python.tar.gz": "eb9058c3a382ffc7106e4002c42a8d85",
}
_BINARY, _PYTHON = ((SourceFile(f"cifar100/{name}", "", _ADDRESS + name, md5),) for name, md5 in _MD5.items())
SOURCES = (_BINARY, _PYTHON)


@dataclass(frozen=True)
class Cifar100Options:
    """Options of dataset ``cifar100``."""

    labels: Literal["fine", "coarse"] = option("fine", "fine: 100 classes; coarse: their 20 groups")


def load_cifar100(data_dir: str | Path | None = None, labels: str = "fine") -> Dataset:
    """Load CIFAR-100 from a data folder, the cache or a download."""
    source, (path,) = fetch("cifar100", SOURCES, data_dir)
    try:
        train, test, names = (_from_binary if source is _BINARY else _from_python)(path, labels)
        for _, classes in (train, test):
            if len(names) != _CLASSES[labels] or not 0 <= classes.min() <= classes.max() < len(names):
                raise ValueError(f"labels from {classes.min()} to {classes.max()} for {len(names)} names")
    except (KeyError, ValueError, TypeError, EOFError, tarfile.TarError, pickle.UnpicklingError) as error:
        raise DataError(f"{path}: not the published format ({error}); {UNTRIED}") from None
    return byte_images("cifar100", train, test, names)


def _from_binary(path: Path, labels: str) -> tuple[Part, Part, tuple[str, ...]]:
    """Read records of a coarse label, a fine label and an image."""
    text = f"{labels}_label_names.txt"
    content = read_archive(path, ("train.bin", "test.bin", text))
    train, test = (read_records(content[name], 2, int(labels == "fine")) for name in ("train.bin", "test.bin"))
    return train, test, tuple(content[text].decode("ascii").split())


def _from_python(path: Path, labels: str) -> tuple[Part, Part, tuple[str, ...]]:
    content = {name: _unpickled(raw) for name, raw in read_archive(path, ("train", "test", "meta")).items()}

    def part(name: str) -> Part:
        images = np.asarray(content[name]["data"], dtype=np.uint8).reshape(-1, 3, 32, 32)
        classes = np.asarray(content[name][f"{labels}_labels"], dtype=np.int64)
        if len(images) != len(classes):
            raise ValueError(f"{len(images)} images and {len(classes)} labels in {name}")
        return images, classes

    return part("train"), part("test"), tuple(content["meta"][f"{labels}_label_names"])


class _ArraysOnly(pickle.Unpickler):
    """Unpickles arrays and plain values; anything else that a pickle could call is an error."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("_codecs", "encode"):  # bytes, in pickles of Python 3 in the protocol of Python 2
            return super().find_class(module, name)
        if (module, name) in (("numpy", "ndarray"), ("numpy", "dtype")):
            return getattr(np, name)
        if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name == "_reconstruct":
            return super().find_class("numpy._core.multiarray", name)
        raise pickle.UnpicklingError(f"a pickle that calls {module}.{name}")


def _unpickled(raw: bytes) -> dict[str, Any]:
    # Pickles of Python 2, whose strings are bytes.
    found = _ArraysOnly(io.BytesIO(raw), encoding="latin1").load()
    if not isinstance(found, dict):
        raise TypeError(f"a pickle of {type(found).__name__}")
    return found


DATASET = DatasetEntry(
    lambda options, data_dir: load_cifar100(data_dir, options.labels),
    f"50,000 + 10,000 colour images 32×32, 100 classes in 20 groups; {UNTRIED}",
    "no licence stated; cite A. Krizhevsky, 2009",
    SOURCES,
    Cifar100Options,
    lambda options: SampleSpec((3, 32, 32), _CLASSES[options.labels]),
)
