"""Partitions of flwr-datasets, each saved by `datasets.Dataset.save_to_disk`, as ``flwr-datasets create`` does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fedcast.data.imports.user_samples import Samples, UserSamples, checked, joined
from fedcast.errors import DataError

_LABELS = ("label", "labels", "y", "target")
_INPUTS = ("image", "img", "x", "features", "inputs")
_TRAIN, _TEST = "train", "test"


def read_flower(source: Path, inputs: str | None = None, labels: str | None = None) -> UserSamples:
    """Read partition_0, partition_1, …; where partitions have a part ``test``, these are the test set together.

    A folder ``test`` beside them, saved in the same way, is a test set, too. `inputs` and `labels` name columns.
    """
    folders = {path.name.removeprefix("partition_"): path for path in source.glob("partition_*") if path.is_dir()}
    if not folders or sorted(folders) != sorted(map(str, range(len(folders)))):
        names = ", ".join(sorted(path.name for path in folders.values())[:3]) or "none"
        raise DataError(f"{source}: partitions {names}; expected folders partition_0, partition_1, … without gaps")
    users, tests = [], []
    class_names: tuple[str, ...] = ()
    for number in range(len(folders)):
        loaded = _load(folders[str(number)])
        parts = loaded if isinstance(loaded, dict) else {_TRAIN: loaded}
        if _TRAIN not in parts:
            raise DataError(f"{folders[str(number)]}: parts {', '.join(parts)}; expected {_TRAIN}")
        samples, class_names = _samples(folders[str(number)], parts[_TRAIN], inputs, labels)
        users.append(samples)
        if _TEST in parts:
            tests.append(_samples(folders[str(number)], parts[_TEST], inputs, labels)[0])
    if (source / _TEST).is_dir():
        tests.append(_samples(source / _TEST, _load(source / _TEST), inputs, labels)[0])
    test = joined(str(source), tests, [f"test {place}" for place in range(len(tests))]) if tests else None
    return UserSamples([str(number) for number in range(len(users))], users, test, class_names)


def _load(folder: Path) -> Any:
    try:
        import datasets
    except ImportError:
        raise DataError('flwr-datasets is not installed: pip install "fedcast[flwr-datasets]"') from None
    try:
        return datasets.load_from_disk(str(folder))
    except Exception as error:  # Arrow and datasets have many
        reason = str(error).strip().partition("\n")[0]
        raise DataError(f"{folder}: not a dataset saved by save_to_disk ({reason})") from None


def _samples(folder: Path, data: Any, inputs: str | None, labels: str | None) -> tuple[Samples, tuple[str, ...]]:
    features = data.features
    classes = [name for name, feature in features.items() if type(feature).__name__ == "ClassLabel"]
    label = _column(folder, features, labels, classes or [name for name in _LABELS if name in features], "labels")
    images = [name for name, feature in features.items() if type(feature).__name__ == "Image"]
    others = images or [name for name in _INPUTS if name in features] or [name for name in features if name != label]
    column = _column(folder, features, inputs, others, "inputs")
    if column in images:
        images_of = map(np.asarray, data[column])
        values = [np.moveaxis(image, -1, 0) if image.ndim == 3 else image for image in images_of]
    else:
        values = data.with_format("numpy")[column]
    names = tuple(features[label].names) if label in classes else ()
    return checked(str(folder), list(values), list(data[label])), names


def _column(folder: Path, features: Any, asked: str | None, found: list[str], what: str) -> str:
    if asked is not None and asked not in features:
        raise DataError(f"{folder}: no column {asked!r}; there are {', '.join(features)}")
    if asked is None and len(found) != 1:
        raise DataError(f"{folder}: columns {', '.join(features)}; name the one with {what} (--{what})")
    return asked or found[0]
