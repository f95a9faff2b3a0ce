"""Checkpoints: all that a run needs to resume with the same results, written atomically."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedcast.errors import FedcastError
from fedcast.io import atomic_write
from fedcast.training.algorithms import State, Tensors
from fedcast.training.history import History, history_of
from fedcast.training.settings import TrainingSettings, settings_text

_VERSION = 3


@dataclass
class TrainingState:
    """State of a run after a round; `server` and `users` ([K, ...]) are states of the algorithm.

    `residuals` is empty, or one tensor [K, n] of what users left out of their uploads so far. In asynchronous training
    `past` has the weights that users in flight started from, by the step of their start.
    """

    weights: Tensors
    server: State
    users: State
    optimizer: State
    residuals: Tensors = field(default_factory=list)
    past: State = field(default_factory=dict)


def fingerprint_of(settings: TrainingSettings, seed: int, more: Sequence[Any], arrays: Iterable[Any]) -> str:
    """Return a hash of all that decides the result of a run: its settings, other values as text, and arrays."""
    digest = hashlib.blake2b()
    # More rounds, other checkpoints and what comes after the last round do not change the rounds before.
    decisive = replace(settings, rounds=1, checkpoint_every=1, fine_tune_epochs=0, fine_tune_learning_rate=None)
    # The text of a dataclass, as it was hashed before there were settings that are left out.
    values = ", ".join(f"{name}={value}" for name, value in settings_text(decisive).items())
    digest.update(f"({', '.join([repr(seed), f'TrainingSettings({values})', *map(repr, more)])})".encode())
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def save_checkpoint(path: Path, fingerprint: str, completed: int, state: TrainingState, history: History) -> None:
    """Write a checkpoint and flush it to the disk: a killed process leaves the old file or the new one.

    There is no random state to keep: every draw is a function of (seed, purpose, round, user).
    """
    content = {"version": _VERSION, "fingerprint": fingerprint, "completed": completed, **vars(state)}
    content["records"] = [asdict(record) for record in history.records]
    content["digest"] = _digest_of(content)
    with atomic_write(path) as aside, aside.open("wb") as stream:
        torch.save(content, stream)
        stream.flush()
        os.fsync(stream.fileno())


def load_checkpoint(path: Path, fingerprint: str, device: torch.device) -> tuple[int, TrainingState, History] | None:
    """Return completed rounds, state and history of an earlier run; None if there is no file."""
    if not path.exists():
        return None
    try:
        content = torch.load(path, map_location=device, weights_only=True)
    except Exception as error:
        fault = f"not a readable checkpoint ({type(error).__name__})"
        raise FedcastError(f"{path}: {fault}; delete it to start again") from None
    if wrong := _fault_of(content, fingerprint):
        raise FedcastError(f"{path}: {wrong}; delete it to start again, or name another")
    state = TrainingState(**{item.name: content[item.name] for item in fields(TrainingState) if item.name in content})
    return content["completed"], state, history_of(content["records"])


def _fault_of(content: Any, fingerprint: str) -> str | None:
    """Return why a run cannot resume from what a file holds; None: it can."""
    if not isinstance(content, dict):
        return f"not a checkpoint of fedcast: it holds a {type(content).__name__}"
    if (version := content.get("version")) != _VERSION:
        return f"a checkpoint of version {version}, this fedcast resumes version {_VERSION}"
    digest = content.pop("digest", None)
    if digest != _digest_of(content):
        return "a checkpoint that was altered or damaged after it was written"
    if content.get("fingerprint") != fingerprint:
        return "belongs to a run with other data, settings or weights"
    always = [item.name for item in fields(TrainingState) if item.default_factory is MISSING]
    if missing := {"completed", "records", *always} - content.keys():
        return f"not a checkpoint of fedcast: it has no {', '.join(sorted(missing))}"
    return None


def _digest_of(content: Any) -> str:
    """Return the SHA-256 of nested values and tensors: it detects a checkpoint that was altered on the disk."""
    digest = hashlib.sha256()
    values = [content]
    while values:
        value = values.pop()
        if isinstance(value, dict):
            values += [part for item in value.items() for part in item]
        elif isinstance(value, list | tuple):
            values += value
        if isinstance(value, torch.Tensor):
            digest.update(f"{value.dtype} {tuple(value.shape)}".encode())
            digest.update(value.detach().cpu().reshape(-1).contiguous().view(torch.uint8).numpy().data)
        else:
            digest.update(f"{type(value).__name__} {len(value) if hasattr(value, '__len__') else repr(value)}".encode())
            digest.update(value.encode() if isinstance(value, str) else b"")
    return digest.hexdigest()
