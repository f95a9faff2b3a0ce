"""What every engine does: local training of some users from the same weights, one block of users after another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from fedcast.data import Assignment
from fedcast.training.algorithm import LocalRule, Tensors
from fedcast.training.device_data import DeviceData
from fedcast.typing import Ints


@dataclass(frozen=True)
class Task:
    """What stays the same over all rounds.

    Attributes:
        model: whose weights are trained; engines read its layers, never its weights.
        data: all training samples, on the device.
        users: who trains on what.
        rule: the local update.
        batch_size: samples of a step.
        epochs: passes of a round.
        seed: of the batches.
        users_per_round: the most users that train in a round.
        compiled: whether the step is compiled.
        bfloat16: whether layers multiply in it; weights and their updates stay as they are.
    """

    model: nn.Module
    data: DeviceData
    users: Assignment
    rule: LocalRule
    batch_size: int
    epochs: int
    seed: int
    users_per_round: int
    compiled: bool = False
    bfloat16: bool = False

    @property
    def device(self) -> torch.device:
        """Where everything is."""
        return self.data.labels.device

    def arithmetic(self) -> AbstractContextManager[object]:
        """In which a forward pass is computed."""
        # A cache of converted weights would outlive the step they belong to.
        return torch.autocast(self.device.type, torch.bfloat16, cache_enabled=False) if self.bfloat16 else nullcontext()


@dataclass(frozen=True)
class Round:
    """What changes from round to round.

    Attributes:
        number: counted from 1.
        weights: of the server, in the order of ``model.parameters()``.
        learning_rate: local.
        control: SCAFFOLD's c, or empty.
        user_controls: SCAFFOLD's c_k of all users, [K, ...] each, or empty.
    """

    number: int
    weights: Tensors
    learning_rate: float
    control: Tensors
    user_controls: Tensors


@dataclass(frozen=True)
class BlockResult:
    """What a block of users sends back.

    Attributes:
        users: int64[U].
        change: w_k − w, [U, ...] each.
        losses: [U], sum over a user's steps of its batch loss.
        steps: int64[U].
    """

    users: Ints
    change: Tensors
    losses: Tensor
    steps: Ints


class Engine(Protocol):
    """Trains users locally; the caller sums up blocks as they come, so that no list of models is ever held."""

    def local_training(self, users: Ints, current: Round) -> Iterator[BlockResult]:
        """Every user exactly once, in an order that depends on nothing but the arguments."""
        ...
