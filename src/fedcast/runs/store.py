"""Run folders: each run has a folder whose name contains a hash of everything that determines its result.

A store is a folder of run folders. A run folder holds scenario.toml, versions.json, plan.json, facts.json, tables.json
(users, heads, classes), options.json (of plug-ins, if it has any), ledger.csv, privacy.csv (if what was sent is
differentially private), history.json and .csv, checkpoint.pt and log.txt. done.json is written last, with digests of
the other files, and marks the run as finished; failed.json says why a run of a sweep has failed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from fedcast.errors import FedcastError
from fedcast.io import write_file
from fedcast.plan import save_plan
from fedcast.registry import BUILT_IN, KINDS, find, names, option_fields, plugin_error
from fedcast.runs.checks import check_model_size
from fedcast.runs.facts import facts_of, tables_of
from fedcast.runs.prepare import PreparedRun, TrainedRun, prepare_run, train_prepared
from fedcast.runs.provenance import VERSIONS_FILE, provenance, versions
from fedcast.runs.reuse import same_training, training_key
from fedcast.runs.stored_run import (
    FAILED_FILE,
    LOG_FILE,
    MEASURED_FILE,
    PRIVACY_FILE,
    RUN_FORMAT,
    STARTED,
    TAKEN_OVER,
    TIMING_FILE,
    FailedRun,
    Timing,
    digest_of,
    is_done,
    load_run,
)
from fedcast.scenario import (
    NOT_DECIDING,
    Scenario,
    ScenarioLike,
    as_scenario,
    deciding_values,
    load_plugins,
    named_files,
    read_stored_scenario,
    to_toml,
    values_before_tables,
    with_overrides,
)
from fedcast.training import History, Record

# Increased when the values that name a run's folder are arranged differently.
KEY_FORMAT = 2
# Files without a digest in done.json, since they may change after the run has finished.
_FILES_WITHOUT_DIGEST = ("checkpoint.pt", LOG_FILE, "done.json", TIMING_FILE)
_KEY_LENGTH = 12


def run_key(scenario: Scenario) -> str:
    """Return a hash of all that decides a run: every parameter, and the content of every file that it names.

    The files of known datasets need not be read for it: they are used only if their digests are right.
    """
    return _hashed(KEY_FORMAT, deciding_values(scenario), scenario)


def run_folder(store: Path, scenario: Scenario) -> Path:
    """Return where the run of a scenario is kept in a store: a readable name, made unique by its key.

    A run that was stored before options had tables of their own keeps its folder.
    """
    folder = store / _folder_name(scenario, run_key(scenario))
    former = former_name(scenario)
    return store / former if former is not None and not folder.exists() and (store / former).exists() else folder


def former_name(scenario: Scenario) -> str | None:
    """Return the name that the run's folder had before options had tables; None: there was no such scenario."""
    content = values_before_tables(scenario)
    return None if content is None else _folder_name(scenario, _hashed(1, content, scenario))


def _hashed(key_format: int, content: Mapping[str, Any], scenario: Scenario) -> str:
    digest = hashlib.sha256(json.dumps([key_format, content], sort_keys=True).encode())
    for path in named_files(scenario):
        digest.update(digest_of(path))
    return digest.hexdigest()


def _folder_name(scenario: Scenario, key: str) -> str:
    words = [scenario.clustering.rule, scenario.allocation.method, scenario.training.algorithm]
    words += [] if scenario.sharing.kind == "raw" else [scenario.sharing.kind]
    return "-".join([*words, str(scenario.seed), key[:_KEY_LENGTH]])


def run_scenario(
    scenario: ScenarioLike,
    store: str | Path,
    *,
    data_dir: Path | None = None,
    progress: Callable[[Record], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    reuse: bool = True,
) -> Path | None:
    """Run a scenario and return its run folder.

    A finished run is returned as it is, an unfinished one is resumed from its checkpoint. If the store has a finished
    run of another scenario with the same training, for example to another target, its history is used, unless `reuse`
    is false. Several processes may call this for the same scenario at the same time: one does the work, the others wait
    for it.

    `store` is a folder of run folders, other arguments are those of `train_scenario`. If `should_stop` ends the run,
    None is returned.
    """
    scenario = as_scenario(scenario)
    load_plugins(scenario)
    folder = run_folder(Path(store), scenario)
    if not is_done(folder):
        check_model_size(scenario)
    check_store(Path(store))
    with locked(folder):
        if is_done(folder):
            return folder
        try:
            prepared, checkpoint = _prepare(folder, scenario, data_dir), folder / "checkpoint.pt"
            key = training_key(prepared)
            if reuse and (other := same_training(Path(store), key, versions())) is not None:
                return _reuse(folder, other, key, progress)
            start, resumed = time.monotonic(), checkpoint.exists()
            trained = train_prepared(prepared, checkpoint=checkpoint, progress=progress, should_stop=should_stop)
        except (Exception, SystemExit) as error:
            known = plugin_error(error) or error
            if isinstance(known, FedcastError):
                _log(folder, f"failed: {known}")
            if known is error:
                raise
            raise known from error
        if trained.outcome.stopped:
            _log(folder, trained.outcome.stopped)
            return None
        if not resumed:
            _write_json(folder / TIMING_FILE, _timing(trained, time.monotonic() - start)._asdict())
        finish_run(folder, trained.history, key)
    return folder


def _timing(trained: TrainedRun, wall_s: float) -> Timing:
    """Return how long training took, and how many samples a second it went through."""
    participants = sum(record.participants for record in trained.history.records[1:])
    each = trained.shared.assignment.sizes[trained.trained].mean() * trained.plan.local_epochs
    tuned = trained.training.fine_tune_epochs * trained.world.population.sizes[trained.trained].sum()
    device = next((weight.device.type for weight in trained.model.parameters()), "cpu")
    return Timing(wall_s, trained.outcome.engine, device, float((participants * each + tuned) / max(wall_s, 1e-9)))


def _reuse(folder: Path, other: Path, key: str, progress: Callable[[Record], None] | None) -> Path:
    """Finish a run with the history of another one, whose training is the same."""
    run = load_run(other)
    if (other / "checkpoint.pt").exists():
        write_file(folder / "checkpoint.pt", (other / "checkpoint.pt").read_bytes())
    write_file(folder / VERSIONS_FILE, (other / VERSIONS_FILE).read_bytes())
    _log(folder, TAKEN_OVER.format(other.name))
    finish_run(folder, run.history, key)
    if progress is not None:
        progress(run.history.records[-1])
    return folder


def check_store(store: Path) -> None:
    """Raise an error if the folder cannot be created or written to, before any work is done."""
    wrong = next((place for place in (store, *store.parents) if place.exists() and not place.is_dir()), None)
    if wrong is not None:
        raise FedcastError(f"{wrong}: is a file; expected a folder for runs")
    store.mkdir(parents=True, exist_ok=True)
    probe = store / f".writable.{os.getpid()}"
    probe.touch()
    probe.unlink()


def prepare_folder(scenario: Scenario, store: Path, *, data_dir: Path | None = None) -> tuple[Path, PreparedRun | None]:
    """Write everything that is known before training, for training on another machine; None if the run is finished."""
    folder = run_folder(store, scenario)
    with locked(folder):
        return folder, None if is_done(folder) else _prepare(folder, scenario, data_dir)


def finish_run(folder: Path, history: History, training: str | None = None) -> None:
    """Write the history of training, and mark the run as finished; `training` is the key of its training."""
    history.save(folder / "history.json")
    history.save(folder / "history.csv")
    _log(folder, f"finished after round {history.records[-1].round}")
    named = {path.name: path for path in sorted(folder.iterdir()) if path.name[0] != "."}
    digests = {name: digest_of(path).hex() for name, path in named.items() if name not in _FILES_WITHOUT_DIGEST}
    _write_json(folder / "done.json", {"format": RUN_FORMAT, "files": digests, "training": training})


def save_finished_run(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write the files of a run that was done on another machine, done.json last; a finished run is left as it is."""
    with locked(folder):
        if not is_done(folder):
            for name in sorted(files, key=lambda name: name == "done.json"):
                write_file(folder / name, files[name])
    return folder


def reset_run(folder: Path) -> None:
    """Delete all files of a run except its log, so that it starts again."""
    with locked(folder):
        for path in folder.iterdir():
            if path.name not in (".lock", LOG_FILE):
                path.unlink()


def store_failure(folder: Path, scenario: Scenario, reason: str) -> FailedRun:
    """Write why a run of a sweep failed, for reports; it is tried again when it is asked for again."""
    with locked(folder):
        if not (folder / "scenario.toml").exists():  # it failed before it had a folder here, or on another machine
            write_file(folder / "scenario.toml", to_toml(scenario))
        _write_json(folder / FAILED_FILE, {"reason": reason})
    return FailedRun(folder, scenario, reason)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a run folder, waiting for another process that holds the lock; a killed process releases it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _prepare(folder: Path, scenario: Scenario, data_dir: Path | None) -> PreparedRun:
    """Write everything that is known before training."""
    path = folder / "scenario.toml"
    if path.exists():
        stored = read_stored_scenario(path)
        kept = {f"{section}.{key}": getattr(getattr(stored, section), key) for section, key in NOT_DECIDING}
        if stored != with_overrides(scenario, {**kept, "plugins": stored.plugins}):  # plug-in files may be moved
            raise FedcastError(
                f"{path}: was changed after the run started, but a run folder belongs to one scenario: "
                f"delete the folder, and call fedcast with the changed scenario instead"
            )
    else:
        write_file(path, to_toml(scenario))
    (folder / FAILED_FILE).unlink(missing_ok=True)
    resumed = folder if (folder / "checkpoint.pt").exists() else None
    _write_json(folder / VERSIONS_FILE, provenance(resumed))
    _log(folder, f"{STARTED} {os.getpid()}, threads: {torch.get_num_threads()}")
    prepared = prepare_run(scenario, data_dir=data_dir)
    _write_prepared(folder, prepared)
    return prepared


def _write_prepared(folder: Path, prepared: PreparedRun) -> None:
    save_plan(prepared.plan, folder / "plan.json")
    _write_json(folder / "facts.json", asdict(facts_of(prepared)))
    _write_json(folder / "tables.json", tables_of(prepared))
    if options := _plugin_options(prepared.world.scenario):
        _write_json(folder / "options.json", options)
    ledger = prepared.shared.ledger
    ledger.save(folder / "ledger.csv")
    if ledger.privacy is not None:
        ledger.privacy.save(folder / PRIVACY_FILE)


def store_run(folder: Path, prepared: PreparedRun, history: History, measured_s: Mapping[str, float]) -> Path:
    """Write a run that was trained on devices, with the seconds of phases and rounds that were measured there."""
    with locked(folder):
        write_file(folder / "scenario.toml", to_toml(prepared.world.scenario))
        _write_json(folder / VERSIONS_FILE, provenance())
        _write_prepared(folder, prepared)
        _write_json(folder / MEASURED_FILE, dict(measured_s))
        finish_run(folder, history)
    return folder


def _plugin_options(scenario: Scenario) -> dict[str, list[Any]]:
    """Return default and meaning of the options of plug-ins in use, for readers that do not load them."""
    found = {}
    for kind, known in KINDS.items():
        section = getattr(scenario, known.section)
        for name in {getattr(section, known.key), *section.tables} & set(names(kind)) - set(BUILT_IN[kind]):
            for option, field in option_fields(find(kind, name).options).items():
                found[f"{known.section}.{name}.{option}"] = [field.default, field.metadata.get("description", "")]
    return dict(sorted(found.items()))


def _log(folder: Path, message: str) -> None:
    with (folder / LOG_FILE).open("a", encoding="utf-8") as stream:
        stream.write(f"{datetime.now(UTC).isoformat(timespec='seconds')} {message}\n")


def _write_json(path: Path, content: Any) -> None:
    write_file(path, json.dumps(content, allow_nan=False))
