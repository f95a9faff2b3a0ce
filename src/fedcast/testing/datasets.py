"""Checks that every dataset must pass: functions of its entry and options.

Files are searched in the folder that ``$FEDCAST_DATA`` names and in the cache, as by `fedcast run`.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import replace
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any
from unittest import mock

import numpy as np

from fedcast.data import PARTITIONS, Dataset, DatasetEntry, TextWindows, divide
from fedcast.registry import option_fields
from fedcast.testing.common import attempt, check_declaration, contents

# Samples that are checked at a time, to bound the memory of large datasets.
_BLOCK = 10_000


def declares_itself(entry: DatasetEntry, options: Any) -> None:
    """Check the summary, the options, and the paths, hashes and terms of the files."""
    check_declaration(entry, options)
    assert entry.terms or not entry.sources, "files of others need terms of use"
    for file in (file for source in entry.sources for file in source):
        path = PurePosixPath(file.path)
        outside = path.is_absolute() or ".." in path.parts
        assert not outside, f"{path}: expected a path under a data folder"
        # An MD5 sum stands in where that is all that is published.
        kind, digest = file.digest if file.md5 else ("sha256", file.sha256)
        name, digits = ("SHA-256", 64) if kind == "sha256" else ("MD5", 32)
        valid = re.fullmatch(f"[0-9a-f]{{{digits}}}", digest)
        assert valid, f"{path}: {name} is {digest!r}; expected {digits} hexadecimal digits"


def has_one_label_for_each_input(entry: DatasetEntry, options: Any) -> None:
    """Check numbers, shapes and types of inputs and labels, in training and test set."""
    data = _loaded(entry, options)
    declared = None if entry.spec is None else entry.spec(options)
    assert declared in (None, data.spec), f"spec is {declared}, of the loaded samples {data.spec}"
    for word, inputs, labels in (("", data.inputs, data.labels), ("test ", data.test_inputs, data.test_labels)):
        assert len(inputs) == len(labels) > 0, f"{len(inputs)} {word}inputs, {len(labels)} {word}labels"
        assert labels.shape == (len(labels),), f"{word}labels have shape {labels.shape}; expected one number each"
        assert labels.dtype == np.int64, f"{word}labels have type {labels.dtype}; expected int64"
        assert isinstance(inputs, TextWindows) == data.is_text, "only one of inputs and test inputs is text"
        assert inputs[:1].shape[1:] == data.sample_shape, f"{word}samples have shape {inputs[:1].shape[1:]}"
        assert inputs[:1].dtype == data.inputs[:1].dtype, f"{word}inputs have type {inputs[:1].dtype}"
        assert inputs[:1].dtype.kind in "uif", f"{word}inputs have type {inputs[:1].dtype}; expected numbers"
    expected = "expected [n, features] or [n, channels, height, width]"
    assert data.is_text or len(data.sample_shape) in (1, 3), f"samples have shape {data.sample_shape}; {expected}"


def has_labels_within_its_classes(entry: DatasetEntry, options: Any) -> None:
    """Check that labels are 0 … Y − 1, that classes have names, and that a sample has a positive number of bits."""
    data = _loaded(entry, options)
    for labels in (data.labels, data.test_labels):
        low, high = int(labels.min()), int(labels.max())
        assert 0 <= low <= high < data.num_classes, f"labels from {low} to {high}; expected 0 to {data.num_classes - 1}"
    names = len(data.class_names)
    assert names == data.num_classes, f"{names} class names for {data.num_classes} classes"
    assert data.bits_per_sample > 0, f"bits_per_sample is {data.bits_per_sample}; expected a number > 0"


def has_finite_inputs_in_range(entry: DatasetEntry, options: Any) -> None:
    """Check that inputs are finite and, scaled, from 0 to 1; codes of text are below the number of classes."""
    data = _loaded(entry, options)
    assert (data.scale is None) == data.is_text, f"scale is {data.scale}; expected a number, and None for text"
    high, name = (data.num_classes - 1, "codes of text") if data.is_text else (1, "scaled inputs")
    for start in range(0, len(data), _BLOCK):
        values = data.features(slice(start, start + _BLOCK))
        assert np.isfinite(values).all(), "an input is not finite"
        within = values.min() >= 0 and values.max() <= high + 1e-6
        assert within, f"{name} are from {values.min():g} to {values.max():g}; expected 0 to {high}"
    for start in range(0, len(data.test_labels), _BLOCK):
        assert np.isfinite(data.test_inputs[start : start + _BLOCK]).all(), "a test input is not finite"


def tests_on_other_samples(entry: DatasetEntry, options: Any) -> None:
    """Check that the test set is not a part of the training set; a few equal samples are accepted, as in CIFAR-10."""
    data = _loaded(entry, options)
    if isinstance(data.inputs, TextWindows) and isinstance(data.test_inputs, TextWindows):
        common = _overlapping(data.inputs, data.test_inputs)
    else:
        trained = {hash(row.tobytes()) for row in np.asarray(data.inputs)}
        common = sum(hash(row.tobytes()) in trained for row in np.asarray(data.test_inputs))
    share = common / len(data.test_labels)
    assert share < 0.5, f"{share:.0%} of the test samples are training samples; expected others"


def has_valid_owners(entry: DatasetEntry, options: Any) -> None:
    """Check that natural owners, if any, are 0, 1, … with one for each sample and a name for each owner."""
    data = _loaded(entry, options)
    for owners, labels in ((data.groups, data.labels), (data.test_groups, data.test_labels)):
        if owners is not None:
            assert owners.shape == labels.shape, f"{len(owners)} owners for {len(labels)} samples"
            assert owners.min() >= 0, f"an owner is {owners.min()}; expected whole numbers 0, 1, 2, …"
            assert owners.max() < len(data.group_names), f"{len(data.group_names)} names for {owners.max() + 1} owners"


def can_be_divided(entry: DatasetEntry, options: Any) -> None:
    """Check that the samples can be divided among users at random, and by natural owners if there are any."""
    data = _loaded(entry, options)
    for name in ("iid", *(["natural"] if data.groups is not None else [])):
        people = divide(data, PARTITIONS[name], 2, PARTITIONS[name].options(), 0)
        assert people.sizes.min() > 0, f"partition {name} leaves a user without samples"


def loads_the_same_again(entry: DatasetEntry, options: Any) -> None:
    """Check that two loads give the same samples in the same order."""
    first, second = contents(_loaded(entry, options)), contents(entry.load(options, None))
    differing = ", ".join(name for name in first if first[name] != second.get(name))
    assert not differing, f"{differing} differ between two loads"


def names_missing_files(entry: DatasetEntry, options: Any) -> None:
    """Check that missing files are one error that names them, without network and without a cache."""
    refused = OSError("no network in this check")
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch("fedcast.data.catalogue.cache_folder", return_value=Path(folder)),
        mock.patch("fedcast.data.catalogue.SYSTEM_FOLDER", Path(folder)),
        mock.patch("socket.getaddrinfo", side_effect=refused),
        mock.patch("socket.socket.connect", side_effect=refused),
    ):
        for name in option_fields(entry.options):
            if name.endswith(("file", "path")):
                missing = str(Path(folder, "missing.npz"))
                _check_error(entry, replace(options, **{name: missing}), folder, [missing])
        if entry.sources:
            _check_error(entry, options, folder, [file.path for source in entry.sources for file in source])


CHECKS = (
    declares_itself, has_one_label_for_each_input, has_labels_within_its_classes, has_finite_inputs_in_range,
    tests_on_other_samples, has_valid_owners, can_be_divided, loads_the_same_again, names_missing_files,
)  # fmt: skip


@lru_cache(maxsize=1)
def _loaded(entry: DatasetEntry, options: Any) -> Dataset:
    return entry.load(options, None)


def _overlapping(train: TextWindows, test: TextWindows) -> int:
    """Return how many test sequences share characters of the text with a training sequence."""
    if train.codes is not test.codes:
        return 0
    starts = np.sort(train.starts)
    edges = np.concatenate([[-np.inf], starts, [np.inf]])
    place = np.searchsorted(starts, test.starts)
    nearest = np.minimum(test.starts - edges[place], edges[place + 1] - test.starts)
    return int(np.count_nonzero(nearest < train.length))


def _check_error(entry: DatasetEntry, options: Any, folder: str, names: list[str]) -> None:
    expected = f"a DataError that names {names[0]}"
    _, message = attempt("a missing file", expected, entry.load, options, folder)
    assert message, f"it loads without its files; expected {expected}"
    named = any(name in message for name in names)
    assert named, f"the error does not name the missing file: {message}; expected {expected}"
