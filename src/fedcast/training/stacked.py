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

from fedcast.training.algorithm import LocalRule, Tensors, local_step
from fedcast.training.batches import Batches, batches_of, steps_of
from fedcast.training.engine import BlockResult, Ints, Round, Task
from fedcast.training.stack import Forward, stacked_forward

_CPU_CACHE_BYTES = 4 * 2**20
_GPU_BYTES = 24 * 2**30
_MAX_BLOCK = 512
_PICKED_AT_ONCE = 16  # steps whose samples are gathered together on a CPU

Step = Callable[..., None]


class StackedEngine:
    """Steps a block of users at once; equal to `LoopEngine` up to rounding."""

    def __init__(self, task: Task, block: int | None = None) -> None:
        self.task = task
        # Blocks of even size, so that the last one is not mostly padding.
        blocks = -(-task.users_per_round // (block or block_size(task)))
        self.block = -(-task.users_per_round // blocks)
        step = stacked_step(stacked_forward(task.model, task.device), task.rule)
        self.step = torch.compile(step, dynamic=False) if task.compiled else step
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
        if self.buffers is None:
            self.buffers = _Buffers(task, self.step, self.block, current)
        self.buffers.start(users, plan, current)
        self.buffers.run(len(plan.samples))
        present = len(users)
        change = [weight[:present] - start for weight, start in zip(self.buffers.weights, current.weights, strict=True)]
        return BlockResult(users, change, self.buffers.losses[:present].clone(), plan.steps)


def stacked_step(forward: Forward, rule: LocalRule) -> Step:
    """One step of a block as a function of tensors alone, so that it can be compiled or recorded whole."""

    def step(
        weights: Tensors,
        momenta: Tensors,
        anchor: Tensors,
        correction: Tensors | None,
        learning_rate: Tensor,
        losses: Tensor,
        inputs: Tensor,
        labels: Tensor,
        shares: Tensor,
    ) -> None:
        def total_loss(at: Tensors) -> tuple[Tensor, Tensor]:
            logits = forward(at, inputs)
            each = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").view_as(shares)
            of_user = (each * shares).sum(1)
            return of_user.sum(), of_user

        # A user's loss depends on its own weights alone, so that the gradient of the sum is every user's own.
        gradients, of_user = torch.func.grad(total_loss, has_aux=True)(weights)
        step_size = learning_rate * (shares[:, 0] > 0)
        local_step(rule, weights, momenta, gradients, anchor, correction, step_size)
        losses.add_(of_user)

    return step


class _Buffers:
    """Tensors of one block, allocated once: CUDA graphs need fixed places, and a CPU likes warm ones."""

    def __init__(self, task: Task, step: Step, users: int, current: Round) -> None:
        device, dtype = task.device, task.data.dtype
        self.task, self.step = task, step
        self.weights = [torch.empty(users, *weight.shape, dtype=dtype, device=device) for weight in current.weights]
        self.momenta = [torch.zeros_like(weight) for weight in self.weights] if task.rule.momentum else []
        self.correction = [torch.zeros_like(weight) for weight in self.weights] if current.control else None
        self.anchor = [torch.empty_like(weight) for weight in current.weights]
        self.losses = torch.zeros(users, dtype=torch.float64, device=device)
        self.learning_rate = torch.zeros((), dtype=dtype, device=device)
        longest = int(steps_of(task.users.sizes, task.batch_size, task.epochs).max())
        self.samples = torch.zeros(longest, users, task.batch_size, dtype=torch.int64, device=device)
        self.shares = torch.zeros(longest, users, task.batch_size, dtype=dtype, device=device)
        self.position = torch.zeros(1, dtype=torch.int64, device=device)
        self.graph: torch.cuda.CUDAGraph | None = None

    def start(self, users: Ints, plan: Batches, current: Round) -> None:
        """Set everything to the start of a round."""
        if self.task.device.type == "cuda" and self.graph is None:
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

    def run(self, steps: int) -> None:
        """Take that many steps."""
        if self.graph is not None:
            for _ in range(steps):
                self.graph.replay()
            return
        for start in range(0, steps, _PICKED_AT_ONCE):
            chunk = slice(start, min(start + _PICKED_AT_ONCE, steps))
            inputs, labels = self.task.data.pick(self.samples[chunk])
            for batch in zip(inputs, labels, self.shares[chunk], strict=True):
                self._step(*batch)

    def _step(self, inputs: Tensor, labels: Tensor, shares: Tensor) -> None:
        fixed = (self.weights, self.momenta, self.anchor, self.correction, self.learning_rate, self.losses)
        self.step(*fixed, inputs, labels, shares)

    def _step_at_position(self) -> None:
        """A step whose batch is looked up on the device, which counts along."""
        inputs, labels = self.task.data.pick(self.samples.index_select(0, self.position)[0])
        self._step(inputs, labels, self.shares.index_select(0, self.position)[0])
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
