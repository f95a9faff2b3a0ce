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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from fedcast.errors import FedcastError
from fedcast.formatting import html_table, number, percent, pluralize, quantity, short_repr, shown_value
from fedcast.io import Column, data_frame, read_table, write_file
from fedcast.plan import SharingPlan, load_plan, save_plan
from fedcast.registry import BUILT_IN, KINDS, find, names, option_fields, plugin_error
from fedcast.runs import versions
from fedcast.runs.checks import check_model_size
from fedcast.runs.facts import Facts, Table, facts_of, tables_of
from fedcast.runs.prepare import PreparedRun, TrainedRun, prepare_run, train_prepared
from fedcast.runs.reuse import same_training, training_key
from fedcast.runs.user_accuracy import user_scores
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
from fedcast.text_files import is_file, parse_json, read_text
from fedcast.training import History, Record, load_history

if TYPE_CHECKING:
    import pandas

# Increased when the same scenario gives different results than before: runs of older formats are then repeated.
RUN_FORMAT = 1
# Increased when the values that name a run's folder are arranged differently.
KEY_FORMAT = 2
# Files without a digest in done.json, since they may change after the run has finished.
_FILES_WITHOUT_DIGEST = ("checkpoint.pt", "log.txt", "done.json", "timing.json")
_FAILED, _TIMING = "failed.json", "timing.json"
_FILES_ALWAYS = {"scenario.toml", "versions.json", "facts.json", "tables.json", "history.json"}
_KEY_LENGTH = 12
_MEASURED = "measured.json"
_PRIVACY = "privacy.csv"
_REPEAT = "delete the folder and repeat the command that made it"


class Guarantee(NamedTuple):
    """(ε, δ) of the head that spent most, and whether noise is ``secure``, or ``seeded`` as in a simulation."""

    epsilon: float
    delta: float
    noise: str

    def __str__(self) -> str:
        return f"ε = {self.epsilon:.3g}, δ = {self.delta:g}, {self.noise} noise"


@dataclass(frozen=True, eq=False, repr=False)
class StoredRun:
    """A finished run, read from its folder."""

    folder: Path
    scenario: Scenario  #: all parameters
    facts: Facts  #: numbers known before training
    history: History  #: record of all rounds
    plan: SharingPlan | None  #: who shares how much; None in folders of older versions, where some runs had no plan
    versions: dict[str, str]  #: versions of the packages that were used

    @property
    def rule(self) -> str:
        """Return the name of its clustering rule."""
        return self.scenario.clustering.rule

    @property
    def short_facts(self) -> dict[str, str]:
        """Return what is most worth knowing, for people."""
        last, target = self.history.records[-1], self.scenario.rounds.target_accuracy
        reached = self.history.rounds_to(target)
        return {
            "run": self.folder.name,
            "accuracy": f"{percent(last.accuracy)} after {pluralize(last.round, 'round')}",
            f"rounds to {percent(target)}": "not reached" if reached is None else str(reached),
            "simulated time": quantity(last.seconds, "s"),
        }

    def __repr__(self) -> str:
        return short_repr("StoredRun", self.short_facts)

    def _repr_html_(self) -> str:
        return html_table("StoredRun", self.short_facts | self.scenario.facts)

    def to_pandas(self) -> pandas.DataFrame:
        """Return the history as a data frame, with one row per round."""
        return data_frame(self.history.columns()).set_index("round")

    def users_to_pandas(self) -> pandas.DataFrame:
        """Return the accuracy of each user as a data frame, with one row per user; see `user_scores`."""
        return data_frame(user_scores(self)).set_index("user")

    @cached_property
    def tables(self) -> dict[str, Table]:
        """Return the tables of users, heads and classes, each by column; see `fedcast.runs.facts.tables_of`."""
        return _read_tables(self.folder / "tables.json")

    @cached_property
    def privacy(self) -> Guarantee | None:
        """Return what heads guarantee for what they sent; None: nothing was sent with differential privacy."""
        path = self.folder / _PRIVACY
        if not path.exists():
            return None
        numbers = [Column(name, "float", minimum=0) for name in ("epsilon", "delta")]
        table = read_table(path, [*numbers, Column("noise", "text")], may_be_empty=True)
        if not table.num_rows:
            return None
        return Guarantee(float(table["epsilon"].max()), float(table["delta"][0]), str(table["noise"][0]))

    @cached_property
    def plugin_options(self) -> dict[str, list[Any]]:
        """Return default and meaning of the options of its plug-ins, by key; none in folders of older versions."""
        path = self.folder / "options.json"
        options: dict[str, list[Any]] = _read_json(path) if path.exists() else {}
        return options

    @cached_property
    def timing(self) -> Timing | None:
        """Return how long training took; None if it was resumed or taken over, and in folders of older versions."""
        path = self.folder / _TIMING
        return Timing(**_read_json(path)) if path.exists() else None

    @cached_property
    def measured_s(self) -> dict[str, float]:
        """Return measured seconds of phases and rounds by name; none if the run was simulated."""
        path = self.folder / _MEASURED
        measured: dict[str, float] = _read_json(path) if path.exists() else {}
        return measured


class Timing(NamedTuple):
    """Wall clock, engine and throughput of training on this machine; none of it is a result."""

    wall_s: float  #: seconds of training, with tests after each round
    engine: str  #: name of the engine
    device: str  #: cpu or cuda
    samples_per_s: float  #: samples that users trained on, each counted once per local epoch

    @property
    def text(self) -> str:
        """Return it for people."""
        rate = f"{number(round(self.samples_per_s))} samples/s"
        return f"{quantity(self.wall_s, 's')}, {self.engine} on {self.device}, {rate}"


# What functions take for runs: one or several, each as it is or as the path of a run folder or a store.
RunsLike = StoredRun | str | Path | Iterable[StoredRun | str | Path]


@dataclass(frozen=True, eq=False)
class FailedRun:
    """A run that failed: its plan was infeasible, its training diverged, or a file that it needs is invalid."""

    folder: Path
    scenario: Scenario  #: all parameters
    reason: str  #: message of the error


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
        digest.update(_digest_of(path))
    return digest.hexdigest()


def _folder_name(scenario: Scenario, key: str) -> str:
    words = [scenario.clustering.rule, scenario.allocation.method, scenario.training.algorithm]
    words += [] if scenario.sharing.kind == "raw" else [scenario.sharing.kind]
    return "-".join([*words, str(scenario.seed), key[:_KEY_LENGTH]])


def is_done(folder: Path) -> bool:
    """Return whether the folder holds a finished run."""
    return (folder / "done.json").is_file()


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
            _write_json(folder / _TIMING, _timing(trained, time.monotonic() - start)._asdict())
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
    _log(folder, f"not trained: {other.name} has the same training")
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
    digests = {name: _digest_of(path).hex() for name, path in named.items() if name not in _FILES_WITHOUT_DIGEST}
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
            if path.name not in (".lock", "log.txt"):
                path.unlink()


def load_run(folder: str | Path) -> StoredRun:
    """Read a finished run."""
    folder = Path(folder)
    if not folder.is_dir():
        raise FedcastError(f"{folder}: no such run folder")
    if not is_done(folder):
        started = (folder / "scenario.toml").exists()
        advice = "repeat the command that started it to resume it" if started else "expected one made by `fedcast run`"
        raise FedcastError(f"{folder}: no finished run in this folder; {advice}")
    _check_unchanged(folder)
    plan = folder / "plan.json"
    return StoredRun(
        folder,
        read_stored_scenario(folder / "scenario.toml"),
        _read_facts(folder / "facts.json"),
        load_history(folder / "history.json"),
        load_plan(plan) if plan.exists() else None,
        _read_json(folder / "versions.json"),
    )


def load_runs(paths: str | Path | Sequence[str | Path]) -> list[StoredRun]:
    """Read run folders, and all finished runs of stores; takes one path or several."""
    runs, given = [], [Path(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    for path in given:
        if (path / "scenario.toml").exists():
            # A pattern such as runs/* also names runs that failed.
            runs += [load_run(path)] if is_done(path) or len(given) == 1 or not (path / _FAILED).exists() else []
            continue
        store = path / "runs" if (path / "runs").is_dir() else path
        inside = [folder for folder in sorted(store.glob("*/")) if is_done(folder)]
        if not inside:
            raise FedcastError(
                f"{path}: no finished run in this folder; create some with `fedcast run` or `fedcast compare`"
            )
        runs += [load_run(folder) for folder in inside]
    if not runs and given:
        raise FedcastError(f"{given[0]}: no finished run; all {len(given)} runs failed")
    return runs


def store_failure(folder: Path, scenario: Scenario, reason: str) -> FailedRun:
    """Write why a run of a sweep failed, for reports; it is tried again when it is asked for again."""
    with locked(folder):
        if not (folder / "scenario.toml").exists():  # it failed before it had a folder here, or on another machine
            write_file(folder / "scenario.toml", to_toml(scenario))
        _write_json(folder / _FAILED, {"reason": reason})
    return FailedRun(folder, scenario, reason)


def as_runs(given: RunsLike) -> list[StoredRun]:
    """Return runs: given as they are, or as paths of run folders and stores; one or several."""
    several = [given] if isinstance(given, str | Path | StoredRun) or not isinstance(given, Iterable) else given
    runs: list[StoredRun] = []
    for one in several:
        if isinstance(one, str | Path):
            runs += load_runs(one)
        elif hasattr(one, "history") and hasattr(one, "scenario"):
            runs.append(one)
        else:
            expected = "runs, or paths of run folders or of folders of them"
            raise FedcastError(f"runs: expected {expected}, got {shown_value(one)}")
    return runs


def load_failures(paths: str | Path | Sequence[str | Path]) -> list[FailedRun]:
    """Read which runs of stores failed, and why; takes the paths that `load_runs` takes."""
    found = []
    for path in map(Path, [paths] if isinstance(paths, str | Path) else paths):
        store = path / "runs" if (path / "runs").is_dir() else path
        for folder in [store, *sorted(store.glob("*/"))]:
            if (folder / _FAILED).is_file() and not is_done(folder):
                content = _read_json(folder / _FAILED)
                reason = content.get("reason") if isinstance(content, dict) else None
                scenario = read_stored_scenario(folder / "scenario.toml")
                found.append(FailedRun(folder, scenario, reason if isinstance(reason, str) else "unknown"))
    return found


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a run folder, waiting for another process that holds the lock; a killed process releases it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _check_unchanged(folder: Path) -> None:
    """Raise an error if a file of a finished run has changed since it finished."""
    done = _read_json(folder / "done.json")
    if not (isinstance(done, dict) and done.get("format") == RUN_FORMAT and isinstance(done.get("files"), dict)):
        raise FedcastError(f"{folder}: the run has another format version; {_REPEAT}")
    if missing := sorted(_FILES_ALWAYS - done["files"].keys()):
        raise FedcastError(f"{folder}/done.json: no digest of {missing[0]}; {_REPEAT}")
    for name, digest in done["files"].items():
        path = folder / name
        if path.parent != folder:
            raise FedcastError(f"{folder}/done.json: {shown_value(name)} is not a file of the run; {_REPEAT}")
        if not is_file(path) or _digest_of(path).hex() != digest:
            what = "was changed or damaged" if is_file(path) else "is missing"
            raise FedcastError(f"{folder}/{name:.80}: {what}; {_REPEAT}")


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
    (folder / _FAILED).unlink(missing_ok=True)
    _write_json(folder / "versions.json", versions())
    _log(folder, f"started by process {os.getpid()}, threads: {torch.get_num_threads()}")
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
        ledger.privacy.save(folder / _PRIVACY)


def store_run(folder: Path, prepared: PreparedRun, history: History, measured_s: Mapping[str, float]) -> Path:
    """Write a run that was trained on devices, with the seconds of phases and rounds that were measured there."""
    with locked(folder):
        write_file(folder / "scenario.toml", to_toml(prepared.world.scenario))
        _write_json(folder / "versions.json", versions())
        _write_prepared(folder, prepared)
        _write_json(folder / _MEASURED, dict(measured_s))
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


def _read_facts(path: Path) -> Facts:
    content, expected = _read_json(path), {field.name for field in fields(Facts)}
    if not isinstance(content, dict) or content.keys() != expected:
        raise FedcastError(f"{path}: not the facts of a run; {_REPEAT}")
    if invalid := [name for name, value in content.items() if type(value) not in (int, float)]:
        raise FedcastError(f"{path}: {invalid[0]} is {shown_value(content[invalid[0]])}, expected a number; {_REPEAT}")
    return Facts(**content)


def _read_tables(path: Path) -> dict[str, Table]:
    """Return tables of equal columns, as they were written."""
    content = _read_json(path)
    tables = content if isinstance(content, dict) else {}
    columns = [list(table.values()) for table in tables.values() if isinstance(table, dict)]
    equal = all(
        all(isinstance(column, list) and len(column) == len(table[0]) for column in table) for table in columns if table
    )
    if tables.keys() != {"users", "heads", "classes"} or len(columns) != len(tables) or not equal:
        raise FedcastError(f"{path}: not the tables of a run; {_REPEAT}")
    return tables


def _digest_of(path: Path) -> bytes:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").digest()


def _log(folder: Path, message: str) -> None:
    with (folder / "log.txt").open("a", encoding="utf-8") as stream:
        stream.write(f"{datetime.now(UTC).isoformat(timespec='seconds')} {message}\n")


def _write_json(path: Path, content: Any) -> None:
    write_file(path, json.dumps(content, allow_nan=False))


def _read_json(path: Path) -> Any:
    try:
        return parse_json(read_text(path), str(path))
    except FileNotFoundError:
        raise FedcastError(f"{path}: missing; delete its folder and repeat the command that made it") from None
    except FedcastError as error:
        raise FedcastError(f"{error}; delete its folder and repeat the command that made it") from None
