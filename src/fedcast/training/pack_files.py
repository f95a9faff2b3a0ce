"""Files of a pack: what training needs of each run, and the datasets, in NumPy's format and JSON."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcast import registry
from fedcast.data import Assignment, Dataset, Generated, TextWindows
from fedcast.errors import FedcastError
from fedcast.io import atomic_write, write_file
from fedcast.text_files import parse_json, read_text
from fedcast.training.history import Clock
from fedcast.training.settings import TrainingSettings, settings_from_dict, settings_to_dict
from fedcast.typing import Floats, Ints

_VERSION = 2
# Datasets are divided into files of at most so many bytes, for transfers with a size limit.
PART_BYTES = 48 * 2**20

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class PackedRun:
    """One run as plain values."""

    name: str  #: of the run folder that it belongs to
    dataset: str  #: name of its dataset in the pack
    model: str
    seed: int
    training: TrainingSettings
    data: dict[str, Any]  #: name and options of the partition, if it changes samples user by user; otherwise empty
    clock: Clock
    dropped: list[list[int]]  #: pairs (round, user) that do not answer
    users: Assignment  #: samples of each user after sharing
    own: Assignment | None  #: samples of each user before sharing, where `data` is needed
    own_sizes: Ints  #: [K], samples before sharing
    distributions: Floats  #: [K, Y], label distributions before sharing
    model_options: dict[str, Any] = field(default_factory=dict)  #: options of the model that are not the defaults
    plugins: list[str] = field(default_factory=list)  #: names of the plug-in files of the pack that the run needs
    generated: Generated | None = None  #: samples that are not in the dataset
    own_tests: Assignment | None = None  #: test samples of each user's own


def write_runs(pack: Path, runs: list[PackedRun]) -> None:
    """Write runs into a pack, in that order, then their list, and remove the runs of an earlier list."""
    plain = ("name", "dataset", "model", "seed", "data", "dropped", "model_options", "plugins")
    listed = []
    for run in runs:
        arrays = {"samples": run.users.samples, "offsets": run.users.offsets, "own_sizes": run.own_sizes}
        if run.own is not None:
            arrays |= {"own_samples": run.own.samples, "own_offsets": run.own.offsets}
        if run.own_tests is not None:
            arrays |= {"test_samples": run.own_tests.samples, "test_offsets": run.own_tests.offsets}
        small = {name: smallest(array) for name, array in arrays.items()}
        if run.generated is not None:
            made = {f"generated_{name}": array for name, array in vars(run.generated).items() if array is not None}
            small |= made
        with atomic_write(pack / "runs" / f"{run.name}.npz") as aside, aside.open("wb") as stream:
            np.savez_compressed(stream, **small, distributions=run.distributions)  # type: ignore[arg-type]
        rest = {"clock": asdict(run.clock), "training": settings_to_dict(run.training)}
        listed.append({name: getattr(run, name) for name in plain} | rest)
    write_file(pack / "runs.json", json.dumps({"version": _VERSION, "runs": listed}))
    names = {run.name for run in runs}
    for path in (pack / "runs").glob("*.npz"):
        if path.stem not in names:
            path.unlink()


def read_list(pack: Path) -> list[dict[str, Any]]:
    """Return the runs of a pack without their arrays."""
    try:
        content = parse_json(read_text(pack / "runs.json"), f"{pack}/runs.json")
    except FileNotFoundError:
        raise FedcastError(f"{pack}: no runs.json in it; expected a folder made by fedcast.runs.packing") from None
    if (version := content.get("version") if isinstance(content, dict) else 1) != _VERSION:
        needed = f"this fedcast reads version {_VERSION}; pack the runs again"
        raise FedcastError(f"{pack}: a pack of version {version}, {needed}")
    runs: list[dict[str, Any]] = content["runs"]
    return runs


def read_run(pack: Path, listed: dict[str, Any]) -> PackedRun:
    """Return one run of the list with its arrays; its plug-in files are run."""
    for name in listed.get("plugins", ()):
        registry.load_file(pack / "plugins" / name)
    with np.load(pack / "runs" / f"{listed['name']}.npz") as stored:
        arrays = {name: stored[name] for name in stored.files}
    distributions = arrays.pop("distributions")
    made = {name.removeprefix("generated_"): arrays.pop(name) for name in list(arrays) if name.startswith("generated_")}
    whole = {name: array.astype(np.int64) for name, array in arrays.items()}
    own = Assignment(whole["own_samples"], whole["own_offsets"]) if "own_samples" in whole else None
    users = Assignment(whole["samples"], whole["offsets"])
    tests = Assignment(whole["test_samples"], whole["test_offsets"]) if "test_samples" in whole else None
    rest: dict[str, Any] = {"own_tests": tests}
    rest |= {"users": users, "own": own, "own_sizes": whole["own_sizes"], "distributions": distributions}
    rest["generated"] = Generated(**made) if made else None
    # In JSON tuples have become lists.
    clock: dict[str, Any] = dict(listed["clock"])
    clock |= {name: tuple(value) for name, value in clock.items() if isinstance(value, list)}
    rest |= {"clock": Clock(**clock), "training": settings_from_dict(listed["training"])}
    return PackedRun(**(listed | rest))


def write_plugin(pack: Path, file: Path) -> str:
    """Copy a plug-in file into a pack and return its name there, which has a hash of its content."""
    content = file.read_bytes()
    name = f"{file.stem}-{hashlib.sha256(content).hexdigest()[:12]}.py"
    write_file(pack / "plugins" / name, content)
    return name


def smallest(array: NDArray[Any]) -> NDArray[Any]:
    """Return the same integers in the smallest dtype that holds them, as uint16 for 0 … 65535."""
    return array.astype(np.min_scalar_type(int(array.max(initial=0))))


def write_dataset(pack: Path, name: str, dataset: Dataset, part_bytes: int = PART_BYTES) -> None:
    """Write a dataset in numbered parts, unless they are there."""
    if _parts(pack, name):
        return
    arrays = {"labels": smallest(dataset.labels), "test_labels": smallest(dataset.test_labels)}
    arrays |= _packed_inputs("inputs", dataset.inputs) | _packed_inputs("test_inputs", dataset.test_inputs)
    scale, stream = np.nan if dataset.scale is None else dataset.scale, io.BytesIO()
    np.savez_compressed(stream, **arrays, scale=scale, num_classes=dataset.num_classes)  # type: ignore[arg-type]
    content = stream.getvalue()
    # The first part is written last: while it is missing, there is no dataset.
    for start in reversed(range(0, len(content), part_bytes)):
        write_file(pack / "datasets" / f"{name}.{start // part_bytes}", content[start : start + part_bytes])


def read_dataset(pack: Path, name: str) -> Dataset:
    """Read what `write_dataset` wrote."""
    parts = _parts(pack, name)
    if not parts:
        raise FedcastError(f"{pack}: dataset {name} is not in it")
    try:
        with np.load(io.BytesIO(b"".join(part.read_bytes() for part in parts))) as stored:
            arrays = {key: stored[key] for key in stored.files}
    except (ValueError, zipfile.BadZipFile) as error:
        raise FedcastError(f"{pack}: dataset {name} is damaged or lacks a part ({error}); pack it anew") from None
    classes, scale = int(arrays["num_classes"]), float(arrays["scale"])
    train, test = (
        (_unpacked_inputs(f"{part}inputs", arrays), arrays[f"{part}labels"].astype(np.int64)) for part in ("", "test_")
    )
    names = tuple(map(str, range(classes)))
    return Dataset(name, *train, *test, classes, 0.0, None if np.isnan(scale) else scale, names)


def _parts(pack: Path, name: str) -> list[Path]:
    found = {int(path.suffix[1:]): path for path in (pack / "datasets").glob(f"{name}.*")}
    return [found[number] for number in sorted(found)] if 0 in found else []


def _packed_inputs(name: str, inputs: NDArray[Any] | TextWindows) -> Arrays:
    if isinstance(inputs, np.ndarray):
        return {name: inputs}
    # Starts grow step by step, and steps compress to nothing.
    steps = np.diff(inputs.starts, prepend=0)
    return {f"{name}_codes": inputs.codes, f"{name}_steps": steps, f"{name}_length": np.array(inputs.length)}


def _unpacked_inputs(name: str, arrays: Arrays) -> NDArray[Any] | TextWindows:
    if name in arrays:
        return arrays[name]
    return TextWindows(arrays[f"{name}_codes"], np.cumsum(arrays[f"{name}_steps"]), int(arrays[f"{name}_length"]))
