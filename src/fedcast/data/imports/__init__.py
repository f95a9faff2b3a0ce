"""Import partitions that other tools wrote: who holds which samples, and the samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedcast.data.assignment import Assignment, assignment_from_owners
from fedcast.data.dataset import HELD_OUT_SHARE, Dataset, dataset_from_arrays, stratified_split
from fedcast.data.imports.flower import read_flower
from fedcast.data.imports.leaf import read_leaf
from fedcast.data.imports.pfllib import read_pfllib
from fedcast.data.imports.user_samples import Samples, UserSamples, joined
from fedcast.data.partitions.indices import write_indices
from fedcast.errors import DataError
from fedcast.formatting import shown_value
from fedcast.io import new_folder, save_table, write_file
from fedcast.scenario import Scenario, to_toml, with_overrides

__all__ = ["IMPORT_FORMATS", "Imported", "import_partition"]

IMPORT_FORMATS = {
    "flwr": "partitions of flwr-datasets in folders partition_0, …, each saved by save_to_disk",
    "leaf": "JSON of LEAF: a folder with train/ and test/, a folder of .json files, or one file",
    "pfllib": "a dataset folder of PFLlib: train/0.npz, …, test/0.npz, …, config.json",
}


@dataclass(frozen=True)
class Imported:
    """A partition that was imported to a folder."""

    folder: Path
    num_users: int
    num_samples: int  #: for training
    num_test: int
    num_classes: int
    held_out: bool  #: whether test samples were held out of those of the users, since the source has none

    @property
    def scenario(self) -> Path:
        """The scenario that trains on it."""
        return self.folder / "scenario.toml"


def import_partition(
    source: str | Path,
    folder: str | Path,
    format: str,  # noqa: A002
    *,
    shape: Sequence[int] | None = None,
    inputs: str | None = None,
    labels: str | None = None,
) -> Imported:
    """Read the samples of users that another tool stored, and write them for fedcast.

    The folder gets data.npz (samples), partition.json (which user holds which), users.csv (their names in the source)
    and scenario.toml, which trains on them. Without test samples in the source, a fifth of each class is held out.

    Args:
        source: folder or file of the other tool.
        folder: to write; it must not exist, or be empty.
        format: a key of `IMPORT_FORMATS`.
        shape: of a sample, such as (28, 28) for images that the source stores as vectors; None: as stored.
        inputs: column of the inputs, of format ``flwr``; None: the only column of images or of a usual name.
        labels: column of the labels, of format ``flwr``; None: the only column of classes or of a usual name.

    Example:
        >>> import json, tempfile
        >>> place = Path(tempfile.mkdtemp())
        >>> users = {"ann": {"x": [[0.1, 0.2], [0.3, 0.9]], "y": [0, 1]}, "bob": {"x": [[0.5, 0.6]] * 8, "y": [1] * 8}}
        >>> _ = (place / "all.json").write_text(json.dumps({"users": list(users), "user_data": users}))
        >>> found = import_partition(place / "all.json", place / "imported", "leaf")
        >>> found.num_users, found.num_samples, found.num_test
        (2, 8, 2)
    """
    source = Path(source)
    if format not in IMPORT_FORMATS:
        raise DataError(f"invalid value {shown_value(format)} for format: expected {', '.join(IMPORT_FORMATS)}")
    if not source.exists():
        raise DataError(f"{source}: no such file or folder")
    if format == "flwr":
        found = read_flower(source, inputs, labels)
    else:
        found = read_leaf(source) if format == "leaf" else read_pfllib(source)
    train, test, users = _divided(source, found)
    dataset = _dataset(source, train, test, shape, found)
    with new_folder(folder) as place:
        _write(place, dataset, users, found.names)
    counts = users.num_users, len(dataset), len(dataset.test_labels), dataset.num_classes
    return Imported(Path(folder), *counts, found.test is None)


def _divided(source: Path, found: UserSamples) -> tuple[Samples, Samples, Assignment]:
    """Return training and test samples, and which training samples each user holds."""
    names = [f"user {name}" for name in found.names]
    everything = joined(str(source), found.users, names)
    owners = np.repeat(np.arange(len(names)), [len(held.labels) for held in found.users])
    kept = np.arange(len(owners))
    test = found.test
    if test is None:
        if len(owners) == 1:
            raise DataError(f"{source}: a single sample cannot be used for training and test")
        kept, held_out = stratified_split(everything.labels, math.ceil(HELD_OUT_SHARE * len(owners)))
        test = Samples(everything.inputs[held_out], everything.labels[held_out])
    train = Samples(everything.inputs[kept], everything.labels[kept])
    return train, test, assignment_from_owners(owners[kept], np.arange(len(kept)), len(names))


def _dataset(source: Path, train: Samples, test: Samples, shape: Sequence[int] | None, found: UserSamples) -> Dataset:
    if shape is not None:
        if math.prod(shape) != train.inputs[0].size:
            size, sides = train.inputs[0].size, "×".join(map(str, shape))
            raise DataError(f"invalid value {sides} for shape: samples of {source} have {size} values")
        train, test = (Samples(part.inputs.reshape(-1, *shape), part.labels) for part in (train, test))
    num_classes = int(max(train.labels.max(), test.labels.max())) + 1
    names = found.class_names if len(found.class_names) == num_classes else ()
    try:
        return dataset_from_arrays(*train, *test, class_names=names)
    except DataError as error:
        raise DataError(f"{source}: {error}") from None


def _write(place: Path, dataset: Dataset, users: Assignment, names: list[str]) -> None:
    names_of_arrays = ("inputs", "labels", "test_inputs", "test_labels", "scale", "class_names")
    arrays = {name: np.asarray(getattr(dataset, name)) for name in names_of_arrays}
    np.savez_compressed(place / "data.npz", **arrays)  # type: ignore[arg-type]
    write_indices(place / "partition.json", users)
    columns = {"user": np.arange(users.num_users), "name": np.array(names), "samples": users.sizes}
    save_table(columns, place / "users.csv")
    values = {
        "data.dataset": "file",
        "data.file.path": "data.npz",
        "data.partition": "indices",
        "data.indices.file": "partition.json",
        "data.num_users": users.num_users,
        "data.bits_per_sample": dataset.bits_per_sample,
        "training.model": _model_for(dataset.sample_shape),
    }
    write_file(place / "scenario.toml", to_toml(with_overrides(Scenario(), values)))


def _model_for(shape: tuple[int, ...]) -> str:
    """Return the name of a built-in model that takes samples of a shape."""
    if len(shape) != 3 or min(shape[1:]) < 4:
        return "mlp"
    return "cnn" if min(shape[1:]) >= 16 else "small_cnn"
