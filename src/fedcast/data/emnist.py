"""EMNIST (Cohen et al. 2017): handwritten digits and letters, 28×28 grey values, in idx files as MNIST.

The files are those of NIST's archive gzip.zip, six ways to divide and label the same characters; they do not say who
wrote them (`femnist` does).
"""

from __future__ import annotations

import gzip
import string
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedcast.data.catalogue import UNTRIED, DatasetEntry, SourceFile, fetch
from fedcast.data.dataset import Dataset, Part, SampleSpec, byte_images
from fedcast.data.mnist import idx_values
from fedcast.errors import DataError
from fedcast.registry import option

# Letters whose lower case is written as their upper case: one class in bymerge and balanced.
_MERGED = "cijklmopsuvwxyz"
_ALL = string.digits + string.ascii_uppercase + string.ascii_lowercase
_FEWER = "".join(letter for letter in _ALL if letter not in _MERGED)
CLASSES: dict[str, str] = {
    "byclass": _ALL, "bymerge": _FEWER, "balanced": _FEWER, "letters": string.ascii_uppercase,
    "digits": string.digits, "mnist": string.digits,
}  # fmt: skip
_ADDRESS = "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip"
# The MD5 sum is that of torchvision, which downloads the same archive.
SOURCES = ((SourceFile("emnist/gzip.zip", "", _ADDRESS, "58c8d27c78d21e728a6bc7b3cc06412e"),),)


@dataclass(frozen=True)
class EmnistOptions:
    """Options of dataset ``emnist``."""

    split: Literal["byclass", "bymerge", "balanced", "letters", "digits", "mnist"] = option(
        "balanced", "files to read: balanced has 47 classes of equal size, byclass all 62"
    )


def load_emnist(data_dir: str | Path | None = None, split: str = "balanced") -> Dataset:
    """Load one split of EMNIST from a data folder, the cache or a download."""
    _, (path,) = fetch("emnist", SOURCES, data_dir)
    try:
        with zipfile.ZipFile(path) as archive:
            train, test = (_part(archive, split, part) for part in ("train", "test"))
    except (KeyError, ValueError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise DataError(f"{path}: not the published format ({error}); {UNTRIED}") from None
    return byte_images("emnist", train, test, CLASSES[split])


def _part(archive: zipfile.ZipFile, split: str, part: str) -> Part:
    def values(kind: str) -> NDArray[np.uint8]:
        return idx_values(gzip.decompress(archive.read(f"gzip/emnist-{split}-{part}-{kind}-ubyte.gz")))

    images, labels = values("images-idx3"), values("labels-idx1").astype(np.int64)
    if images.shape != (len(labels), 28, 28):
        raise ValueError(f"images of shape {images.shape} and {len(labels)} labels of {split} {part}")
    labels -= split == "letters"  # numbered from 1
    if not 0 <= labels.min() <= labels.max() < len(CLASSES[split]):
        raise ValueError(f"labels from {labels.min()} to {labels.max()} of {split} {part}")
    # Images are stored column by column.
    return np.ascontiguousarray(images.swapaxes(1, 2))[:, None], labels


DATASET = DatasetEntry(
    lambda options, data_dir: load_emnist(data_dir, options.split),
    f"131,600 images 28×28 of digits and letters, 47 classes, or 814,255 of 62; {UNTRIED}",
    "NIST; cite G. Cohen et al., 2017",
    SOURCES,
    EmnistOptions,
    lambda options: SampleSpec((1, 28, 28), len(CLASSES[options.split])),
)
