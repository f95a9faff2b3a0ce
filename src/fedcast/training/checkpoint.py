"""Checkpoints: all that a run needs to resume with the same results, written atomically."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from fedcast.errors import FedcastError
from fedcast.io import atomic_write
from fedcast.training.algorithms import State, Tensors
from fedcast.training.history import History, Record

_VERSION = 2


@dataclass
class TrainingState:
    """What a run carries from round to round.

    Attributes:
        weights: of the server.
        server: the algorithm's state of the server.
        users: the algorithm's states of all users, [K, ...] each.
        optimizer: state of the server optimiser.
    """

    weights: Tensors
    server: State
    users: State
    optimizer: State


def save_checkpoint(path: Path, fingerprint: str, completed: int, state: TrainingState, history: History) -> None:
    """Write a checkpoint and flush it to the disk: a killed process leaves the old file or the new one.

    There is no random state to keep: every draw is a function of (seed, purpose, round, user).
    """
    content = {
        "version": _VERSION,
        "fingerprint": fingerprint,
        "completed": completed,
        **vars(state),
        "records": [asdict(record) for record in history.records],
    }
    with atomic_write(path) as aside, aside.open("wb") as stream:
        torch.save(content, stream)
        stream.flush()
        os.fsync(stream.fileno())


def load_checkpoint(path: Path, fingerprint: str, device: torch.device) -> tuple[int, TrainingState, History] | None:
    """Return completed rounds, state and history of an earlier run; None if there is no file.

    Raises:
        FedcastError: the file cannot be read or belongs to another run.
    """
    if not path.exists():
        return None
    try:
        content: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
    except Exception as error:
        raise FedcastError(
            f"{path}: not a readable checkpoint ({type(error).__name__}); delete it to start again"
        ) from None
    if content.get("version") != _VERSION:
        raise FedcastError(
            f"{path}: a checkpoint of version {content.get('version')}, this fedcast resumes version {_VERSION}; "
            "delete it to start again"
        )
    if content.get("fingerprint") != fingerprint:
        raise FedcastError(
            f"{path}: belongs to a run with other data, settings or weights; delete it to start again or name another"
        )
    state = TrainingState(content["weights"], content["server"], content["users"], content["optimizer"])
    records = [Record(**{**row, "class_accuracy": tuple(row["class_accuracy"])}) for row in content["records"]]
    return content["completed"], state, History(records)
