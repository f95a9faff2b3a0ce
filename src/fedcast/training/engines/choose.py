"""Choose device, engine and whether to compile, from the settings alone, so that runs repeat exactly."""

from __future__ import annotations

import logging
import os
import shutil
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch import nn

from fedcast.data import Assignment
from fedcast.errors import FedcastError
from fedcast.training.device_data import DeviceData
from fedcast.training.engines.engine_protocol import Engine, Task, multiplications
from fedcast.training.engines.forward import CannotStackError
from fedcast.training.engines.loop import LoopEngine
from fedcast.training.engines.stacked import StackedEngine, most_lanes
from fedcast.training.lstm import LSTM
from fedcast.training.settings import TrainingSettings

# Multiplications of a run on a CPU from which a compiled step, which saves about 0.2 ns on each, makes up for half a
# minute of compiling.
_WORTH_COMPILING = 2e11
# Multiplications of one user's step from which on a CPU a step of one user after another is as fast as a stacked one
# that is not compiled.
_FILLS_A_CORE = 5e6

_log = logging.getLogger(__name__)


def choose_device(name: str) -> torch.device:
    """Return the device of that name; ``auto`` is a GPU if there is one."""
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise FedcastError("invalid value 'cuda' for training.device: PyTorch sees no GPU here; use cpu or auto")
    return torch.device("cuda" if available and name in ("auto", "cuda") else "cpu")


@contextmanager
def matrix_precision(settings: TrainingSettings, device: torch.device) -> Iterator[None]:
    """Set PyTorch's switches for matrix units, and restore them afterwards."""
    if device.type != "cuda":
        yield
        return
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32, cudnn.deterministic
    # With bfloat16 in training, tf32 is precise enough for scoring.
    matmul.allow_tf32 = cudnn.allow_tf32 = settings.precision in ("tf32", "bf16")
    cudnn.deterministic = True
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32, cudnn.deterministic = before


def choose_engine(name: str, task: Task) -> Engine:
    """Return the engine of that name; ``auto`` stacks users unless on a CPU a single one fills the core."""
    offered = task.settings.implementation.engines
    if name != "auto" and name not in offered:
        raise FedcastError(
            f"invalid value {name!r} for training.engine: the algorithm {task.settings.algorithm} runs in "
            f"{', '.join(offered)}; use auto or one of these"
        )
    if name == "loop" or "stacked" not in offered or (name == "auto" and "loop" in offered and _fills_a_core(task)):
        return LoopEngine(task)
    try:
        return StackedEngine(task)
    except CannotStackError as error:
        if name == "stacked" or "loop" not in offered:
            raise FedcastError(
                f"invalid value 'stacked' for training.engine: users of this model cannot be stepped at once: {error}; "
                "use auto or loop"
            ) from error
        _log.warning("users train one after the other, which takes longer: %s", error)
        return LoopEngine(task)


def _fills_a_core(task: Task) -> bool:
    """Return whether one user's step keeps a CPU core busy."""
    if task.device.type != "cpu" or most_lanes(task) < 2:
        return task.device.type == "cpu"
    return not task.compiled and task.settings.batch_size * multiplications(task.model, task.data) > _FILLS_A_CORE


def worth_compiling(model: nn.Module, data: DeviceData, users: Assignment, training: TrainingSettings) -> bool:
    """Return whether the run is long enough for a compiled step to pay; a GPU replays recorded steps and gains less."""
    if training.compile != "auto":
        return training.compile == "always"
    # A recurrence is unrolled step by step: compiling takes minutes.
    if data.labels.device.type != "cpu" or any(isinstance(part, LSTM) for part in model.modules()):
        return False
    able, attendance = int(np.count_nonzero(users.sizes)), training.attendance
    share = (attendance.buffer_size or attendance.needed(able)) / able
    samples = float(users.sizes.sum()) * share * training.local_epochs * training.rounds
    return samples * multiplications(model, data) > _WORTH_COMPILING and compiler_available()


def compiler_available() -> bool:
    """Return whether `torch.compile` finds what it needs on a CPU: a C++ compiler and the headers of Python."""
    headers = Path(sysconfig.get_path("include")) / "Python.h"
    return headers.exists() and any(shutil.which(name) for name in (os.environ.get("CXX", "g++"), "g++", "clang++"))
