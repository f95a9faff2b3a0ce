"""FEMNIST (Caldas et al. 2018): handwritten digits and letters by writer, from the JSON files that LEAF makes.

LEAF draws writers and test samples by a seed of its own and publishes no checksums: the files are the user's.
"""

from __future__ import annotations

import string
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedcast.data.catalogue import UNTRIED, DatasetEntry
from fedcast.data.dataset import Dataset, Part, SampleSpec, byte_images
from fedcast.data.imports.leaf import read_users
from fedcast.data.imports.user_samples import Samples, joined
from fedcast.errors import DataError
from fedcast.registry import option
from fedcast.typing import Ints

_SIDE = 28
_CLASSES = string.digits + string.ascii_uppercase + string.ascii_lowercase


@dataclass(frozen=True)
class FemnistOptions:
    """Options of dataset ``femnist``."""

    folder: str | None = option(None, "folder with train/ and test/ of .json files, as LEAF's preprocess.sh makes it")


def load_femnist(folder: str | Path | None) -> Dataset:
    """Load LEAF's files; owners of the samples are the writers, in the order of their names."""
    if folder is None:
        raise DataError("data.femnist.folder is not set: expected a folder with train/ and test/, as LEAF makes it")
    parts = {part: read_users(Path(folder) / part) for part in ("train", "test")}
    writers = sorted(parts["train"].keys() | parts["test"].keys())
    numbers = {writer: number for number, writer in enumerate(writers)}
    train, test = (_part(f"{folder}/{part}", users) for part, users in parts.items())
    groups, test_groups = (_owners(users, numbers) for users in parts.values())
    owners = {"groups": groups, "test_groups": test_groups, "group_names": tuple(writers)}
    return byte_images("femnist", train, test, _CLASSES, **owners)


def _owners(users: dict[str, Samples], numbers: dict[str, int]) -> Ints:
    return np.repeat([numbers[writer] for writer in users], [len(held.labels) for held in users.values()])


def _part(where: str, users: dict[str, Samples]) -> Part:
    """Return images as bytes: LEAF stores each pixel as its byte divided by 255."""
    values, labels = joined(where, list(users.values()), [f"writer {writer!r}" for writer in users])
    fault = None
    if values.shape[1:] != (_SIDE**2,):
        fault = f"samples have shape {values.shape[1:]}; expected {_SIDE**2} values"
    elif not (values.min() >= 0 and values.max() <= 1):
        fault = f"pixels from {values.min():g} to {values.max():g}; expected 0 to 1"
    elif labels.max() >= len(_CLASSES):
        fault = f"label {labels.max()}; expected 0 to {len(_CLASSES) - 1}"
    if fault:
        raise DataError(f"{where}: {fault}; {UNTRIED}")
    return np.rint(values * 255).astype(np.uint8).reshape(-1, 1, _SIDE, _SIDE), labels


DATASET = DatasetEntry(
    lambda options, _: load_femnist(options.folder),
    f"digits and letters 28×28 by writer, 62 classes, named by data.femnist.folder; {UNTRIED}",
    "made by LEAF from NIST Special Database 19",
    options=FemnistOptions,
    spec=lambda _: SampleSpec((1, _SIDE, _SIDE), len(_CLASSES)),
)
