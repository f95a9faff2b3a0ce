"""Models of single users: trained without a server, or fine-tuned on own samples after the last round, with scores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from fedcast.data import Assignment, Dataset
from fedcast.errors import FedcastError
from fedcast.random import stream_key
from fedcast.training.algorithms import Tensors
from fedcast.training.device_data import DeviceData, score, training_data
from fedcast.training.engines import Round, Task, choose_device, choose_engine
from fedcast.training.model_checks import check_model
from fedcast.training.settings import TrainingSettings
from fedcast.typing import Ints

if TYPE_CHECKING:
    from fedcast.training.trainer import Federation


def train_separately(
    dataset: Dataset, users: Assignment, model: nn.Module, settings: TrainingSettings, *, epochs: int, seed: int = 0
) -> Iterator[tuple[int, Tensors]]:
    """Yield each user with samples and the weights that its model has after so many local epochs.

    All start from the weights of `model`, which stays as it is. Users train in stacks, as in a round.
    """
    device = choose_device(settings.device)
    local = replace(local_settings(settings, epochs), augmentation="none", compile="never")
    samples = training_data(dataset, local, device)
    own = check_model(model).to(device, samples.dtype)
    weights = [weight.detach().clone() for weight in own.parameters()]
    current = Round(1, weights, local.learning_rate, {}, {})
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield from _trained(Task(own, samples, users, local, seed), current)


def _trained(task: Task, current: Round) -> Iterator[tuple[int, Tensors]]:
    """Yield each user with samples and its weights after local training."""
    users = np.flatnonzero(task.users.sizes)
    for block in choose_engine(task.settings.engine, task).local_training(users, current) if len(users) else ():
        for row, user in enumerate(block.users.tolist()):
            yield user, [weight + change[row] for weight, change in zip(current.weights, block.change, strict=True)]


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
        rate = settings.rate_in(settings.rounds)
    torch.manual_seed(int(stream_key(task.seed, "fine-tuning")))  # for models that draw, as dropout does
    current = Round(settings.rounds + 1, weights, rate, {}, {})
    own: list[float | None] = [None] * tuning.users.num_users
    overall = own.copy()
    for user, moved in _trained(tuning, current):
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
    return replace(
        settings, algorithm="fedavg", options=None, server_optimizer="none", server_learning_rate=1.0,
        participation=1.0, over_selection=0.0, deadline_s=None, buffer_size=None, concurrency=None, local_epochs=epochs,
    )  # fmt: skip


def _check_finite(user: int, weights: Tensors, rate: float) -> None:
    if not all(bool(weight.isfinite().all()) for weight in weights):
        raise FedcastError(
            f"fine-tuning diverged at user {user}: its weights are not finite; lower training.fine_tune_learning_rate "
            f"(here {rate:g}) or set training.clip_norm"
        )
