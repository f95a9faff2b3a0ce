"""The fast engine: the weights of many users stacked, one step for all of them.

Users are sorted by their number of steps and taken in blocks that fit the cache (CPU) or the memory (GPU). A user with
fewer steps or a smaller last batch is masked. On a GPU the step is recorded once as a CUDA graph and replayed; it reads
its batch numbers from a table on the device, so that nothing crosses from the host while a block runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fedcast.training.algorithm import Tensors, local_step
from fedcast.training.batches import Batches, batches_of, steps_of
from fedcast.training.engine import BlockResult, Ints, Round, Task
from fedcast.training.stack import stacked_forward

_CPU_CACHE_BYTES = 4 * 2**20
_GPU_BYTES = 24 * 2**30
_MAX_BLOCK = 512


class StackedEngine:
    """Steps a block of users at once; equal to `LoopEngine` up to rounding."""

    def __init__(self, task: Task, block: int | None = None) -> None:
        self.task = task
        num_users = int(np.count_nonzero(task.users.sizes))
        self.block = max(1, min(block or block_size(task), num_users))
        self.forward = stacked_forward(task.model, task.device)
        self.gradients = _compiled(self._gradients) if task.compiled else self._gradients
        self.buffers: _Buffers | None = None

    def local_training(self, users: Ints, current: Round) -> Iterator[BlockResult]:
        """Train users block by block, those with the most steps first."""
        task = self.task
        steps = steps_of(task.users.sizes[users], task.batch_size, task.epochs)
        ordered = users[np.argsort(-steps, kind="stable")]
        for start in range(0, len(ordered), self.block):
            yield self._train(ordered[start : start + self.block], current)

    def _train(self, users: Ints, current: Round) -> BlockResult:
        task = self.task
        plan = batches_of(task.users, users, task.batch_size, task.epochs, seed=task.seed, round_number=current.number)
        buffers = self._filled(users, plan, current)
        for step in range(len(plan.samples)):
            buffers.advance(step)
        present = len(users)
        change = [weight[:present] - start for weight, start in zip(buffers.weights, current.weights, strict=True)]
        return BlockResult(users, change, buffers.losses[:present].clone(), plan.steps)

    def _filled(self, users: Ints, plan: Batches, current: Round) -> _Buffers:
        """The block's tensors, set to the start of a round. Users missing in the last block have no batches."""
        if self.buffers is None:
            self.buffers = _Buffers(self, current)
        self.buffers.start(users, plan, current)
        return self.buffers

    def step(self, buffers: _Buffers, samples: Tensor, shares: Tensor) -> None:
        """One step of the block: samples and their shares of a batch, both [U, B]."""
        inputs, labels = self.task.data.pick(samples)
        losses, gradients = self.gradients(buffers.weights, inputs, labels, shares)
        with torch.no_grad():
            step_size = buffers.learning_rate * (shares[:, 0] > 0)
            local_step(
                self.task.rule,
                buffers.weights,
                buffers.momenta,
                gradients,
                buffers.anchor,
                buffers.correction,
                step_size,
            )
            buffers.losses += losses

    def _gradients(self, weights: Tensors, inputs: Tensor, labels: Tensor, shares: Tensor) -> tuple[Tensor, Tensors]:
        leaves = [weight.detach().requires_grad_() for weight in weights]
        logits = self.forward(leaves, inputs)
        each = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").view_as(shares)
        losses = (each * shares).sum(1)
        gradients = torch.autograd.grad(losses.sum(), leaves)
        return losses.detach(), list(gradients)


class _Buffers:
    """Tensors of one block, allocated once: CUDA graphs need fixed places, and a CPU likes warm ones."""

    def __init__(self, engine: StackedEngine, current: Round) -> None:
        task, users = engine.task, engine.block
        self.engine = engine
        self.weights = [
            torch.empty(users, *weight.shape, dtype=weight.dtype, device=task.device) for weight in current.weights
        ]
        self.momenta = [torch.zeros_like(weight) for weight in self.weights] if task.rule.momentum else []
        self.correction = [torch.zeros_like(weight) for weight in self.weights] if current.control else None
        self.anchor = [torch.empty_like(weight) for weight in current.weights]
        self.losses = torch.zeros(users, dtype=torch.float64, device=task.device)
        self.learning_rate = torch.zeros((), dtype=task.data.dtype, device=task.device)
        longest = int(steps_of(task.users.sizes, task.batch_size, task.epochs).max())
        self.samples = torch.zeros(longest, users, task.batch_size, dtype=torch.int64, device=task.device)
        self.shares = torch.zeros(longest, users, task.batch_size, dtype=task.data.dtype, device=task.device)
        self.position = torch.zeros(1, dtype=torch.int64, device=task.device)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.on_gpu = task.device.type == "cuda"

    def start(self, users: Ints, plan: Batches, current: Round) -> None:
        """Set everything to the start of a round."""
        if self.on_gpu and self.graph is None:
            self._record()
        for index, start in enumerate(current.weights):
            self.anchor[index].copy_(start)
            self.weights[index].copy_(start.expand_as(self.weights[index]))
        for momentum in self.momenta:
            momentum.zero_()
        if self.correction is not None:
            for index, control in enumerate(current.control):
                own = current.user_controls[index][torch.from_numpy(users).to(control.device)]
                self.correction[index][: len(users)] = control - own
        self.losses.zero_()
        self.learning_rate.fill_(current.learning_rate)
        length, present, _ = plan.samples.shape
        self.shares[:length].zero_()
        self.samples[:length, :present] = torch.from_numpy(plan.samples).to(self.samples.device, non_blocking=True)
        self.shares[:length, :present] = torch.from_numpy(plan.weights).to(self.shares)
        self.position.zero_()

    def advance(self, step: int) -> None:
        """Take one step."""
        if self.graph is not None:
            self.graph.replay()
        else:
            self.engine.step(self, self.samples[step], self.shares[step])

    def _step_at_position(self) -> None:
        samples = self.samples.index_select(0, self.position)[0]
        shares = self.shares.index_select(0, self.position)[0]
        self.engine.step(self, samples, shares)
        self.position += 1

    def _record(self) -> None:
        """Record one step as a CUDA graph, after warm-up steps on a side stream as PyTorch asks for."""
        for weight in (*self.weights, *self.anchor):
            weight.zero_()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.position.zero_()
                self._step_at_position()
        torch.cuda.current_stream().wait_stream(side)
        self.position.zero_()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._step_at_position()


def block_size(task: Task) -> int:
    """Users stepped together: as many as the cache of a CPU or a share of a GPU's memory holds activations for."""
    room = _GPU_BYTES if task.device.type == "cuda" else _CPU_CACHE_BYTES
    per_user = task.batch_size * activation_bytes(task)
    if task.device.type == "cuda":
        per_user += 4 * sum(weight.numel() * weight.element_size() for weight in task.model.parameters())
    return max(1, min(_MAX_BLOCK, room // per_user))


def activation_bytes(task: Task) -> int:
    """Bytes of all layers' outputs for one sample; on a GPU with the patches of its convolutions."""
    total = 0

    def count(module: torch.nn.Module, inputs: Any, output: Tensor) -> None:
        nonlocal total
        values = output.numel()
        if isinstance(module, torch.nn.Conv2d) and task.device.type == "cuda":
            values += inputs[0].shape[1] * module.kernel_size[0] * module.kernel_size[1] * output[0, 0].numel()
        total += values * task.data.dtype.itemsize

    leaves = [module for module in task.model.modules() if not list(module.children())]
    hooks = [module.register_forward_hook(count) for module in leaves]
    try:
        sample, _ = task.data.pick(torch.zeros(1, dtype=torch.int64, device=task.device))
        with torch.no_grad():
            weight = next(task.model.parameters())
            task.model(sample.to(weight.device, weight.dtype if sample.is_floating_point() else None))
    finally:
        for hook in hooks:
            hook.remove()
    return max(total, 1)


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    compiled: Callable[..., Any] = torch.compile(function, dynamic=False)
    return compiled
