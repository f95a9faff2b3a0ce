"""What a training run recorded, round by round."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from fedcast.errors import FedcastError
from fedcast.io import atomic_write, save_table

_VERSION = 1


@dataclass(frozen=True)
class Record:
    """One round; round 0 is the model before training.

    Attributes:
        round: counted from 1.
        train_loss: mean batch loss of the users' local steps; the loss on training is not known before round 1.
        test_loss: mean cross-entropy on the test set, after the round.
        accuracy: share of the test set that is right.
        user_accuracy: mean over users of the accuracy on the user's own class mix.
        worst_accuracy: mean of the same over the worst tenth of users.
        drift: root mean square over users of ‖w_k − w̄‖ at the end of local training.
        participants: users that trained.
        seconds: simulated clock at the end of the round, sharing included.
        energy_j: energy spent by all users so far, sharing included.
        bytes_sent: bytes sent by all users and the server so far, sharing included.
        class_accuracy: accuracy on each class; empty where the test set has no sample of it.
        noisy_accuracy: accuracy on the test set with the users' mixture of noise; None where users have none.
    """

    round: int
    train_loss: float | None
    test_loss: float
    accuracy: float
    user_accuracy: float
    worst_accuracy: float
    drift: float | None
    participants: int
    seconds: float
    energy_j: float
    bytes_sent: float
    class_accuracy: tuple[float | None, ...] = ()
    noisy_accuracy: float | None = None


_ALWAYS = tuple(item.name for item in fields(Record) if item.name not in ("class_accuracy", "noisy_accuracy"))


@dataclass
class History:
    """Records of a run, in order."""

    records: list[Record] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.records)

    def column(self, name: str) -> list[Any]:
        """One quantity over all records."""
        if name not in (known := [item.name for item in fields(Record)]):
            raise FedcastError(f"history: there is no column {name!r}; there are {', '.join(known)}")
        return [getattr(record, name) for record in self.records]

    def rounds_to(self, accuracy: float) -> int | None:
        """First round whose test accuracy meets the target; None if none does. No smoothing.

        Example:
            >>> History([]).rounds_to(0.9) is None
            True
        """
        return next((record.round for record in self.records if record.accuracy >= accuracy), None)

    def to_json(self) -> str:
        """All records as JSON."""
        return json.dumps({"version": _VERSION, "records": [asdict(record) for record in self.records]}, indent=1)

    def columns(self) -> dict[str, list[Any]]:
        """All quantities by name, the accuracies of classes each in a column of its own."""
        classes = max((len(record.class_accuracy) for record in self.records), default=0)
        columns = {name: self.column(name) for name in _ALWAYS}
        if any(record.noisy_accuracy is not None for record in self.records):
            columns["noisy_accuracy"] = self.column("noisy_accuracy")
        for label in range(classes):
            columns[f"accuracy_of_class_{label}"] = [record.class_accuracy[label] for record in self.records]
        return columns

    def save(self, path: str | Path) -> Path:
        """Write .json, .csv or .parquet, by the suffix; written aside and then renamed."""
        path = Path(path)
        if path.suffix in (".csv", ".parquet"):
            return save_table(self.columns(), path)
        if path.suffix != ".json":
            raise FedcastError(f"{path}: unknown kind of file {path.suffix!r}; expected .json, .csv, .parquet")
        with atomic_write(path) as aside:
            aside.write_text(self.to_json(), encoding="utf-8")
        return path


def load_history(path: str | Path) -> History:
    """Read what `History.save` wrote as JSON."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        version = content["version"]
        if version == _VERSION:
            rows = content["records"]
            return History([Record(**{**row, "class_accuracy": tuple(row["class_accuracy"])}) for row in rows])
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise FedcastError(f"{path}: not a history written by fedcast ({error})") from None
    raise FedcastError(f"{path}: history of version {version}, this fedcast reads {_VERSION}")
