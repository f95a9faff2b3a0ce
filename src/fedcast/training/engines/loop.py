"""The plain engine: one user after another, one batch after another, with `torch.optim.SGD`. Read this one first."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F

from fedcast.training.algorithms import Tensors
from fedcast.training.engines.engine_protocol import BlockResult, Round, Task
from fedcast.training.model_checks import with_weights
from fedcast.typing import Ints


class LoopEngine:
    """Federated learning as textbooks write it; the reference for `StackedEngine`."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.model = copy.deepcopy(task.model).to(task.device, task.data.dtype)

    def local_training(self, users: Ints, current: Round) -> Iterator[BlockResult]:
        """Train each user from the round's weights."""
        for user in users:
            yield self._train(int(user), current)

    def _train(self, user: int, current: Round) -> BlockResult:
        task, settings = self.task, self.task.settings
        weights = list(with_weights(self.model, current.weights).parameters())
        optimizer = torch.optim.SGD(
            weights, current.learning_rate, momentum=settings.momentum, weight_decay=settings.weight_decay
        )
        context = current.context(task, torch.tensor([user], device=task.device))
        batches = [part[:, 0] for part in task.batches(np.array([user]), current.number)]
        total_loss = torch.zeros((), dtype=torch.float64, device=task.device)
        for samples, share in zip(*batches, strict=True):
            inputs, labels = task.data.pick(torch.from_numpy(samples[share > 0]).to(task.device))
            optimizer.zero_grad()
            with task.arithmetic():
                logits = self.model(inputs)
            loss = F.cross_entropy(logits.to(task.data.dtype), labels)
            loss.backward()
            if settings.clip_norm is not None:
                torch.nn.utils.clip_grad_norm_(weights, settings.clip_norm)
            self._apply_algorithm(current.weights, context)
            optimizer.step()
            total_loss += loss.detach()
        with torch.no_grad():
            change = [(weight - start)[None] for weight, start in zip(weights, current.weights, strict=True)]
        return BlockResult(np.array([user]), change, total_loss[None], np.array([len(batches[0])]))

    @torch.no_grad()
    def _apply_algorithm(self, start: Tensors, context: Tensors) -> None:
        """Change the gradients as the algorithm asks for, as those of a block of one user."""
        algorithm, options = self.task.settings.implementation, self.task.settings.options
        parameters = list(self.model.parameters())
        for weight in parameters:
            if weight.grad is None:  # not used by the model
                weight.grad = torch.zeros_like(weight)
        weights = [weight.detach()[None] for weight in parameters]
        if algorithm.local_gradients is not None:
            gradients = [weight.grad[None] for weight in parameters if weight.grad is not None]
            replaced = algorithm.local_gradients(options, gradients, weights, start, context)
            for weight, gradient in zip(parameters, replaced, strict=True):
                weight.grad = gradient[0].clone()
        if algorithm.local_terms is not None:
            for factor, terms in algorithm.local_terms(options, weights, start, context):
                for weight, term in zip(parameters, terms, strict=True):
                    assert weight.grad is not None
                    weight.grad += factor * term[0]
