"""Checkpoints: all that a run needs to resume with the same results, written atomically."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch

from fedcast.errors import FedcastError
from fedcast.io import atomic_write
from fedcast.training.algorithms import State, Tensors
from fedcast.training.history import History, history_of

_VERSION = 2


@dataclass
class TrainingState:
    """State of a run after a round; `server` and `users` ([K, ...]) are states of the algorithm."""

    weights: Tensors
    server: State
    users: State
    optimizer: State


def save_checkpoint(path: Path, fingerprint: str, completed: int, state: TrainingState, history: History) -> None:
    """Write a checkpoint and flush it to the disk: a killed process leaves the old file or the new one.

    There is no random state to keep: every draw is a function of (seed, purpose, round, user).
    """
    content = {"version": _VERSION, "fingerprint": fingerprint, "completed": completed, **vars(state)}
    content["records"] = [asdict(record) for record in history.records]
    with atomic_write(path) as aside, aside.open("wb") as stream:
        torch.save(content, stream)
        stream.flush()
        os.fsync(stream.fileno())


def load_checkpoint(path: Path, fingerprint: str, device: torch.device) -> tuple[int, TrainingState, History] | None:
    """Return completed rounds, state and history of an earlier run; None if there is no file."""
    if not path.exists():
        return None
    try:
        content: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
    except Exception as error:
        fault = f"not a readable checkpoint ({type(error).__name__})"
        raise FedcastError(f"{path}: {fault}; delete it to start again") from None
    if (version := content.get("version")) != _VERSION:
        fault = f"a checkpoint of version {version}, this fedcast resumes version {_VERSION}"
        raise FedcastError(f"{path}: {fault}; delete it to start again")
    if content.get("fingerprint") != fingerprint:
        fault = "belongs to a run with other data, settings or weights"
        raise FedcastError(f"{path}: {fault}; delete it to start again or name another")
    state = TrainingState(**{field.name: content[field.name] for field in fields(TrainingState)})
    return content["completed"], state, history_of(content["records"])
