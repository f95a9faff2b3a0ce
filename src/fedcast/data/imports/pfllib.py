"""Dataset folders of PFLlib (Zhang et al. 2023): train/0.npz, …, each with a pickled dictionary of x and y."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from fedcast.data.imports.user_samples import Samples, UserSamples, checked, joined
from fedcast.data.own import array_header
from fedcast.errors import DataError
from fedcast.text_files import is_file, parse_json, read_text

# All that a pickled array needs: other names would run code of whoever wrote the file.
_OF_ARRAYS = {
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),
    *((f"numpy.{core}.multiarray", name) for core in ("core", "_core") for name in ("_reconstruct", "scalar")),
    *((f"numpy.{core}.numeric", "_frombuffer") for core in ("core", "_core")),
}


def read_pfllib(source: Path) -> UserSamples:
    """Read train/0.npz, … of all clients; test/0.npz, … of all clients together are the test set."""
    count = _num_clients(source)
    train = [_read(source / "train" / f"{client}.npz") for client in range(count)]
    test = None
    if (source / "test").is_dir():
        names = [f"test/{client}.npz" for client in range(count)]
        test = joined(str(source), [_read(source / name) for name in names], names)
    return UserSamples([str(client) for client in range(count)], train, test)


def _num_clients(source: Path) -> int:
    config = source / "config.json"
    if not is_file(config):
        raise DataError(f"{source}: no config.json in it; expected a dataset folder of PFLlib")
    content = parse_json(read_text(config), str(config))
    count = content.get("num_clients") if isinstance(content, dict) else None
    if type(count) is not int or count < 1:
        raise DataError(f"{config}: expected an object with num_clients, a whole number > 0")
    return count


def _read(path: Path) -> Samples:
    if not is_file(path):
        raise DataError(f"{path}: no such file, but config.json counts this client")
    try:
        content = _unpickled(path)
    except Exception as error:  # damaged archives, headers and pickles raise errors of many kinds
        raise DataError(f"{path}: not a file of PFLlib ({error})") from None
    if not isinstance(content, dict) or not {"x", "y"} <= content.keys():
        raise DataError(f"{path}: expected a dictionary with x and y in its array data")
    return checked(str(path), content["x"], content["y"])


class _Arrays(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _OF_ARRAYS:
            raise pickle.UnpicklingError(f"it holds {module}.{name}, expected arrays of numbers alone")
        return super().find_class(module, name)


def _unpickled(path: Path) -> Any:
    """Return the dictionary in the array `data`, as ``numpy.load(path, allow_pickle=True)["data"].tolist()`` does."""
    with zipfile.ZipFile(path) as archive, archive.open("data.npy") as stream:
        if not array_header(stream)[2].hasobject:
            raise ValueError("data is a plain array")
        found = _Arrays(stream).load()
    return found.item() if isinstance(found, np.ndarray) and found.size == 1 else found
