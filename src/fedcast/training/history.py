"""The history of a training run, round by round, and the simulated clock that it reads."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from fedcast.errors import FedcastError
from fedcast.io import TABLE_FORMATS, save_table, write_file
from fedcast.participation import Attendance
from fedcast.text_files import parse_json, read_text
from fedcast.typing import Floats

_VERSION = 1


@dataclass(frozen=True)
class Clock:
    """Cost of sharing and of each round on the simulated clock; all zero by default.

    A round of some users takes as long as the slowest; without `user_s` it costs the same for any users.
    """

    sharing_s: float = 0.0  #: delay before the first round
    round_s: float = 0.0  #: delay of a round of all users
    sharing_j: float = 0.0  #: energy of sharing, all users
    round_j: float = 0.0  #: energy of a round of all users
    sharing_bytes: float = 0.0  #: bytes sent while sharing
    round_bytes: float = 0.0  #: bytes sent in a round of all users, both ways
    user_s: tuple[float, ...] = ()  #: delay of each user in a round, K values or none
    user_j: tuple[float, ...] = ()  #: energy of each user in a round, K values or none
    upload_bytes: float = 0.0  #: bytes that one user uploads
    # Not in `repr`, from which checkpoints are hashed: it follows from the model.
    download_bytes: float = field(default=0.0, repr=False)  #: bytes of the model that one user downloads

    def cost_of(self, round: Attendance, everyone: int) -> tuple[float, float, float]:  # noqa: A002
        """Return delay, energy and bytes of a round or asynchronous step, of `everyone` that could take part."""
        users = round.trained
        if round.staleness is not None:
            each = self.upload_bytes + self.download_bytes
            return round.seconds or 0.0, sum(self.user_j[user] for user in users), each * len(users)
        if not self.user_s or len(users) == everyone:
            return self.round_s if round.seconds is None else round.seconds, self.round_j, self.round_bytes
        slowest = max((self.user_s[user] for user in users), default=0.0)
        missing = self.upload_bytes * (everyone - len(users))
        energy_j = sum(self.user_j[user] for user in users)
        return slowest if round.seconds is None else round.seconds, energy_j, self.round_bytes - missing


@dataclass(frozen=True)
class Record:
    """One round; round 0 is the model before training. Clock, energy and bytes are totals with sharing."""

    round: int  #: counted from 1
    train_loss: float | None  #: mean batch loss of the users' local steps; None in round 0
    test_loss: float  #: mean cross-entropy on the test set, after the round
    accuracy: float  #: share of the test set that is classified correctly
    user_accuracy: float  #: mean over users of the accuracy under the user's own label distribution
    worst_accuracy: float  #: mean of the same over the worst tenth of users
    #: root mean square over users of ‖w_k − w̄‖ at the end of local training, w_k as the server decodes it
    drift: float | None
    participants: int  #: users that trained
    seconds: float  #: simulated clock at the end of the round
    energy_j: float  #: energy spent by all users so far
    bytes_sent: float  #: bytes sent by all users and the server so far
    class_accuracy: tuple[float | None, ...] = ()  #: accuracy on each class; None for a class without test samples
    noisy_accuracy: float | None = None  #: accuracy on the test set with the noise of all users; None without noise
    dropped_out: int = 0  #: invited users that did not answer
    missed: int = 0  #: users that trained and missed the deadline
    surplus: int = 0  #: users that trained in time, but after as many others as the round needed
    staleness: float | None = None  #: mean over the updates of an asynchronous step of the steps since their start
    max_staleness: int | None = None  #: the largest of them


# Columns of some runs only: those where a record differs from the default.
_SOMETIMES = ("noisy_accuracy", "dropped_out", "missed", "surplus", "staleness", "max_staleness")
_ALWAYS = tuple(item.name for item in fields(Record) if item.name not in ("class_accuracy", *_SOMETIMES))
# Left out of files where no record has one, as before they existed.
_LATER = tuple(name for name in _SOMETIMES if name != "noisy_accuracy")


@dataclass
class History:
    """The records of a run, in order.

    If users fine-tuned the model after the last round, or have test samples of their own, `users` has columns with a
    value for each of the K users: ``own_accuracy`` of the trained model under the user's own label distribution before
    sharing (each class's accuracy on the test set, weighted by its share in that distribution) or on its own test
    samples (None: the user holds no samples), and, after the user fine-tuned it on its own samples,
    ``fine_tuned_own_accuracy``, the same, and ``fine_tuned_accuracy`` on the whole test set (None: the user did not
    train).
    """

    records: list[Record] = field(default_factory=list)
    users: dict[str, list[float | None]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.records)

    def column(self, name: str) -> list[Any]:
        """Return one quantity over all records."""
        if name not in (known := [item.name for item in fields(Record)]):
            raise FedcastError(f"history: there is no column {name!r}; there are {', '.join(known)}")
        return [getattr(record, name) for record in self.records]

    def rounds_to(self, accuracy: float) -> int | None:
        """Return the first round whose test accuracy reaches the target, without smoothing; None if none does.

        Example:
            >>> History([]).rounds_to(0.9) is None
            True
        """
        return next((record.round for record in self.records if record.accuracy >= accuracy), None)

    def attendance(self) -> dict[str, float]:
        """Return how many updates counted or were lost in all rounds; empty if no user was lost and no update is stale.

        Example:
            >>> History([]).attendance()
            {}
        """
        lost = {name: float(sum(self.column(name))) for name in ("missed", "surplus", "dropped_out")}
        old = [value for value in self.column("staleness") if value is not None]
        if not any(lost.values()) and not old:
            return {}
        updates = [record.participants for record in self.records if record.round]
        found = {"updates": float(sum(updates)), **lost, "empty_rounds": float(updates.count(0))}
        if old:
            largest = max(value for value in self.column("max_staleness") if value is not None)
            found |= {"staleness": sum(old) / len(old), "max_staleness": float(largest)}
        return found

    def to_json(self) -> str:
        """Return all records as JSON; a value that is not finite is an error."""
        unused = {name for name in _LATER if not self._has(name)}
        rows = [{name: value for name, value in asdict(one).items() if name not in unused} for one in self.records]
        content: dict[str, Any] = {"version": _VERSION, "records": rows}
        content |= {"users": self.users} if self.users else {}
        try:
            return json.dumps(content, indent=1, allow_nan=False)
        except ValueError:
            raise FedcastError("history: it holds NaN or infinity, since training diverged") from None

    def columns(self) -> dict[str, list[Any]]:
        """Return all quantities by name; each class has a column for its accuracy."""
        classes = max((len(record.class_accuracy) for record in self.records), default=0)
        columns = {name: self.column(name) for name in _ALWAYS}
        columns |= {name: self.column(name) for name in _SOMETIMES if self._has(name)}
        for label in range(classes):
            columns[f"accuracy_of_class_{label}"] = [record.class_accuracy[label] for record in self.records]
        return columns

    def _has(self, name: str) -> bool:
        """Return whether a record has a value that is not the default."""
        return any(value not in (None, 0) for value in self.column(name))

    def save(self, path: str | Path) -> Path:
        """Write .json, .csv, .parquet or .xlsx, by the suffix, atomically."""
        path = Path(path)
        if path.suffix in TABLE_FORMATS:
            return save_table(self.columns(), path)
        if path.suffix != ".json":
            expected = ", ".join((".json", *TABLE_FORMATS))
            raise FedcastError(f"{path}: unknown kind of file {path.suffix!r}; expected {expected}")
        return write_file(path, self.to_json())


def mean_and_worst(values: Floats) -> tuple[float, float]:
    """Return the mean of a value of each user, and the mean over the worst tenth of users, at least one.

    Example:
        >>> mean_and_worst(np.arange(20.0))
        (9.5, 0.5)
    """
    tenth = max(1, len(values) // 10)
    return float(np.mean(values)), float(np.sort(values)[:tenth].mean())


def history_of(rows: Iterable[dict[str, Any]]) -> History:
    """Return the history of records as plain values."""
    return History([Record(**{**row, "class_accuracy": tuple(row["class_accuracy"])}) for row in rows])


def load_history(path: str | Path) -> History:
    """Read what `History.save` wrote as JSON."""

    def not_finite(value: str) -> None:
        raise FedcastError(f"{path}: holds {value}: training diverged; delete its folder and repeat the command")

    content = parse_json(read_text(path), str(path), not_finite)
    try:
        version = content["version"]
        if version == _VERSION:
            return History(history_of(content["records"]).records, _columns_of(content.get("users", {})))
    except (KeyError, TypeError) as error:
        raise FedcastError(f"{path}: not a history written by fedcast ({error})") from None
    raise FedcastError(f"{path}: history of version {version}, this fedcast reads {_VERSION}")


def _columns_of(users: Any) -> dict[str, list[float | None]]:
    """Return the columns of users as they were written."""
    numbers = isinstance(users, dict) and all(
        isinstance(values, list) and all(value is None or isinstance(value, float | int) for value in values)
        for values in users.values()
    )
    if not numbers or len({len(values) for values in users.values()}) > 1:
        raise TypeError("users are not columns of numbers")
    return dict(users)
