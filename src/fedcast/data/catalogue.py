"""Datasets by name: load them, and find out whether their files are on this machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fedcast.data.dataset import Dataset
from fedcast.data.dataset_files import Source, data_folders, downloadable, find_source
from fedcast.errors import DataError
from fedcast.registry import NoOptions, Values, find

if TYPE_CHECKING:
    from fedcast.scenario import Data


@dataclass(frozen=True)
class DatasetEntry:
    """A dataset that scenarios can name.

    Attributes:
        load: (options, data_dir) → dataset, where `data_dir` is a folder to search first, or None.
        summary: its contents in one line.
        terms: its licence or terms of use.
        sources: alternative sets of files that contain it; empty if it needs none.
        options: dataclass of its options, the table ``[data.NAME]``.
    """

    load: Callable[[Any, str | Path | None], Dataset]
    summary: str
    terms: str
    sources: tuple[Source, ...] = ()
    options: type[Any] = NoOptions


CATALOGUE: Values[DatasetEntry] = Values("dataset")


def load_dataset(data: Data, data_dir: str | Path | None = None) -> Dataset:
    """Load the dataset that a scenario names.

    Example:
        >>> from fedcast.scenario import Data
        >>> load_dataset(Data(dataset="digits")).num_classes
        10
    """
    if "file" in data.tables and data.dataset != "file":
        path = data.tables["file"]["path"]
        raise DataError(f'invalid value {data.dataset!r} for data.dataset: expected "file", since data.file is {path}')
    entry: DatasetEntry = find("dataset", data.dataset).value
    return entry.load(data.options("dataset"), data_dir)


@dataclass(frozen=True)
class Presence:
    """Location of the files of a dataset; their content is not verified."""

    name: str
    state: Literal["built in", "here", "to download", "missing", "yours"]
    folder: Path | None
    megabytes: float | None


def presence(name: str, data_dir: str | Path | None = None) -> Presence:
    """Return whether a dataset is on this machine.

    Example:
        >>> presence("digits").state
        'built in'
    """
    sources = CATALOGUE[name].sources
    if not sources:
        return Presence(name, "yours" if name == "file" else "built in", None, None)
    found = find_source(sources, data_folders(data_dir))
    if found is None:
        return Presence(name, "to download" if any(map(downloadable, sources)) else "missing", None, None)
    source, folder = found
    return Presence(name, "here", folder, sum((folder / file.path).stat().st_size for file in source) / 1e6)
