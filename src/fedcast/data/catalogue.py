"""Datasets by name: load them, find their files in a data folder or the cache, or download and verify them."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fedcast.data.dataset import Dataset, SampleSpec, TextWindows
from fedcast.errors import DataError
from fedcast.registry import NoOptions, Values, find

if TYPE_CHECKING:
    from fedcast.scenario import Data

DATA_VARIABLE = "FEDCAST_DATA"
# Of datasets whose files were not at hand: written to the published format, tested on made-up files.
UNTRIED = "the loader has not been tried on the original files"
# Where packages of Debian put datasets.
SYSTEM_FOLDER = Path("/usr/share/datasets")


@dataclass(frozen=True)
class SourceFile:
    """A file of a dataset."""

    path: str  #: under a data folder
    sha256: str  #: empty where only an MD5 sum is published
    url: str | None = None  #: download address
    md5: str = ""

    @property
    def digest(self) -> tuple[str, str]:
        """Return the kind of checksum as `hashlib` names it, and the checksum."""
        return ("sha256", self.sha256) if self.sha256 else ("md5", self.md5)


# Files that together contain a dataset. A dataset may have several alternative sources.
Source = tuple[SourceFile, ...]


@dataclass(frozen=True)
class DatasetEntry:
    """A dataset that scenarios can name."""

    #: (options, data_dir) → dataset, where `data_dir` is a folder to search first, or None
    load: Callable[[Any, str | Path | None], Dataset]
    summary: str  #: its contents in one line
    terms: str  #: its licence or terms of use
    sources: tuple[Source, ...] = ()  #: alternative sets of files that contain it; empty if it needs none
    options: type[Any] = NoOptions  #: dataclass of its options, the table ``[data.NAME]``
    #: options → shape and classes of its samples without loading them, or None; unset: known only after loading
    spec: Callable[[Any], SampleSpec | None] | None = None


CATALOGUE: Values[DatasetEntry] = Values("dataset")
# The last published dataset with what it was read from: the runs of a comparison share it, and reading takes seconds.
_kept: list[tuple[object, Dataset]] = []


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
    options, files = data.options("dataset"), _files_at_hand(entry, data_dir)
    if files is None:
        return entry.load(options, data_dir)
    key = (entry.load, options, data_dir, files)
    if not _kept or _kept[0][0] != key:
        _kept[:] = [(key, _read_only(entry.load(options, data_dir)))]
    return _kept[0][1]


def _files_at_hand(entry: DatasetEntry, data_dir: str | Path | None) -> tuple[tuple[Path, int, int], ...] | None:
    """Return path, size and time of change of the files of a published dataset; None: of another one, or not here."""
    found = find_source(entry.sources, [*data_folders(data_dir), SYSTEM_FOLDER]) if entry.sources else None
    if found is None:
        return None
    source, folder = found
    stats = [((folder / file.path), (folder / file.path).stat()) for file in source]
    return tuple((path, stat.st_size, stat.st_mtime_ns) for path, stat in stats)


def _read_only(dataset: Dataset) -> Dataset:
    """Protect the arrays of a dataset that several runs share."""
    arrays: list[object] = []
    for item in fields(dataset):
        value = getattr(dataset, item.name)
        arrays += [value.codes, value.starts] if isinstance(value, TextWindows) else [value]
    for array in arrays:
        if isinstance(array, np.ndarray):
            array.flags.writeable = False
    return dataset


def sample_spec(data: Data) -> SampleSpec | None:
    """Return shape and classes of the samples of a scenario's dataset without loading it; None: not known.

    Example:
        >>> from fedcast.scenario import Data
        >>> sample_spec(Data(dataset="mnist"))
        SampleSpec(shape=(1, 28, 28), num_classes=10)
    """
    spec = find("dataset", data.dataset).value.spec
    return None if spec is None else spec(data.options("dataset"))


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
        return Presence(name, "yours" if name in ("file", "femnist") else "built in", None, None)
    found = find_source(sources, [*data_folders(data_dir), SYSTEM_FOLDER])
    if found is None:
        return Presence(name, "to download" if any(map(downloadable, sources)) else "missing", None, None)
    source, folder = found
    return Presence(name, "here", folder, sum((folder / file.path).stat().st_size for file in source) / 1e6)


def downloadable(source: Source) -> bool:
    """Return whether every file has a download address."""
    return all(file.url for file in source)


def cache_folder() -> Path:
    """Return the cache folder of downloaded datasets."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("fedcast")) / "data"


def data_folders(data_dir: str | Path | None = None) -> list[Path]:
    """Return the folders to search, in order: `data_dir` or otherwise $FEDCAST_DATA, then the cache."""
    given = data_dir or os.environ.get(DATA_VARIABLE)
    if given and not Path(given).is_dir():
        origin = "--data-dir" if data_dir else DATA_VARIABLE
        raise DataError(f"invalid value {given} for {origin}: no such folder")
    return [*([Path(given)] if given else []), cache_folder()]


def find_source(sources: Iterable[Source], folders: Iterable[Path]) -> tuple[Source, Path] | None:
    """Return the first source whose files all exist in one of the folders (not yet verified), or None."""
    for folder in folders:
        for source in sources:
            if all((folder / file.path).is_file() for file in source):
                return source, folder
    return None


def fetch(name: str, sources: tuple[Source, ...], data_dir: str | Path | None = None) -> tuple[Source, list[Path]]:
    """Return the verified files of a dataset; download them into the cache if no folder has them."""
    folders = data_folders(data_dir)
    found = find_source(sources, [*folders, SYSTEM_FOLDER])
    if found is None:
        return _download(name, sources, folders)
    source, folder = found
    paths = [folder / file.path for file in source]
    for file, path in zip(source, paths, strict=True):
        kind, expected = file.digest
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, kind).hexdigest()
        if digest != expected:
            name = "SHA-256" if kind == "sha256" else "MD5"
            differs = f"{name} is {digest[:16]}…, expected {expected[:16]}…"
            raise DataError(f"{path}: damaged or altered: {differs}; delete the file and download it again")
    return source, paths


def _download(name: str, sources: tuple[Source, ...], folders: list[Path]) -> tuple[Source, list[Path]]:
    source = next(filter(downloadable, sources), None)
    if source is None:
        raise DataError(_where_to_put(name, sources[0], folders))
    import pooch

    pooch.get_logger().setLevel("ERROR")
    paths = [folders[-1] / file.path for file in source]
    for file, target in zip(source, paths, strict=True):
        try:
            # pooch writes to a temporary file, verifies the hash and then renames it.
            shown = sys.stderr.isatty()
            pooch.retrieve(file.url, ":".join(file.digest), target.name, target.parent, progressbar=shown)
        except Exception as error:
            reason = _where_to_put(name, source, folders)
            raise DataError(f"{file.url} could not be downloaded ({type(error).__name__}). {reason}") from error
    return source, paths


def _where_to_put(name: str, source: Source, folders: list[Path]) -> str:
    files = ", ".join(file.path for file in source)
    places = " or ".join(str(folder) for folder in folders)
    return (
        f"Dataset {name} is not on this machine: put {files} under {places}, "
        f"or set another folder with --data-dir or ${DATA_VARIABLE}"
    )
