"""Values that the trainer and the engines exchange: the task and its size, the round, results of users, their sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from fedcast.data import Assignment
from fedcast.training.algorithms import State, Tensors, weighted_sum, zeros_like
from fedcast.training.device_data import VIEWS, DeviceData
from fedcast.training.engines.schedule import Lanes, batches_of
from fedcast.training.lstm import LSTM
from fedcast.training.settings import TrainingSettings
from fedcast.typing import Floats, Ints

# Values that the steps of an LSTM keep for the backward pass, for each of its states: gates, cells and states.
_KEPT_OF_A_STATE = 6


@dataclass(frozen=True)
class Task:
    """Settings that are the same in all rounds; engines read the layers of the model, never its weights."""

    model: nn.Module
    data: DeviceData
    users: Assignment
    settings: TrainingSettings
    seed: int
    compiled: bool = False

    @property
    def device(self) -> torch.device:
        """The device that holds model and data."""
        return self.data.labels.device

    @property
    def users_per_round(self) -> int:
        """The most users that train at once in a round, or for an asynchronous step."""
        able, attendance = int(np.count_nonzero(self.users.sizes)), self.settings.attendance
        return min(attendance.needed(able), attendance.buffer_size or able)

    def batches(self, users: Ints, round_number: int, lanes: Lanes | None = None) -> tuple[Ints, Floats]:
        """Return the batches of some users in a round, as `batches_of` does."""
        size, epochs = self.settings.batch_size, self.settings.local_epochs
        drawn = {"seed": self.seed, "round_number": round_number, "views": VIEWS[self.settings.augmentation]}
        return batches_of(self.users, users, size, epochs, **drawn, num_samples=len(self.data), lanes=lanes)

    def arithmetic(self) -> AbstractContextManager[object]:
        """Return the context of a forward pass: with bf16 layers multiply in bfloat16, weights stay as they are."""
        if self.settings.precision != "bf16":
            return nullcontext()
        # A cache of converted weights would outlive the step they belong to.
        return torch.autocast(self.device.type, torch.bfloat16, cache_enabled=False)


@dataclass(frozen=True)
class Round:
    """Inputs of one round: weights and state of the server, and states of all users, [K, ...] each."""

    number: int
    weights: Tensors
    learning_rate: float
    server: State
    users: State

    def context(self, task: Task, users: Tensor) -> Tensors:
        """Return what the algorithm's local steps of these users read, [U, ...] each."""
        settings = task.settings
        if settings.implementation.local_context is None:
            return []
        return settings.implementation.local_context(settings.options, self.server, rows_of(self.users, users))


def rows_of(states: State, users: Tensor) -> State:
    """Return the states of some users, [U, ...] from [K, ...]."""
    return {name: [tensor[users] for tensor in tensors] for name, tensors in states.items()}


@dataclass(frozen=True)
class BlockResult:
    """Results of a block of users: w_k − w, [U, ...] each, and sums of the losses of its steps, [U]."""

    users: Ints
    change: Tensors
    losses: Tensor
    steps: Ints


class Aggregate:
    """The running sums of a round."""

    def __init__(self, like: Tensors) -> None:
        self.mean = zeros_like(like)
        self.sums: State = {}
        self.squares, self.loss = (torch.zeros((), dtype=torch.float64, device=like[0].device) for _ in range(2))
        self.steps = 0

    def add(self, block: BlockResult, shares: Tensor) -> None:
        """Add a block of users, each with its share in the mean."""
        for mean, moved, part in zip(self.mean, block.change, weighted_sum(shares, block.change), strict=True):
            mean += part
            norms = torch.linalg.vector_norm(moved.reshape(len(moved), -1), dim=1)
            self.squares += (shares * norms.double().square()).sum()
        self.loss += block.losses.sum()
        self.steps += int(block.steps.sum())

    def add_sums(self, sums: State) -> None:
        """Add the algorithm's sums over a block."""
        for name, tensors in sums.items():
            for total, tensor in zip(self.sums.setdefault(name, zeros_like(tensors)), tensors, strict=True):
                total += tensor

    def drift(self) -> float:
        """Return √Σ_k p_k ‖w_k − w̄‖², by Σ p_k‖w_k − w‖² − ‖w̄ − w‖²."""
        mean_square = sum(float(torch.linalg.vector_norm(moved)) ** 2 for moved in self.mean)
        return float(max(float(self.squares) - mean_square, 0.0) ** 0.5)


class Engine(Protocol):
    """Trains users locally; the caller adds up blocks as they come, so that no list of models is held in memory."""

    def local_training(self, users: Ints, current: Round) -> Iterator[BlockResult]:
        """Train every user once, in an order that depends on the arguments alone."""
        ...


def weight_bytes(model: nn.Module) -> int:
    """Return the bytes of the model's weights."""
    return sum(weight.numel() * weight.element_size() for weight in model.parameters())


def activation_bytes(model: nn.Module, data: DeviceData) -> int:
    """Return the bytes of all layers' outputs for one sample; on a GPU including what the backward pass keeps."""
    on_gpu = data.labels.device.type == "cuda"

    def values(layer: nn.Module, output: Tensor) -> int:
        if isinstance(layer, nn.Conv2d) and on_gpu:
            patch = layer.in_channels * layer.kernel_size[0] * layer.kernel_size[1]
            return output.numel() + patch * output[0, 0].numel()
        kept = _KEPT_OF_A_STATE * layer.num_layers if isinstance(layer, LSTM) and on_gpu else 0
        return (1 + kept) * output.numel()

    return max(_sum_over_layers(model, data, values), 1) * data.dtype.itemsize


def multiplications(model: nn.Module, data: DeviceData) -> int:
    """Return the multiplications of a forward pass of one sample: each weight times the places where it is used."""

    def products(layer: nn.Module, output: Tensor) -> int:
        weights = sum(weight.numel() for weight in layer.parameters(recurse=False) if weight.dim() > 1)
        if isinstance(layer, nn.Conv2d | nn.Linear):
            return weights * output.numel() // layer.weight.shape[0]
        if isinstance(layer, LSTM):
            return weights * output.shape[-2]
        return 0 if isinstance(layer, nn.Embedding) else weights

    return _sum_over_layers(model, data, products)


def _sum_over_layers(model: nn.Module, data: DeviceData, count: Callable[[nn.Module, Tensor], int]) -> int:
    """Run the model on one sample and add up a count of the outputs of every layer."""
    counts: list[int] = []

    def show(layer: nn.Module, _: object, output: object) -> None:
        counts.extend(count(layer, tensor) for tensor in _tensors(output))

    hooks = [layer.register_forward_hook(show) for layer in model.modules() if not list(layer.children())]
    try:
        with torch.no_grad():
            model(one_sample(model, data))
    finally:
        for hook in hooks:
            hook.remove()
    return sum(counts)


def one_sample(model: nn.Module, data: DeviceData) -> Tensor:
    """Return the first sample, [1, ...], in the model's dtype and on its device."""
    sample, _ = data.pick(torch.zeros(1, dtype=torch.int64, device=data.labels.device))
    weight = next(model.parameters())
    return sample.to(weight.device, weight.dtype if sample.is_floating_point() else None)


def _tensors(output: object) -> Iterator[Tensor]:
    if isinstance(output, Tensor):
        yield output
    elif isinstance(output, tuple | list):
        for part in output:
            yield from _tensors(part)
