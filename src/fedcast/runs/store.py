"""Runs on disk: each in a folder named after all that decides it, so that none is done twice and none is mixed.

A store is a folder of run folders. A run folder holds scenario.toml, versions.json, plan.json (where there is a plan),
facts.json, tables.json (users, heads, classes), ledger.csv, history.json and .csv, checkpoint.pt and log.txt; done.json
is written last and says that all of it is whole.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from fedcast.errors import FedcastError
from fedcast.io.atomic import written_aside
from fedcast.plan import SharingPlan, load_plan, save_plan
from fedcast.runs.facts import Facts, Table, facts_of, tables_of
from fedcast.runs.prepare import PreparedRun, prepare_run, train_prepared
from fedcast.runs.versions import versions
from fedcast.scenario import Scenario, changed, load_scenario, named_files, to_toml
from fedcast.training import History, Record, load_history

# Raised when the same scenario gives other results than before: runs of older formats are then done anew.
RUN_FORMAT = 1
# These change how a run is carried out, not what comes of it.
NOT_DECIDING = (("training", "checkpoint_every"),)
# These change while a folder is whole: they are no part of what it promises.
_LOOSE_FILES = ("checkpoint.pt", "log.txt", "done.json")
_KEY_LENGTH = 12

Progress = Callable[[Record], None]


@dataclass(frozen=True, eq=False)
class StoredRun:
    """A finished run, read from its folder.

    Attributes:
        folder: where it is.
        scenario: that it was made from.
        facts: what was known before training.
        history: of training.
        plan: who shares how much; None where nothing was planned.
        versions: of the packages that made it.
    """

    folder: Path
    scenario: Scenario
    facts: Facts
    history: History
    plan: SharingPlan | None
    versions: dict[str, str]

    @property
    def rule(self) -> str:
        """Its clustering rule."""
        return self.scenario.clustering.rule

    @cached_property
    def tables(self) -> dict[str, Table]:
        """Users, heads and classes, each by column; see `fedcast.runs.facts.tables_of`."""
        tables: dict[str, Table] = _read_json(self.folder / "tables.json")
        return tables


def run_key(scenario: Scenario) -> str:
    """A hash of all that decides a run: every parameter, and the content of every file that it names.

    The files of known datasets need not be read for it: they are used only if they are what they should be.

    Example:
        >>> from fedcast import Scenario
        >>> len(run_key(Scenario()))
        64
    """
    content = scenario.model_dump(mode="json")
    for section, name in NOT_DECIDING:
        del content[section][name]
    if content["training"]["model_file"] is None:  # younger than the first stores, whose runs keep their names
        del content["training"]["model_file"]
    digest = hashlib.sha256(json.dumps([RUN_FORMAT, content], sort_keys=True).encode())
    for path in named_files(scenario):
        digest.update(_digest_of(path))
    return digest.hexdigest()


def run_folder(store: Path, scenario: Scenario) -> Path:
    """Where the run of a scenario stands in a store: a readable name, made unique by its key."""
    words = [scenario.clustering.rule, scenario.allocation.method, scenario.training.algorithm, str(scenario.seed)]
    return store / "-".join([*words, run_key(scenario)[:_KEY_LENGTH]])


def is_done(folder: Path) -> bool:
    """Whether the folder holds a finished run."""
    return (folder / "done.json").is_file()


def do_run(
    scenario: Scenario,
    store: str | Path,
    *,
    data_dir: Path | None = None,
    progress: Progress | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Path | None:
    """The folder of a scenario's finished run: as it stands, gone on with from its checkpoint, or begun.

    Other processes may do the same at the same time: one does the work, the others wait for it.

    Args:
        scenario: of the run.
        store: folder of run folders.
        data_dir: where dataset files are looked for first.
        progress: called after every round.
        should_stop: asked after every round; if it says so, the run is left with a checkpoint, and None is returned.
    """
    folder = run_folder(Path(store), scenario)
    check_store(Path(store))
    with locked(folder), _failures_in_log(folder):
        if not is_done(folder):
            _begin(folder, scenario)
            prepared = prepare_run(scenario, data_dir=data_dir)
            _save_prepared(folder, prepared)
            trained = train_prepared(
                prepared, checkpoint=folder / "checkpoint.pt", progress=progress, should_stop=should_stop
            )
            if trained.outcome.stopped:
                _log(folder, trained.outcome.stopped)
                return None
            finish_run(folder, trained.history)
    return folder


def check_store(store: Path) -> None:
    """Refuse a place that cannot hold runs before any work is done for it."""
    wrong = next((place for place in (store, *store.parents) if place.exists() and not place.is_dir()), None)
    if wrong is not None:
        raise FedcastError(f"{wrong}: is a file, expected a folder for runs")
    store.mkdir(parents=True, exist_ok=True)
    probe = store / f".writable.{os.getpid()}"
    probe.touch()
    probe.unlink()


def prepare_folder(scenario: Scenario, store: Path, *, data_dir: Path | None = None) -> tuple[Path, PreparedRun | None]:
    """A run's folder with all that is known before training, for training elsewhere; None if it is done."""
    folder = run_folder(store, scenario)
    with locked(folder):
        if is_done(folder):
            return folder, None
        _begin(folder, scenario)
        prepared = prepare_run(scenario, data_dir=data_dir)
        _save_prepared(folder, prepared)
    return folder, prepared


def finish_run(folder: Path, history: History) -> None:
    """Write what training brought, and that the run is done."""
    history.save(folder / "history.json")
    history.save(folder / "history.csv")
    _log(folder, f"finished after round {history.records[-1].round}")
    files = [path for path in sorted(folder.iterdir()) if path.name[0] != "." and path.name not in _LOOSE_FILES]
    digests = {path.name: _digest_of(path).hex() for path in files}
    _write_json(folder / "done.json", {"format": RUN_FORMAT, "files": digests})


def accept_run(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Take in the files of a run that was done elsewhere, done.json last; a run that is done stays as it is."""
    with locked(folder):
        if not is_done(folder):
            for name in sorted(files, key=lambda name: name == "done.json"):
                with written_aside(folder / name) as aside:
                    aside.write_bytes(files[name])
    return folder


def forget_run(folder: Path) -> None:
    """Take away all that is known of a run but its log, so that it is done anew."""
    with locked(folder):
        for path in folder.iterdir():
            if path.name not in (".lock", "log.txt"):
                path.unlink()


def load_run(folder: str | Path) -> StoredRun:
    """Read a finished run."""
    folder = Path(folder)
    if not folder.is_dir():
        raise FedcastError(f"{folder}: no such run folder")
    if not is_done(folder):
        begun = (folder / "scenario.toml").exists()
        way_out = "the command that began it goes on with it" if begun else "expected a folder made by `fedcast run`"
        raise FedcastError(f"{folder}: holds no finished run; {way_out}")
    _refuse_changes(folder)
    plan = folder / "plan.json"
    return StoredRun(
        folder,
        _stored_scenario(folder),
        Facts(**_read_json(folder / "facts.json")),
        load_history(folder / "history.json"),
        load_plan(plan) if plan.exists() else None,
        _read_json(folder / "versions.json"),
    )


def load_runs(paths: str | Path | Sequence[str | Path]) -> list[StoredRun]:
    """Read run folders, and all finished runs of stores; one path or several."""
    runs = []
    for path in map(Path, [paths] if isinstance(paths, str | Path) else paths):
        if (path / "scenario.toml").exists():
            runs.append(load_run(path))
            continue
        store = path / "runs" if (path / "runs").is_dir() else path
        inside = [folder for folder in sorted(store.glob("*/")) if is_done(folder)]
        if not inside:
            raise FedcastError(f"{path}: no finished run in it; `fedcast run` or `fedcast compare` make some")
        runs += [load_run(folder) for folder in inside]
    return runs


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a run folder alone; waits for another process that does. Killed processes hold nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _refuse_changes(folder: Path) -> None:
    """Refuse a finished run that is not as it was when it finished."""
    done = _read_json(folder / "done.json")
    known = isinstance(done, dict) and done.get("format") == RUN_FORMAT and isinstance(done.get("files"), dict)
    if not known:
        raise FedcastError(f"{folder}: a run of another format; delete the folder and repeat the command that made it")
    for name, digest in done["files"].items():
        path = folder / name
        if not path.is_file() or _digest_of(path).hex() != digest:
            what = "was changed or damaged" if path.exists() else "is missing"
            raise FedcastError(f"{path}: {what}; delete the folder and repeat the command that made it")


@contextmanager
def _failures_in_log(folder: Path) -> Iterator[None]:
    try:
        yield
    except FedcastError as error:
        _log(folder, f"failed: {error}")
        raise


def _begin(folder: Path, scenario: Scenario) -> None:
    text = to_toml(scenario)
    path = folder / "scenario.toml"
    if path.exists():
        stored = _stored_scenario(folder)
        kept = {f"{section}.{key}": getattr(getattr(stored, section), key) for section, key in NOT_DECIDING}
        if stored != changed(scenario, kept):
            raise FedcastError(
                f"{path}: was changed after the run began; a run folder belongs to one scenario: "
                f"delete the folder, and call fedcast with the changed scenario instead"
            )
    else:
        with written_aside(path) as aside:
            aside.write_text(text, encoding="utf-8")
    _write_json(folder / "versions.json", versions())
    _log(folder, f"begun by process {os.getpid()}, threads: {torch.get_num_threads()}")


def _stored_scenario(folder: Path) -> Scenario:
    """As it was given: paths in it start at the working folder, not in the run's."""
    return load_scenario(folder / "scenario.toml", folder=Path())


def _save_prepared(folder: Path, prepared: PreparedRun) -> None:
    if prepared.plan is not None:
        save_plan(prepared.plan, folder / "plan.json")
    _write_json(folder / "facts.json", asdict(facts_of(prepared)))
    _write_json(folder / "tables.json", tables_of(prepared))
    prepared.shared.ledger.save(folder / "ledger.csv")


def _digest_of(path: Path) -> bytes:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").digest()


def _log(folder: Path, message: str) -> None:
    with (folder / "log.txt").open("a", encoding="utf-8") as stream:
        stream.write(f"{datetime.now(UTC).isoformat(timespec='seconds')} {message}\n")


def _write_json(path: Path, content: Any) -> None:
    with written_aside(path) as aside:
        aside.write_text(json.dumps(content, allow_nan=False), encoding="utf-8")


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FedcastError(f"{path}: missing; delete its folder and repeat the command that made it") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise FedcastError(f"{path}: damaged ({error}); delete its folder and repeat the command") from None
