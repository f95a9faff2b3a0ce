"""indices: a partition read from a file of sample indices."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedcast.data.assignment import Assignment, assignment_from_owners
from fedcast.data.dataset import Dataset
from fedcast.data.own import read_npz
from fedcast.data.partitions import Partition
from fedcast.errors import DataError
from fedcast.formatting import shown_value
from fedcast.io import Column, read_table, write_file
from fedcast.registry import option
from fedcast.text_files import is_file, parse_json, read_text
from fedcast.typing import Ints


@dataclass(frozen=True)
class IndicesOptions:
    """Options of partition ``indices``."""

    file: str | None = option(None, ".json, .csv or .parquet (user,sample), or .npz (samples, offsets)")
    shared: bool = option(False, "a sample may be listed several times, as after sharing; otherwise that is an error")


def read_indices(
    path: str | Path, num_samples: int, num_users: int | None = None, *, shared: bool = False
) -> Assignment:
    """Read which user holds which samples of the training set; the suffix of the file gives its format.

    - ``.json``: a list with one list of sample indices per user, or an object ``{"0": [...], "1": [...]}``;
    - ``.csv``, ``.parquet``, ``.xlsx``: columns ``user`` and ``sample``, one row per sample;
    - ``.npz``: arrays ``samples`` and ``offsets``: user k holds ``samples[offsets[k]:offsets[k + 1]]``.

    Users may hold no sample. `num_users`, if given, must be the number of users. Every sample is listed at most once,
    unless `shared` is true: several users may then list a sample, and a user trains on it as often as it lists it.
    """
    path = Path(path)
    if not is_file(path):
        raise DataError(f"{path}: no such file")
    match path.suffix.lower():
        case ".json":
            owners, samples, found = _from_json(path)
        case ".csv" | ".parquet" | ".xlsx":
            table = read_table(path, [Column("user", "int", minimum=0), Column("sample", "int", minimum=0)])
            owners, samples, found = table["user"], table["sample"], int(table["user"].max()) + 1
        case ".npz":
            owners, samples, found = _from_npz(path)
        case suffix:
            raise DataError(f"{path}: unknown file format {suffix!r}; expected .json, .csv, .parquet or .npz")
    if num_users is not None and found != num_users:
        raise DataError(f"{path}: {found} users, expected {num_users} (data.num_users)")
    _check(path, owners, samples, num_samples, shared)
    return assignment_from_owners(owners, samples, found)


def write_indices(path: str | Path, assignment: Assignment) -> Path:
    """Write which user holds which samples as JSON that `read_indices` reads, a line for each user."""
    lists = (json.dumps(assignment.of(user).tolist()) for user in range(assignment.num_users))
    return write_file(path, "[" + ",\n".join(lists) + "]\n")


def _from_json(path: Path) -> tuple[Ints, Ints, int]:
    content = parse_json(read_text(path), str(path))
    if isinstance(content, dict):
        expected = [str(user) for user in range(len(content))]
        if sorted(content) != sorted(expected):
            raise DataError(f"{path}: invalid users {', '.join(list(content)[:5])} …: expected 0 to {len(content) - 1}")
        content = [content[user] for user in expected]
    if not isinstance(content, list) or not content:
        raise DataError(f"{path}: expected a list with one list of sample indices per user")
    for user, held in enumerate(content):
        if not isinstance(held, list):
            raise DataError(f"{path}: user {user}: expected a list of sample indices, got {shown_value(held)}")
        if wrong := [sample for sample in held if type(sample) is not int or not 0 <= sample < 2**63]:
            raise DataError(f"{path}: user {user}: {shown_value(wrong[0])} is not a sample index")
    owners = np.repeat(np.arange(len(content)), [len(held) for held in content])
    return owners, np.array([sample for held in content for sample in held], dtype=np.int64), len(content)


def _from_npz(path: Path) -> tuple[Ints, Ints, int]:
    arrays = read_npz(path)
    if not {"samples", "offsets"} <= arrays.keys():
        raise DataError(f"{path}: contains {', '.join(arrays) or 'no arrays'}; expected arrays samples and offsets")
    samples, offsets = arrays["samples"], arrays["offsets"]
    whole = samples.dtype.kind in "iu" and offsets.dtype.kind in "iu" and samples.ndim == offsets.ndim == 1
    if not whole or len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != len(samples) or (np.diff(offsets) < 0).any():
        raise DataError(f"{path}: invalid offsets: expected whole numbers, increasing from 0 to the number of samples")
    owners = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return owners, samples.astype(np.int64), len(offsets) - 1


def _check(path: Path, owners: Ints, samples: Ints, num_samples: int, shared: bool) -> None:
    if not samples.size:
        raise DataError(f"{path}: no user holds any sample")
    if (outside := np.flatnonzero((samples < 0) | (samples >= num_samples))).size:
        user, sample = owners[outside[0]], samples[outside[0]]
        raise DataError(f"{path}: user {user}: sample {sample} does not exist, expected 0 to {num_samples - 1}")
    if shared:
        return
    order = np.argsort(samples, kind="stable")
    if (twice := np.flatnonzero(np.diff(samples[order]) == 0)).size:
        sample, (first, second) = samples[order[twice[0]]], owners[order[twice[0] : twice[0] + 2]]
        raise DataError(
            f"{path}: sample {sample} is assigned to user {first} and to user {second}; set data.indices.shared = true "
            "if users share samples"
        )


def _assign(dataset: Dataset, num_users: int, options: IndicesOptions, _: int) -> Assignment:
    if options.file is None:
        raise DataError("data.indices.file is not set: expected a .json, .csv, .parquet or .npz file")
    return read_indices(options.file, len(dataset), num_users, shared=options.shared)


PARTITION = Partition("read from a file of sample indices", assign=_assign, complete=False, options=IndicesOptions)
