"""Scores of each user after training, and personalisation: users fine-tune the model on their own samples."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from fedcast.data import Assignment
from fedcast.errors import FedcastError
from fedcast.random import stream_key
from fedcast.training.algorithms import Tensors
from fedcast.training.device_data import DeviceData, score
from fedcast.training.engines import Round, Task, choose_engine
from fedcast.training.settings import TrainingSettings
from fedcast.typing import Ints

if TYPE_CHECKING:
    from fedcast.training.trainer import Federation


def user_columns(
    task: Task, weights: Tensors, test: DeviceData, federation: Federation
) -> dict[str, list[float | None]]:
    """Return the accuracy of each user, also after it fine-tunes the weights if it does; see `History.users`."""
    own = federation.own_accuracies(score(task.model, weights, test, federation.dataset.num_classes))
    known = [float(value) if size else None for value, size in zip(own, federation.own_sizes, strict=True)]
    found: dict[str, list[float | None]] = {"own_accuracy": known}
    return found | _fine_tuned(task, weights, test, federation) if task.settings.fine_tune_epochs else found


def _fine_tuned(
    task: Task, weights: Tensors, test: DeviceData, federation: Federation
) -> dict[str, list[float | None]]:
    """Let every user fine-tune the weights, and score its model on its own distribution and on the test set.

    Fine-tuning is local SGD on the samples that the user held before sharing, whatever the algorithm of training, with
    the batches of the round after the last one.
    """
    local = local_settings(task.settings, task.settings.fine_tune_epochs)
    tuning = replace(task, users=_own_samples(federation), settings=local, compiled=False)
    settings, rate = task.settings, task.settings.fine_tune_learning_rate
    if rate is None:
        rate = settings.learning_rate * settings.learning_rate_decay ** (settings.rounds - 1)
    torch.manual_seed(int(stream_key(task.seed, "fine-tuning")))  # for models that draw, as dropout does
    current = Round(settings.rounds + 1, weights, rate, {}, {})
    own: list[float | None] = [None] * tuning.users.num_users
    overall = own.copy()
    users = np.flatnonzero(tuning.users.sizes)
    for block in choose_engine(settings.engine, tuning).local_training(users, current) if len(users) else ():
        for row, user in enumerate(block.users.tolist()):
            moved = [weight + change[row] for weight, change in zip(weights, block.change, strict=True)]
            _check_finite(user, moved, rate)
            found = score(task.model, moved, test, federation.dataset.num_classes)
            own[user], overall[user] = float(federation.own_accuracies(found)[user]), found.accuracy
    return {"fine_tuned_own_accuracy": own, "fine_tuned_accuracy": overall}


def _own_samples(federation: Federation) -> Assignment:
    """Return the samples of each user before sharing, which come first; none of users that do not train."""
    users = federation.users
    sizes: Ints = np.minimum(federation.own_sizes, users.sizes)
    held = [users.of(user)[:size] for user, size in enumerate(sizes.tolist())]
    return Assignment(np.concatenate(held), np.concatenate([[0], np.cumsum(sizes)]))


def local_settings(settings: TrainingSettings, epochs: int) -> TrainingSettings:
    """Return the settings of plain local SGD of all users for so many epochs."""
    plain = replace(settings, algorithm="fedavg", options=None, server_optimizer="none", server_learning_rate=1.0)
    everyone = replace(
        plain, participation=1.0, over_selection=0.0, deadline_s=None, buffer_size=None, concurrency=None
    )
    return replace(everyone, local_epochs=epochs)


def _check_finite(user: int, weights: Tensors, rate: float) -> None:
    if not all(bool(weight.isfinite().all()) for weight in weights):
        raise FedcastError(
            f"fine-tuning diverged at user {user}: its weights are not finite; lower training.fine_tune_learning_rate "
            f"(here {rate:g}) or set training.clip_norm"
        )
