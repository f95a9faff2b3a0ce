"""The plain engine: one user after another, one batch after another, with `torch.optim.SGD`. Read this one first."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F

from fedcast.training.batches import batches_of
from fedcast.training.engine import BlockResult, Round, Task
from fedcast.typing import Ints


class LoopEngine:
    """Federated learning as textbooks write it; the reference that `StackedEngine` is held to."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.model = copy.deepcopy(task.model).to(task.device, task.data.dtype)

    def local_training(self, users: Ints, current: Round) -> Iterator[BlockResult]:
        """Train each user from the round's weights."""
        for user in users:
            yield self._train(int(user), current)

    def _train(self, user: int, current: Round) -> BlockResult:
        task, rule = self.task, self.task.rule
        weights = list(self.model.parameters())
        with torch.no_grad():
            for weight, start in zip(weights, current.weights, strict=True):
                weight.copy_(start)
        optimizer = torch.optim.SGD(
            weights, current.learning_rate, momentum=rule.momentum, weight_decay=rule.weight_decay
        )
        plan = batches_of(
            task.users, np.array([user]), task.batch_size, task.epochs, seed=task.seed, round_number=current.number
        )
        total_loss = torch.zeros((), dtype=torch.float64, device=task.device)
        for samples, share in zip(plan.samples[:, 0], plan.weights[:, 0], strict=True):
            inputs, labels = task.data.pick(torch.from_numpy(samples[share > 0]).to(task.device))
            optimizer.zero_grad()
            with task.arithmetic():
                logits = self.model(inputs)
            loss = F.cross_entropy(logits.to(task.data.dtype), labels)
            loss.backward()
            if rule.clip_norm is not None:
                torch.nn.utils.clip_grad_norm_(weights, rule.clip_norm)
            self._correct(user, current)
            optimizer.step()
            total_loss += loss.detach()
        with torch.no_grad():
            change = [(weight - start)[None] for weight, start in zip(weights, current.weights, strict=True)]
        return BlockResult(np.array([user]), change, total_loss[None], plan.steps)

    def _correct(self, user: int, current: Round) -> None:
        for index, weight in enumerate(self.model.parameters()):
            if weight.grad is None:  # not used by the model
                weight.grad = torch.zeros_like(weight)
            if self.task.rule.prox_weight:
                weight.grad += self.task.rule.prox_weight * (weight.detach() - current.weights[index])
            if current.control:
                weight.grad += current.control[index] - current.user_controls[index][user]
