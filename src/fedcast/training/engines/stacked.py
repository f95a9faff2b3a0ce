"""The fast engine: the weights of many users stacked, one step for all of them.

A place in the stack is a lane, in which one user trains after another (`schedule`), so that large users do not delay
small ones. A block of users has as many lanes as fit the cache (CPU) or the memory (GPU), or fewer if these suffice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fedcast.training.algorithms import Tensors, per_user
from fedcast.training.engines.engine_protocol import (
    BlockResult,
    Round,
    Task,
    activation_bytes,
    multiplications,
    one_sample,
    weight_bytes,
)
from fedcast.training.engines.forward import Forward, stacked_forward
from fedcast.training.engines.lane_buffers import LaneBuffers, longest_block
from fedcast.training.engines.schedule import Lanes, fill_lanes, rounded_lanes, steps_of, useful_lanes
from fedcast.training.model_checks import first_line
from fedcast.training.settings import TrainingSettings
from fedcast.typing import Ints

# What one core's second-level cache holds, and a sixth of the memory of a large GPU, which several runs may share.
_CPU_CACHE_BYTES = 4 * 2**20
_GPU_BYTES = 24 * 2**30
# Changes wait for the end of their block; on a CPU a block of a few cache sizes is soon written and read again.
_CHANGE_BYTES = {"cpu": 16 * 2**20, "cuda": 16 * 2**30}
_MOST_USERS = 512
# Multiplications of a forward pass that keep a GPU busy: those of 512 images in VGG-16, measured on an H200.
_FILLS_A_GPU = 1.6e11
_CLIP_EPSILON = 1e-6  # as in torch.nn.utils.clip_grad_norm_

Step = Callable[..., None]

_log = logging.getLogger(__name__)


class StackedEngine:
    """Steps many users at once; equal to `LoopEngine` up to rounding."""

    def __init__(self, task: Task) -> None:
        self.task = task
        most = most_lanes(task)
        self.block = users_of_block(task, most)
        self.most = min(most, self.block)
        self.filling = min(self.most, filling_lanes(task))
        sample, bfloat16 = one_sample(task.model, task.data), task.settings.precision == "bf16"
        step = stacked_step(stacked_forward(task.model, task.device, sample, bfloat16=bfloat16), task)
        self.step = compiled(step) if task.compiled else step
        self.last: tuple[Ints, Lanes] | None = None
        self.buffers: LaneBuffers | None = None

    def local_training(self, users: Ints, current: Round) -> Iterator[BlockResult]:
        """Train users block by block, those with the most steps first."""
        task, settings = self.task, self.task.settings
        steps = steps_of(task.users.sizes[users], settings.batch_size, settings.local_epochs)
        order = np.argsort(-steps, kind="stable")
        everybody = len(users) == np.count_nonzero(task.users.sizes)
        for start in range(0, len(order), self.block):
            some = order[start : start + self.block]
            if self.buffers is None:
                longest = longest_block(task, self.filling, self.block)
                self.buffers = LaneBuffers(task, self.step, self.most, longest, current)
            change, losses = self.buffers.run(users[some], self._lanes(steps[some], everybody=everybody), current)
            yield BlockResult(users[some], change, losses, steps[some])

    def _lanes(self, steps: Ints, *, everybody: bool) -> Lanes:
        """Return the lanes of a block; blocks with the same steps as the block before share them."""
        if self.last is None or not np.array_equal(self.last[0], steps):
            self.last = steps, fill_lanes(steps, self._count(steps, everybody=everybody))
        return self.last[1]

    def _count(self, steps: Ints, *, everybody: bool) -> int:
        """Return the number of lanes of a block.

        Steps are recorded or compiled for each number, so it is rounded if other users take part in every round. One
        that was used before is not preferred: dropout draws lane by lane, and must not depend on earlier rounds.
        """
        if self.task.device.type == "cpu" and not self.task.compiled:
            return useful_lanes(steps, self.most, self.filling)
        return rounded_lanes(steps, self.most, self.filling, always=not everybody)


def stacked_step(forward: Forward, task: Task) -> Step:
    """Return one step of a block as a function of tensors alone, so that it can be compiled or recorded."""
    update, eager = local_update(task.settings), task.device.type == "cpu" and not task.compiled

    def step(
        weights: Tensors,
        momenta: Tensors,
        start: Tensors,
        context: Tensors,
        learning_rate: Tensor,
        losses: Tensor,
        inputs: Tensor,
        labels: Tensor,
        shares: Tensor,
    ) -> None:
        def total_loss(at: Tensors) -> tuple[Tensor, Tensor]:
            with task.arithmetic():
                logits = forward(at, inputs).to(shares.dtype)
            each = F.cross_entropy(logits.flatten(0, 1), labels.flatten(0, 1), reduction="none").view_as(shares)
            of_user = (each * shares).sum(1)
            return of_user.sum(), of_user

        # A user's loss depends on its own weights alone, so that the gradient of the sum is every user's own.
        gradients, of_user = (_eager_grad(total_loss) if eager else torch.func.grad(total_loss, has_aux=True))(weights)
        update(weights, momenta, gradients, start, context, learning_rate * (shares[:, 0] > 0))
        losses.add_(of_user)

    return step


def _eager_grad(function: Callable[[Tensors], tuple[Tensor, Tensor]]) -> Callable[[Tensors], tuple[Tensors, Tensor]]:
    """Return ``torch.func.grad(function, has_aux=True)`` that does not import PyTorch's compiler, which takes 1.5 s."""

    def gradient(at: Tensors) -> tuple[Tensors, Tensor]:
        with torch.enable_grad():
            leaves = [tensor.detach().requires_grad_() for tensor in at]
            value, beside = function(leaves)
        return list(torch.autograd.grad(value, leaves, materialize_grads=True)), beside.detach()

    return gradient


def local_update(settings: TrainingSettings) -> Step:
    """Return the SGD step of U users as a function that changes weights and momenta in place.

    Its arguments are weights, momenta (empty without momentum) and gradients, [U, ...] each, the round's first weights,
    what the algorithm reads (context) and the step size of each user, [U]; 0 for a user that has no more batches.
    """
    algorithm, options = settings.implementation, settings.options

    def update(
        weights: Tensors, momenta: Tensors, gradients: Tensors, start: Tensors, context: Tensors, step_size: Tensor
    ) -> None:
        # Gradients never change in place: two weights that are only ever added (the biases of an LSTM) share one.
        if settings.clip_norm is not None:
            gradients = _clipped(gradients, settings.clip_norm)
        if algorithm.local_gradients is not None:
            gradients = algorithm.local_gradients(options, gradients, weights, start, context)
        for factor, terms in algorithm.local_terms(options, weights, start, context) if algorithm.local_terms else ():
            gradients = [gradient.add(term, alpha=factor) for gradient, term in zip(gradients, terms, strict=True)]
        for index, gradient in enumerate(gradients):
            if settings.weight_decay:
                gradient = gradient.add(weights[index], alpha=settings.weight_decay)
            if settings.momentum:
                # A user without a batch must keep its momentum, which plain decay would shrink.
                active = per_user((step_size != 0).to(gradient.dtype), gradient)
                momenta[index].mul_(1 - active * (1 - settings.momentum)).add_(gradient * active)
                gradient = momenta[index]
            weights[index].sub_(gradient * per_user(step_size, gradient))

    return update


def _clipped(gradients: Tensors, most: float) -> Tensors:
    squares = [gradient.reshape(len(gradient), -1).square().sum(1) for gradient in gradients]
    factor = (most / (torch.stack(squares).sum(0).sqrt() + _CLIP_EPSILON)).clamp(max=1.0)
    return [gradient * per_user(factor, gradient) for gradient in gradients]


def compiled(step: Step) -> Step:
    """Return the step compiled; if compiling fails, a warning is logged and the step is run as it is."""
    run, worked = torch.compile(step, dynamic=False), False

    def either(*arguments: Any) -> None:
        nonlocal run, worked
        try:
            run(*arguments)
        except Exception as error:
            if worked:
                raise
            _log.warning("compiling the training step failed, it runs uncompiled: %s", first_line(error))
            run = step
            step(*arguments)
        worked = True

    return either


def users_of_block(task: Task, lanes: int) -> int:
    """Return how many users form a block: blocks of even size whose changes fit the memory."""
    room = _CHANGE_BYTES[task.device.type] // weight_bytes(task.model)
    blocks = -(-task.users_per_round // max(lanes, min(_MOST_USERS, room)))
    return -(-task.users_per_round // blocks)


def most_lanes(task: Task) -> int:
    """Return how many users can step together: activations must fit a CPU's cache or a share of a GPU's memory."""
    room = _GPU_BYTES if task.device.type == "cuda" else _CPU_CACHE_BYTES
    bytes_per_user = task.settings.batch_size * activation_bytes(task.model, task.data)
    if task.device.type == "cuda":
        bytes_per_user += 4 * weight_bytes(task.model)
    return max(1, min(_MOST_USERS, room // bytes_per_user))


def filling_lanes(task: Task) -> int:
    """Return with how many lanes a step keeps the device busy; a CPU is kept busy by what fits its cache."""
    if task.device.type == "cpu":
        return _MOST_USERS
    # Own models may multiply where it is not seen.
    each = task.settings.batch_size * max(1, multiplications(task.model, task.data))
    return max(1, min(_MOST_USERS, round(_FILLS_A_GPU / each)))
