"""Checkpoints: everything a run needs to go on as if nothing had happened, written whole or not at all."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from fedcast.errors import FedcastError
from fedcast.io import atomic_write
from fedcast.training.algorithm import ServerState, Tensors
from fedcast.training.history import History, Record

_VERSION = 1


def save_checkpoint(
    path: Path, fingerprint: str, completed: int, state: ServerState, user_controls: Tensors, history: History
) -> None:
    """Write aside, flush to the disk, then rename: a killed process leaves the old file or the new one.

    There is no random state to keep: every draw is a function of (seed, purpose, round, user).
    """
    content = {
        "version": _VERSION,
        "fingerprint": fingerprint,
        "completed": completed,
        "weights": state.weights,
        "momentum": state.momentum,
        "second_moment": state.second_moment,
        "control": state.control,
        "user_controls": user_controls,
        "records": [asdict(record) for record in history.records],
    }
    with atomic_write(path) as aside, aside.open("wb") as stream:
        torch.save(content, stream)
        stream.flush()
        os.fsync(stream.fileno())


def load_checkpoint(
    path: Path, fingerprint: str, device: torch.device
) -> tuple[int, ServerState, Tensors, History] | None:
    """The state of an earlier run, or None if there is none; refused if it belongs to another run."""
    if not path.exists():
        return None
    try:
        content: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
    except Exception as error:
        raise FedcastError(
            f"{path}: not a readable checkpoint ({type(error).__name__}); delete it to start anew"
        ) from None
    if content.get("version") != _VERSION or content.get("fingerprint") != fingerprint:
        raise FedcastError(
            f"{path}: belongs to a run with other data, settings or weights; delete it to start anew or name another"
        )
    state = ServerState(content["weights"], content["momentum"], content["second_moment"], content["control"])
    records = [Record(**{**row, "class_accuracy": tuple(row["class_accuracy"])}) for row in content["records"]]
    return content["completed"], state, content["user_controls"], History(records)
