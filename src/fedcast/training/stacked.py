"""The fast engine: the weights of many users stacked, one step for all of them.

A place in the stack is a lane, in which one user trains after another (`lanes`), so that large users do not keep small
ones waiting. There are as many lanes as fit the cache (CPU) or the memory (GPU), or as are of use; a smaller last batch
is masked. On a GPU the step is recorded once as a CUDA graph and replayed; it reads its batch numbers from a table on
the device, so that nothing crosses from the host while a block of users runs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fedcast.training.algorithm import Tensors, local_step
from fedcast.training.batches import Batches, batches_of, steps_of
from fedcast.training.engine import BlockResult, Ints, Round, Task
from fedcast.training.lanes import Lanes, fill_lanes, stretches, useful_lanes
from fedcast.training.sizing import activation_bytes, weight_bytes
from fedcast.training.stack import Forward, stacked_forward

_CPU_CACHE_BYTES = 4 * 2**20
_GPU_BYTES = 24 * 2**30
_CHANGE_BYTES = {"cpu": 16 * 2**20, "cuda": 16 * 2**30}
_MOST_USERS = 512
_COMPILED_LANES = 8
_PICKED_AT_ONCE = 16  # steps whose samples are gathered together on a CPU

_log = logging.getLogger(__name__)

Step = Callable[..., None]
Place = slice | Tensor


class StackedEngine:
    """Steps many users at once; equal to `LoopEngine` up to rounding."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.block = users_of_block(task)
        steps = np.sort(steps_of(task.users.sizes, task.batch_size, task.epochs))[::-1]
        self.lanes = useful_lanes(steps[: self.block], most_lanes(task))
        if task.compiled:
            # What was compiled is kept by its shapes: runs with about as many lanes find it again.
            self.lanes = min(most_lanes(task), -(-self.lanes // _COMPILED_LANES) * _COMPILED_LANES)
        step = stacked_step(stacked_forward(task.model, task.device), task)
        self.step = compiled(step) if task.compiled else step
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
        steps = steps_of(task.users.sizes[users], task.batch_size, task.epochs)
        lanes = fill_lanes(steps, self.lanes)
        plan = batches_of(
            task.users, users, task.batch_size, task.epochs, seed=task.seed, round_number=current.number, lanes=lanes
        )
        if self.buffers is None:
            self.buffers = _Buffers(task, self.step, self.lanes, self.block, current)
        change, losses = self.buffers.run(users, lanes, plan, current)
        return BlockResult(users, change, losses, steps)


def stacked_step(forward: Forward, task: Task) -> Step:
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
            with task.arithmetic():
                logits = forward(at, inputs).to(shares.dtype)
            each = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").view_as(shares)
            of_user = (each * shares).sum(1)
            return of_user.sum(), of_user

        # A user's loss depends on its own weights alone, so that the gradient of the sum is every user's own.
        gradients, of_user = torch.func.grad(total_loss, has_aux=True)(weights)
        step_size = learning_rate * (shares[:, 0] > 0)
        local_step(task.rule, weights, momenta, gradients, anchor, correction, step_size)
        losses.add_(of_user)

    return step


def compiled(step: Step) -> Step:
    """The step compiled, or as it is if that fails: there are more ways to lack a compiler than can be asked for."""
    fast, works = torch.compile(step, dynamic=False), None

    def either(*arguments: Any) -> None:
        nonlocal works
        if works is not False:
            try:
                fast(*arguments)
            except Exception as error:
                if works:
                    raise
                _log.warning("training goes on without compiling, which failed: %s", str(error).strip().splitlines()[0])
                works = False
            else:
                works = True
                return
        step(*arguments)

    return either


@dataclass(frozen=True)
class _Stretch:
    """Steps in which every lane has the same user from the first to the last.

    Attributes:
        start: the first step.
        stop: the step after the last.
        users: who begins.
        taken: their lanes.
        rows: who ends, as places in the block.
        left: their lanes.
    """

    start: int
    stop: int
    users: Tensor
    taken: Place
    rows: Place
    left: Place


def _place(numbers: Ints, on_device: Tensor) -> Place:
    """The index, as a slice where it is one: equal users begin and end together, and slices are copied faster."""
    if len(numbers) and np.array_equal(numbers, np.arange(numbers[0], numbers[0] + len(numbers))):
        return slice(int(numbers[0]), int(numbers[-1]) + 1)
    return on_device


class _Buffers:
    """Tensors of all lanes, allocated once: CUDA graphs need fixed places, and a CPU likes warm ones."""

    def __init__(self, task: Task, step: Step, lanes: int, block: int, current: Round) -> None:
        device, dtype = task.device, task.data.dtype
        self.task, self.step = task, step
        self.weights = [torch.zeros(lanes, *weight.shape, dtype=dtype, device=device) for weight in current.weights]
        self.momenta = [torch.zeros_like(weight) for weight in self.weights] if task.rule.momentum else []
        self.correction = [torch.zeros_like(weight) for weight in self.weights] if current.control else None
        self.anchor = [torch.empty_like(weight) for weight in current.weights]
        self.losses = torch.zeros(lanes, dtype=torch.float64, device=device)
        self.learning_rate = torch.zeros((), dtype=dtype, device=device)
        length = longest_block(task, lanes, block)
        self.samples = torch.zeros(length, lanes, task.batch_size, dtype=torch.int64, device=device)
        self.shares = torch.zeros(length, lanes, task.batch_size, dtype=dtype, device=device)
        self.position = torch.zeros(1, dtype=torch.int64, device=device)
        self.graph: torch.cuda.CUDAGraph | None = None

    def run(self, users: Ints, lanes: Lanes, plan: Batches, current: Round) -> tuple[Tensors, Tensor]:
        """Train a block; what each user changed, and the sum of its losses."""
        if self.task.device.type == "cuda" and self.graph is None:
            self._record()
        self._start(plan, current)
        change = [weight.new_empty(len(users), *weight.shape[1:]) for weight in self.weights]
        losses = self.losses.new_empty(len(users))
        for stretch in self._stretches(users, lanes):
            if len(stretch.users):
                self._begin(stretch.users, stretch.taken, current)
            self._advance(stretch.start, stretch.stop)
            self._end(stretch.rows, stretch.left, change, losses)
        return change, losses

    def _start(self, plan: Batches, current: Round) -> None:
        for anchor, weight in zip(self.anchor, current.weights, strict=True):
            anchor.copy_(weight)
        self.learning_rate.fill_(current.learning_rate)
        length = len(plan.samples)
        self.samples[:length] = torch.from_numpy(plan.samples).to(self.samples.device, non_blocking=True)
        self.shares[:length] = torch.from_numpy(plan.weights).to(self.shares)
        self.position.zero_()

    def _stretches(self, users: Ints, lanes: Lanes) -> Iterator[_Stretch]:
        found = list(stretches(lanes))
        begin, end = (np.concatenate([part[place] for part in found]) for place in (2, 3))
        # Indices go to the device before the first step: a copy between steps would wait for those before it.
        on_device = [
            torch.from_numpy(it).to(self.losses.device)
            for it in (users[begin], lanes.lane[begin], end, lanes.lane[end])
        ]
        begun = ended = 0
        for start, stop, begins, ends in found:
            among, done = slice(begun, begun := begun + len(begins)), slice(ended, ended := ended + len(ends))
            yield _Stretch(
                start, stop, on_device[0][among], _place(lanes.lane[begins], on_device[1][among]),
                _place(ends, on_device[2][done]), _place(lanes.lane[ends], on_device[3][done]),
            )  # fmt: skip

    def _begin(self, users: Tensor, lanes: Place, current: Round) -> None:
        for weight, anchor in zip(self.weights, self.anchor, strict=True):
            weight[lanes] = anchor
        for momentum in self.momenta:
            momentum[lanes] = 0.0
        if self.correction is not None:
            for index, control in enumerate(current.control):
                self.correction[index][lanes] = control - current.user_controls[index][users]
        self.losses[lanes] = 0.0

    def _end(self, rows: Place, lanes: Place, change: Tensors, losses: Tensor) -> None:
        for moved, weight, anchor in zip(change, self.weights, self.anchor, strict=True):
            moved[rows] = weight[lanes] - anchor
        losses[rows] = self.losses[lanes]

    def _advance(self, start: int, stop: int) -> None:
        """Take the steps from one to another."""
        if self.graph is not None:
            for _ in range(start, stop):
                self.graph.replay()
            return
        for first in range(start, stop, _PICKED_AT_ONCE):
            chunk = slice(first, min(first + _PICKED_AT_ONCE, stop))
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


def users_of_block(task: Task) -> int:
    """Users whose changes are held at once: blocks of even size, as memory allows."""
    room = _CHANGE_BYTES[task.device.type] // weight_bytes(task.model)
    blocks = -(-task.users_per_round // max(most_lanes(task), min(_MOST_USERS, room)))
    return -(-task.users_per_round // blocks)


def most_lanes(task: Task) -> int:
    """Users stepped together: as many as the cache of a CPU or a share of a GPU's memory holds activations for."""
    room = _GPU_BYTES if task.device.type == "cuda" else _CPU_CACHE_BYTES
    per_user = task.batch_size * activation_bytes(task.model, task.data)
    if task.device.type == "cuda":
        per_user += 4 * weight_bytes(task.model)
    return max(1, min(_MOST_USERS, room // per_user))


def longest_block(task: Task, lanes: int, block: int) -> int:
    """Steps that no block takes more of: a lane begins its last user when the lanes are at most full on average."""
    steps = np.sort(steps_of(task.users.sizes, task.batch_size, task.epochs))[::-1]
    return int(steps[:block].sum() // lanes + steps[0])
