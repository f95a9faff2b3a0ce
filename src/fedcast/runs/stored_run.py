"""Finished and failed runs, read from their folders; files that were changed are errors."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fedcast.errors import FedcastError
from fedcast.formatting import html_table, number, percent, pluralize, quantity, short_repr, shown_value
from fedcast.io import Column, data_frame, read_table
from fedcast.plan import SharingPlan, load_plan
from fedcast.runs.facts import Facts, Table
from fedcast.runs.provenance import VERSIONS_FILE
from fedcast.runs.user_accuracy import user_scores
from fedcast.scenario import Scenario, read_stored_scenario
from fedcast.text_files import is_file, parse_json, read_text
from fedcast.training import History, load_history

if TYPE_CHECKING:
    import pandas


# Increased when the same scenario gives different results than before: runs of older formats are then repeated.
RUN_FORMAT = 1
FAILED_FILE, TIMING_FILE, MEASURED_FILE, PRIVACY_FILE = "failed.json", "timing.json", "measured.json", "privacy.csv"
LOG_FILE = "log.txt"
# Lines of the log.
STARTED, TAKEN_OVER = "started by process", "not trained: {} has the same training"
_FILES_ALWAYS = {"scenario.toml", VERSIONS_FILE, "facts.json", "tables.json", "history.json"}
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
        path = self.folder / PRIVACY_FILE
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
        return self._read_if_there("options.json") or {}

    @property
    def history_from(self) -> str | None:
        """Name of the run folder whose history was taken over, since its training is the same; None: it was trained."""
        path = self.folder / LOG_FILE
        last = read_text(path).rpartition(STARTED)[2] if path.exists() else ""
        found = re.search(TAKEN_OVER.format(r"(\S+)"), last)
        return found[1] if found else None

    @cached_property
    def timing(self) -> Timing | None:
        """Return how long training took; None if it was resumed or taken over, and in folders of older versions."""
        content = self._read_if_there(TIMING_FILE)
        return None if content is None else Timing(**content)

    @cached_property
    def measured_s(self) -> dict[str, float]:
        """Return measured seconds of phases and rounds by name; none if the run was simulated."""
        return self._read_if_there(MEASURED_FILE) or {}

    def _read_if_there(self, name: str) -> Any:
        path = self.folder / name
        return _read_json(path) if path.exists() else None


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


def is_done(folder: Path) -> bool:
    """Return whether the folder holds a finished run."""
    return (folder / "done.json").is_file()


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
        _read_json(folder / VERSIONS_FILE),
    )


def load_runs(paths: str | Path | Sequence[str | Path]) -> list[StoredRun]:
    """Read run folders, and all finished runs of stores; takes one path or several."""
    runs, given = [], [Path(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    for path in given:
        if (path / "scenario.toml").exists():
            # A pattern such as runs/* also names runs that failed.
            runs += [load_run(path)] if is_done(path) or len(given) == 1 or not (path / FAILED_FILE).exists() else []
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
            if (folder / FAILED_FILE).is_file() and not is_done(folder):
                content = _read_json(folder / FAILED_FILE)
                reason = content.get("reason") if isinstance(content, dict) else None
                scenario = read_stored_scenario(folder / "scenario.toml")
                found.append(FailedRun(folder, scenario, reason if isinstance(reason, str) else "unknown"))
    return found


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
        if not is_file(path) or digest_of(path).hex() != digest:
            what = "was changed or damaged" if is_file(path) else "is missing"
            raise FedcastError(f"{folder}/{name:.80}: {what}; {_REPEAT}")


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


def digest_of(path: Path) -> bytes:
    """Return the SHA-256 digest of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").digest()


def _read_json(path: Path) -> Any:
    try:
        return parse_json(read_text(path), str(path))
    except FileNotFoundError:
        raise FedcastError(f"{path}: missing; delete its folder and repeat the command that made it") from None
    except FedcastError as error:
        raise FedcastError(f"{error}; delete its folder and repeat the command that made it") from None
