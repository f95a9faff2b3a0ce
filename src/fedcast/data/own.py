"""Your own data from an .npz file."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from fedcast.data.dataset import Dataset, dataset_from_arrays
from fedcast.errors import DataError

_KNOWN = ("inputs", "labels", "test_inputs", "test_labels", "groups", "class_names")


def load_npz(path: str | Path | None) -> Dataset:
    """A dataset from an .npz with `inputs` and `labels`; optional: test_inputs, test_labels, groups, class_names.

    Write one with ``numpy.savez_compressed("mine.npz", inputs=..., labels=...)``.
    """
    if path is None:
        raise DataError('data.dataset is "file", but data.file is not set: name an .npz file there')
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (ValueError, OSError, zipfile.BadZipFile, AttributeError, EOFError) as error:
        raise DataError(f"{path}: not a readable .npz file ({error})") from None
    missing = [name for name in ("inputs", "labels") if name not in arrays]
    unknown = [name for name in arrays if name not in _KNOWN]
    if missing or unknown:
        faults = [f"no array {name!r}" for name in missing] + [f"unknown array {name!r}" for name in unknown]
        raise DataError(f"{path}: {'; '.join(faults)}; expected {', '.join(_KNOWN)}")
    names = tuple(str(name) for name in arrays.pop("class_names", ()))
    try:
        return dataset_from_arrays(**arrays, name=Path(path).stem, class_names=names)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
