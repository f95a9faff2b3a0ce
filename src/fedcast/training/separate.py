"""Train a model of its own for every user, all at once and without a server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from fedcast.data import Assignment, Dataset
from fedcast.training.algorithms import Tensors
from fedcast.training.device_data import to_device
from fedcast.training.engines import Round, Task, choose_device, choose_engine
from fedcast.training.fine_tuning import local_settings
from fedcast.training.model_checks import check_model
from fedcast.training.settings import TrainingSettings


def train_separately(
    dataset: Dataset, users: Assignment, model: nn.Module, settings: TrainingSettings, *, epochs: int, seed: int = 0
) -> Iterator[tuple[int, Tensors]]:
    """Yield each user with samples and the weights that its model has after so many local epochs.

    All start from the weights of `model`, which stays as it is. Users train in stacks, as in a round.
    """
    device = choose_device(settings.device)
    dtype = torch.float64 if settings.precision == "float64" else torch.float32
    own = check_model(model).to(device, dtype)
    labels = dataset.labels if dataset.soft_labels is None else dataset.soft_labels
    samples = to_device(dataset.inputs, labels, dataset.scale, device, dtype)
    local = replace(local_settings(settings, epochs), augmentation="none", compile="never")
    task = Task(own, samples, users, local, seed)
    weights = [weight.detach().clone() for weight in own.parameters()]
    current = Round(1, weights, local.learning_rate, {}, {})
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        for block in choose_engine(local.engine, task).local_training(np.flatnonzero(users.sizes), current):
            for row, user in enumerate(block.users.tolist()):
                yield user, [weight + change[row] for weight, change in zip(weights, block.change, strict=True)]
