"""Samples on a device: their format, its own in a folder, those it received in files of fixed-size records.

Files are read through memory maps and written chunk by chunk, so that memory does not grow with the number of samples.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcast.data import Dataset, TextWindows, dataset_from_arrays
from fedcast.errors import DataError, FedcastError
from fedcast.io import write_file
from fedcast.text_files import parse_json, read_text
from fedcast.typing import Ints

_FORMAT_FILE, _INPUTS_FILE, _LABELS_FILE = "format.json", "inputs.npy", "labels.npy"
_DTYPES = ("|u1", "<i2", "<i4", "<f2", "<f4", "<f8")
_MOST_VALUES = 2**26
_COPIED_AT_ONCE = 4096


@dataclass(frozen=True)
class SampleFormat:
    """Format of the samples of a federation; devices exchange samples of the same format only."""

    shape: tuple[int, ...]  #: of one input
    dtype: str  #: as NumPy writes it, with its byte order
    num_classes: int
    scale: float | None  #: factor that brings inputs to [0, 1]; None: inputs are characters of a text

    @property
    def record(self) -> np.dtype[Any]:
        """The record of one sample: its label, then its input."""
        return np.dtype([("label", "<i8"), ("input", self.dtype, self.shape)])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**asdict(self), "shape": list(self.shape)}

    def check(self, records: NDArray[Any]) -> None:
        """Raise an error if a record has an invalid label or a number that is not finite."""
        labels, inputs = records["label"], records["input"]
        if ((labels < 0) | (labels >= self.num_classes)).any():
            raise DataError(f"a sample has a label outside 0 … {self.num_classes - 1}")
        if inputs.dtype.kind == "f" and not np.isfinite(inputs).all():
            raise DataError("a sample contains NaN or infinity")


def sample_format(content: Any) -> SampleFormat:
    """Return the format of plain values, which may come from another device; anything unexpected is an error."""
    try:
        shape = tuple(int(size) for size in content["shape"])
        scale = None if content["scale"] is None else float(content["scale"])
        found = SampleFormat(shape, str(content["dtype"]), int(content["num_classes"]), scale)
    except (KeyError, TypeError, ValueError):
        raise FedcastError("invalid sample format: expected shape, dtype, num_classes and scale") from None
    sizes_valid = 1 <= len(shape) <= 4 and min(shape) >= 1 and math.prod(shape) <= _MOST_VALUES
    if not sizes_valid or found.dtype not in _DTYPES or not 1 <= found.num_classes <= 2**20:
        raise FedcastError(f"invalid sample format {content}: expected type {', '.join(_DTYPES)} and 1 to 4 dimensions")
    if scale is not None and not (math.isfinite(scale) and scale > 0):
        raise FedcastError(f"invalid value {scale} for scale: expected a number > 0")
    return found


class OwnSamples:
    """The samples of a device, in a folder that `write_samples` wrote."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        try:
            self.format = sample_format(parse_json(read_text(self.folder / _FORMAT_FILE), _FORMAT_FILE))
            self.inputs, self.labels = (
                np.load(self.folder / name, mmap_mode="r", allow_pickle=False) for name in (_INPUTS_FILE, _LABELS_FILE)
            )
        except (OSError, ValueError, FedcastError) as error:
            raise DataError(f"{self.folder}: no readable samples: {error}") from None
        expected = (len(self.labels), *self.format.shape)
        if self.inputs.shape != expected or self.inputs.dtype.str != self.format.dtype:
            raise DataError(f"{self.folder}: inputs are {self.inputs.dtype.str}{self.inputs.shape}, expected "
                            f"{self.format.dtype}{expected}")  # fmt: skip

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def counts(self) -> Ints:
        """Number of samples of each class, int64[Y]."""
        return np.bincount(self.labels, minlength=self.format.num_classes)

    def records(self, samples: Ints, at_once: int) -> Iterator[NDArray[Any]]:
        """Yield the given samples as records, in order, a few at once."""
        for start in range(0, len(samples), at_once):
            some = samples[start : start + at_once]
            records = np.zeros(len(some), self.format.record)
            records["label"], records["input"] = self.labels[some], self.inputs[some]
            yield records


def write_samples(folder: str | Path, dataset: Dataset, samples: Ints | None = None) -> Path:
    """Write training samples of a dataset, by default all, as the own samples of a device."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    chosen = np.arange(len(dataset)) if samples is None else np.asarray(samples)
    shown = dataset.inputs[chosen[:1]]
    found = SampleFormat(
        tuple(dataset.sample_shape), shown.dtype.newbyteorder("<").str, dataset.num_classes, dataset.scale
    )
    sample_format(found.to_dict())
    shape = (len(chosen), *found.shape)
    if math.prod(shape):
        stored = np.lib.format.open_memmap(folder / _INPUTS_FILE, "w+", dtype=found.dtype, shape=shape)
        for start in range(0, len(chosen), _COPIED_AT_ONCE):
            part = slice(start, start + _COPIED_AT_ONCE)
            stored[part] = dataset.inputs[chosen[part]]
        stored.flush()
    else:
        np.save(folder / _INPUTS_FILE, np.zeros(shape, found.dtype))
    np.save(folder / _LABELS_FILE, dataset.labels[chosen])
    return write_file(folder / _FORMAT_FILE, json.dumps(found.to_dict()))


def samples_of_arrays(inputs: NDArray[Any], labels: NDArray[Any], num_classes: int | None = None) -> Dataset:
    """Return the samples of one device as a dataset, all of them for training.

    Inputs are bytes, or numbers in [0, 1]: other numbers cannot be scaled, since no device knows those of the others.
    """
    inputs, labels = np.asarray(inputs), np.asarray(labels)
    found = dataset_from_arrays(inputs, labels, inputs, labels, name="samples")
    if inputs.dtype != np.uint8 and (inputs.min() < 0 or inputs.max() > 1):
        raise DataError(
            f"invalid inputs from {inputs.min():g} to {inputs.max():g}: expected bytes or numbers in [0, 1]"
        )
    classes = found.num_classes if num_classes is None else num_classes
    if classes < found.num_classes:
        raise DataError(f"invalid value {classes} for num_classes: there are labels up to {found.num_classes - 1}")
    return replace(found, num_classes=classes, class_names=tuple(str(label) for label in range(classes)))


def training_dataset(own: OwnSamples, received: Sequence[Path]) -> Dataset:
    """Return own samples, then those of files of records in the given order, as training samples of a dataset."""
    parts = [np.memmap(path, own.format.record, mode="r") for path in received]
    inputs: NDArray[Any] | TextWindows = np.concatenate([own.inputs, *(part["input"] for part in parts)])
    labels = np.concatenate([own.labels, *(part["label"] for part in parts)]).astype(np.int64)
    if own.format.scale is None:
        length = own.format.shape[0]
        inputs = TextWindows(np.asarray(inputs).ravel(), np.arange(len(labels)) * length, length)
    bits = float(own.format.record["input"].itemsize * 8)
    return Dataset("device", inputs, labels, inputs, labels, own.format.num_classes, bits, own.format.scale)
