"""The datasets fedcast knows, by name. A new one is one file and one line here."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fedcast.data import cifar10, mnist, shakespeare
from fedcast.data.dataset import Dataset
from fedcast.data.digits import load_digits
from fedcast.data.files import Source, data_folders, find_source
from fedcast.data.own import load_npz
from fedcast.errors import DataError

if TYPE_CHECKING:
    from fedcast.scenario import Data

SYNTHETIC = "synthetic"


@dataclass(frozen=True)
class Entry:
    """How to load a dataset, and what a person should know before using it."""

    load: Callable[[Data, str | Path | None], Dataset]
    contents: str
    terms: str
    sources: tuple[Source, ...] = ()


CATALOGUE: dict[str, Entry] = {
    "digits": Entry(
        lambda *_: load_digits(), "1,437 + 360 images 8×8, 10 classes", "CC BY 4.0 (UCI); comes with scikit-learn"
    ),
    "mnist": Entry(
        lambda _, data_dir: mnist.load_mnist(data_dir),
        "60,000 + 10,000 images 28×28, 10 classes",
        "Y. LeCun, C. Cortes; generally stated as CC BY-SA 3.0",
        mnist.SOURCES,
    ),
    "cifar10": Entry(
        lambda _, data_dir: cifar10.load_cifar10(data_dir),
        "50,000 + 10,000 colour images 32×32, 10 classes",
        "no licence stated; cite A. Krizhevsky, 2009",
        cifar10.SOURCES,
    ),
    "shakespeare": Entry(
        lambda data, data_dir: shakespeare.load_shakespeare(data_dir, data.text_stride),
        "37 plays, 639 roles, next of 80 characters",
        "public domain (Moby Shakespeare)",
        shakespeare.SOURCES,
    ),
    "tiny_shakespeare": Entry(
        lambda data, data_dir: shakespeare.load_tiny_shakespeare(data_dir, data.text_stride),
        "1.1 MB of several plays, next of 80 characters",
        "public domain text; sample by A. Karpathy",
        shakespeare.TINY_SOURCES,
    ),
    "file": Entry(lambda data, _: load_npz(data.file), "your own .npz, named by data.file", "yours"),
}


def load_dataset(data: Data, data_dir: str | Path | None = None) -> Dataset:
    """The dataset that a scenario names.

    Example:
        >>> from fedcast.scenario import Data
        >>> load_dataset(Data(dataset="digits")).num_classes
        10
    """
    entry = find_entry(data.dataset)
    if data.file is not None and data.dataset != "file":
        raise DataError(f'data.file is set, but data.dataset is {data.dataset!r}; set it to "file" to use {data.file}')
    return entry.load(data, data_dir)


def find_entry(name: str) -> Entry:
    """The entry of that name; an unknown one is refused with the nearest name."""
    if name not in CATALOGUE:
        names = [*CATALOGUE, SYNTHETIC]
        close = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise DataError(f"data.dataset: unknown dataset {name!r}; {hint}There are {', '.join(names)}")
    return CATALOGUE[name]


@dataclass(frozen=True)
class Presence:
    """Where a dataset was found, not yet checked."""

    name: str
    state: Literal["built in", "here", "to download", "missing", "yours"]
    folder: Path | None
    megabytes: float | None


def presence(name: str, data_dir: str | Path | None = None) -> Presence:
    """Whether a dataset is on this machine.

    Example:
        >>> presence("digits").state
        'built in'
    """
    sources = CATALOGUE[name].sources
    if not sources:
        return Presence(name, "yours" if name == "file" else "built in", None, None)
    found = find_source(sources, data_folders(data_dir))
    if found is None:
        downloadable = any(source.downloadable for source in sources)
        return Presence(name, "to download" if downloadable else "missing", None, None)
    source, folder = found
    return Presence(name, "here", folder, sum((folder / file.path).stat().st_size for file in source.files) / 1e6)
