"""file: a dataset from an .npz file."""

from __future__ import annotations

import os
import zipfile
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from fedcast.data.catalogue import DatasetEntry
from fedcast.data.dataset import Dataset, SampleSpec, dataset_from_arrays
from fedcast.errors import DataError
from fedcast.io import TABLE_FORMATS
from fedcast.registry import option
from fedcast.text_files import is_file

_KNOWN = ("inputs", "labels", "test_inputs", "test_labels", "groups", "class_names", "scale", "soft_labels")
_MOST_BYTES = 2**36


@dataclass(frozen=True)
class FileOptions:
    """Options of dataset ``file``; ``data.file = "mine.npz"`` sets the path."""

    path: str | None = option(None, "an .npz with inputs, labels, test_inputs, test_labels")


def load_npz(path: str | Path | None) -> Dataset:
    """Load an .npz file with `inputs` and `labels`; optional: test_inputs, test_labels, groups, class_names.

    Files that `fedcast.export_run` writes also have `scale`, a number that inputs are multiplied by, and, where users
    share averages, `soft_labels`, the label distribution of each training sample, [n, Y]. Write your own with
    ``numpy.savez_compressed("mine.npz", inputs=..., labels=...)``.
    """
    if path is None:
        raise DataError('data.dataset is "file", but data.file is not set: expected the path of an .npz file')
    path = Path(path)
    if path.suffix.lower() in TABLE_FORMATS:
        raise DataError(f"{path}: expected an .npz file with samples; a table of class counts is set with --counts")
    arrays = read_npz(path)
    missing = [name for name in ("inputs", "labels") if name not in arrays]
    unknown = [name for name in arrays if name not in _KNOWN]
    if missing or unknown:
        faults = [f"no array {name!r}" for name in missing] + [f"unknown array {name!r}" for name in unknown]
        raise DataError(f"{path}: {'; '.join(faults)}; expected {', '.join(_KNOWN)}")
    names = np.asarray(arrays.pop("class_names", ()))
    if names.ndim != 1:
        raise DataError(f"{path}: class_names: shape {names.shape}; expected one name for each class")
    try:
        soft, scale = arrays.pop("soft_labels", None), _scale(arrays.pop("scale", None))
        dataset = dataset_from_arrays(**arrays, name=path.stem, class_names=tuple(map(str, names)), scale=scale)
        return dataset if soft is None else replace(dataset, soft_labels=_soft_labels(soft, dataset))
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


def _scale(given: NDArray[Any] | None) -> float | None:
    if given is None:
        return None
    if given.shape != () or given.dtype.kind not in "iuf" or not np.isfinite(given) or given <= 0:
        raise DataError(f"scale: {given.tolist()!r:.80}; expected a number > 0")
    return float(given)


def _soft_labels(given: NDArray[Any], dataset: Dataset) -> NDArray[np.float32]:
    expected = (len(dataset), dataset.num_classes)
    if given.shape != expected or given.dtype.kind != "f":
        raise DataError(f"soft_labels: shape {given.shape}, type {given.dtype}; expected {expected}, floats")
    if not ((given >= 0).all() and np.allclose(given.sum(axis=1), 1, atol=1e-3)):
        raise DataError("soft_labels: expected a distribution, with sum 1, for each sample")
    return given.astype(np.float32)


def read_npz(path: Path) -> dict[str, Any]:
    """Return the arrays of an .npz file by name."""
    if not is_file(path):
        raise DataError(f"{path}: {'not a plain file' if os.path.lexists(path) else 'no such file'}")
    if not zipfile.is_zipfile(path):
        raise DataError(f"{path}: not a readable .npz file, as written by numpy.savez_compressed")
    try:
        # NumPy does not close a file that it cannot read.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            size = sum(member.file_size for member in archive.zip.infolist())
            if size > _MOST_BYTES:
                raise DataError(f"{path}: its arrays have {size:,} bytes, expected at most {_MOST_BYTES:,}")
            return {name: archive[name] for name in archive.files}
    # NumPy and zipfile raise these for damaged archives, headers and streams.
    except (ValueError, OSError, EOFError, KeyError, TypeError, NotImplementedError, RuntimeError, MemoryError,
            zipfile.BadZipFile, zlib.error) as error:  # fmt: skip
        raise DataError(f"{path}: not a readable .npz file ({error})") from None


def _spec(options: FileOptions) -> SampleSpec | None:
    """Return shape and classes of the samples in a file; only its labels are read, of its inputs the header."""
    if options.path is None or not zipfile.is_zipfile(options.path):
        return None
    try:
        with zipfile.ZipFile(options.path) as archive, archive.open("inputs.npy") as stream:
            shape = array_header(stream)[0][1:]
        with np.load(options.path, allow_pickle=False) as arrays:
            labels = [arrays[name] for name in ("labels", "test_labels") if name in arrays.files]
        # Images without channels have one, as in `dataset_from_arrays`.
        return SampleSpec((1, *shape) if len(shape) == 2 else shape, int(max(array.max() for array in labels)) + 1)
    except (KeyError, ValueError, TypeError, OSError, zipfile.BadZipFile):
        return None  # loading the file says what is wrong


def array_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, order and type of an array in a .npy file."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read(stream)


DATASET = DatasetEntry(
    lambda options, _: load_npz(options.path), "your own .npz, named by data.file", "yours", (), FileOptions, _spec
)
