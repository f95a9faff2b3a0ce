"""Export a run: partition before and after sharing, samples, weights, history and plan, in files of common formats."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch as pytorch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedcast.data import Dataset, TextWindows, write_indices
from fedcast.errors import FedcastError
from fedcast.io import new_folder, write_file
from fedcast.rounds import fit_of
from fedcast.runs.export_code import check_repeatable, how_to_run, task_of, write_code
from fedcast.runs.prepare import PreparedRun, first_model, prepare_run, train_prepared
from fedcast.runs.provenance import VERSIONS_FILE
from fedcast.runs.stored_run import StoredRun, as_runs
from fedcast.scenario import Scenario, model_name, named_paths, to_toml, with_overrides
from fedcast.text_files import is_file
from fedcast.training import check_model

_COPIED = {
    "scenario.toml": "all parameters of the run",
    VERSIONS_FILE: "versions of the packages that made it",
    "plan.json": "who shares how much with whom, CPU frequencies, delay, energy",
    "history.csv": "one row per round: accuracy, loss, simulated time, energy",
    "history.json": "the same as JSON",
    "ledger.csv": "every sample that was sent: sample, sender (-1: the server), receiver",
    "privacy.csv": "privacy that heads spent: user, μ, ε, δ, and where the noise came from",
}


def export_run(
    run: StoredRun | str | Path,
    folder: str | Path,
    *,
    torch: bool = False,
    flower: bool = False,
    data_dir: str | Path | None = None,
) -> Path:
    """Write everything of a finished run to a new folder, in files that other tools read, and return its path.

    The folder's README.md says what each file is. The partition after sharing lists a sample for every user that trains
    on it; samples that heads generated are numbered after those of the dataset, and data.npz has them too. fedcast
    reads both partitions with ``data.partition = "indices"``, as the scenario replay.toml does.

    Args:
        run: a run, the path of its folder, or that of a folder with a single run.
        folder: to write; it must not exist, or be empty.
        torch: add a plain PyTorch script that repeats the training, of algorithm ``fedavg`` only.
        flower: add a Flower app (flwr 1.41) that repeats the training, of algorithm ``fedavg`` only.
        data_dir: where dataset files are looked for first.
    """
    run = _one(as_runs(run))
    if run.measured_s:
        raise FedcastError(f"{run.folder}: trained on devices, which keep their samples; export a simulated run")
    folder, code = Path(folder).absolute(), torch or flower
    with new_folder(folder) as place:
        prepared = prepare_run(run.scenario, data_dir=data_dir)
        model = check_model(first_model(prepared)).to(_dtype(prepared))
        if code:
            check_repeatable(prepared, model)
        files = _copy(run, prepared, place)
        files |= _write_data(prepared, place)
        files |= _write_weights(run, prepared, model, place)
        files |= _write_replay(prepared, place)
        if code:
            task = task_of(prepared, run.history)
            files |= write_code(model, _some_inputs(prepared), task, place, folder, torch=torch, flower=flower)
        usage = how_to_run(run.scenario.data.num_users, torch=torch, flower=flower)
        write_file(place / "README.md", _readme(run, files, usage))
    return folder


def _one(runs: list[StoredRun]) -> StoredRun:
    if len(runs) != 1:
        names = ", ".join(run.folder.name for run in runs[:3]) + (", …" if len(runs) > 3 else "")
        raise FedcastError(f"{runs[0].folder.parent}: has {len(runs)} runs; expected the folder of one: {names}")
    return runs[0]


def _dtype(prepared: PreparedRun) -> pytorch.dtype:
    return pytorch.float64 if prepared.training.precision == "float64" else pytorch.float32


def _some_inputs(prepared: PreparedRun) -> Tensor:
    """Return the inputs of three samples, of the type that the model takes."""
    dataset = prepared.dataset
    inputs = pytorch.from_numpy(np.resize(dataset.inputs[:3], (3, *dataset.sample_shape)))
    return inputs.long() if dataset.is_text else inputs.to(_dtype(prepared))


def _copy(run: StoredRun, prepared: PreparedRun, place: Path) -> dict[str, str]:
    """Copy files of the run folder, and check that preparing the run again shares the same samples."""
    files = {name: meaning for name, meaning in _COPIED.items() if is_file(run.folder / name)}
    for name in files:
        shutil.copyfile(run.folder / name, place / name)
    again = prepared.shared.ledger.save(place / "again.csv")
    if again.read_bytes() != (place / "ledger.csv").read_bytes():
        raise _changed(run, "it shares other samples")
    again.unlink()
    return files


def _changed(run: StoredRun, how: str) -> FedcastError:
    cause = f"it was made by fedcast {run.versions.get('fedcast', 'unknown')}, or a file that it names has changed"
    return FedcastError(f"{run.folder}: prepared again, {how}; {cause}: repeat the run, then export it")


def _write_data(prepared: PreparedRun, place: Path) -> dict[str, str]:
    shared = prepared.shared
    dataset = shared.dataset(prepared.dataset)
    np.savez_compressed(place / "data.npz", **_arrays(dataset))  # type: ignore[arg-type]
    write_indices(place / "partition_before.json", prepared.own)
    write_indices(place / "partition_after.json", shared.assignment)
    inputs = "a text (`codes`) with windows of `length` from `starts`" if dataset.is_text else "inputs, times `scale`"
    made = "" if shared.generated is None else f" (the last {len(shared.generated):,} generated by heads)"
    counts = f"{len(dataset):,} samples for training{made}, {len(dataset.test_labels):,} for the test"
    return {
        "data.npz": f"{inputs}, and labels: {counts}",
        "partition_before.json": "numbers of the training samples that each user holds, one list per user",
        "partition_after.json": "the same after sharing, of the users that train: several users may list a sample",
    }


def _arrays(dataset: Dataset) -> dict[str, NDArray[Any]]:
    """Return a dataset as the arrays of a file that `data.file` names; of text the characters and windows."""
    arrays: dict[str, Any] = {"labels": dataset.labels, "test_labels": dataset.test_labels}
    for part, inputs in (("", dataset.inputs), ("test_", dataset.test_inputs)):
        if isinstance(inputs, TextWindows):
            arrays |= {f"{part}{name}": np.asarray(value) for name, value in vars(inputs).items()}
        else:
            arrays[f"{part}inputs"] = inputs
    if dataset.scale is not None:
        arrays["scale"] = np.float64(dataset.scale)
    if dataset.soft_labels is not None:
        arrays["soft_labels"] = dataset.soft_labels
    return arrays | {"class_names": np.array(dataset.class_names)}


def _write_weights(run: StoredRun, prepared: PreparedRun, model: nn.Module, place: Path) -> dict[str, str]:
    """Write the weights before training and, from the checkpoint of the last round, those after it."""
    pytorch.save(model.state_dict(), place / "weights_initial.pt")
    files = {"weights_initial.pt": "weights before the first round, a PyTorch state_dict"}
    if not is_file(run.folder / "checkpoint.pt"):
        return files | {"weights_final.pt": "**missing**, since the run folder has no checkpoint.pt"}
    checkpoint = place / "checkpoint.pt"
    shutil.copyfile(run.folder / checkpoint.name, checkpoint)
    try:
        # Resumed after its last round, a run trains nothing; a checkpoint of other data or weights is an error.
        trained = train_prepared(prepared, checkpoint=checkpoint, should_stop=lambda: True)
    except FedcastError as error:
        raise _changed(run, f"it is another run ({error})") from None
    checkpoint.unlink()
    if trained.history != run.history:
        raise _changed(run, "it has another history")
    final = {name: weight.cpu() for name, weight in trained.model.state_dict().items()}
    pytorch.save(final, place / "weights_final.pt")
    return files | {"weights_final.pt": "weights after the last round, a PyTorch state_dict"}


def _write_replay(prepared: PreparedRun, place: Path) -> dict[str, str]:
    """Write a scenario that trains on the partition after sharing, and the files that it names."""
    scenario, dataset = prepared.world.scenario, prepared.dataset
    values: dict[str, Any] = {
        "data.partition": "indices",
        "data.indices.file": "partition_after.json",
        "data.indices.shared": True,
        "data.bits_per_sample": scenario.data.bits_per_sample or dataset.bits_per_sample,
        "clustering.rule": "none",
        "sharing.kind": "raw",
        "rounds.fit": fit_of(scenario.rounds, scenario.data.dataset).name,
        "training.model": model_name(scenario),
        "training.local_epochs": prepared.plan.local_epochs,
        **{f"changes.{name}": () for name in type(scenario.changes).model_fields},
    }
    if not dataset.is_text:
        values |= {"data.dataset": "file", "data.file.path": "data.npz"}
    values |= _copy_files(scenario, place)
    write_file(place / "replay.toml", to_toml(with_overrides(scenario, values), comments=False))
    meaning = "scenario that trains on partition_after.json without sharing: `fedcast train replay.toml`"
    training = prepared.training
    if training.aggregation == "own":
        meaning += "; users weigh as many samples as they hold after sharing, in the run as many as before"
    if training.over_selection or training.deadline_s or training.buffer_size:
        meaning += "; who takes part depends on the clock, which is another without sharing"
    files = {"replay.toml": meaning}
    return files | ({"files/": "tables and code that replay.toml names"} if (place / "files").exists() else {})


def _copy_files(scenario: Scenario, place: Path) -> dict[str, Any]:
    """Copy the files that a scenario names, other than those of its data, and return their new paths by key."""
    values: dict[str, Any] = {}
    for key, path in (named_paths(scenario) | {"rounds.fit": Path(scenario.rounds.fit)}).items():
        if key.startswith("data.") or not is_file(path):
            continue
        name = f"files/{key.replace('[', '-').replace(']', '')}{path.suffix}"
        write_file(place / name, path.read_bytes())
        if key.startswith("plugins["):
            values.setdefault("plugins", []).append(name)
        else:
            values[key] = name
    return values


def _readme(run: StoredRun, files: Mapping[str, str], usage: Sequence[str]) -> str:
    last, scenario = run.history.records[-1], run.scenario
    lines = [
        f"# {run.folder.name}",
        "",
        f"A run of fedcast: {scenario.data.num_users:,} users of {scenario.data.dataset}, clustering rule {run.rule}, "
        f"sharing {scenario.sharing.kind}, algorithm {scenario.training.algorithm}, seed {scenario.seed}; "
        f"accuracy {last.accuracy:.4f} after round {last.round}.",
        "",
        "| file | content |",
        "|---|---|",
        *(f"| `{name}` | {meaning} |" for name, meaning in files.items()),
        *usage,
    ]
    return "\n".join(lines) + "\n"
