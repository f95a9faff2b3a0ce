"""Tensors of all lanes, allocated once: CUDA graphs need fixed places, and a CPU likes warm ones.

On a GPU the step is recorded as a CUDA graph for each number of lanes that is used, and replayed; it reads its batch
numbers from a table on the device, so that nothing crosses from the host while a block of users runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedcast.training.algorithm import Tensors
from fedcast.training.batches import Batches, steps_of
from fedcast.training.engine import Round, Task
from fedcast.training.lanes import AS_SOON, Lanes, stretches
from fedcast.typing import Ints

_PICKED_AT_ONCE = 16  # steps whose samples are gathered together on a CPU

Place = slice | Tensor


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


class LaneBuffers:
    """Trains a block of users in lanes."""

    def __init__(self, task: Task, step: Callable[..., None], lanes: int, block: int, current: Round) -> None:
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
        self.views: dict[int, tuple[Any, ...]] = {}
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}

    def run(self, users: Ints, lanes: Lanes, plan: Batches, current: Round) -> tuple[Tensors, Tensor]:
        """Train a block; what each user changed, and the sum of its losses."""
        if self.task.device.type == "cuda" and lanes.count not in self.graphs:
            with torch.random.fork_rng([self.task.device]):  # steps on trial draw, and must not move what follows
                self.graphs[lanes.count] = self._recorded(lanes.count)
        self._start(plan, current)
        change = [weight.new_empty(len(users), *weight.shape[1:]) for weight in self.weights]
        losses = self.losses.new_empty(len(users))
        for stretch in self._stretches(users, lanes):
            if len(stretch.users):
                self._begin(stretch.users, stretch.taken, current)
            self._advance(stretch.start, stretch.stop, lanes.count)
            self._end(stretch.rows, stretch.left, change, losses)
        return change, losses

    def _start(self, plan: Batches, current: Round) -> None:
        for anchor, weight in zip(self.anchor, current.weights, strict=True):
            anchor.copy_(weight)
        self.learning_rate.fill_(current.learning_rate)
        length, lanes, _ = plan.samples.shape
        self.samples[:length, :lanes] = torch.from_numpy(plan.samples).to(self.samples.device, non_blocking=True)
        self.shares[:length, :lanes] = torch.from_numpy(plan.weights).to(self.shares)
        self.position.zero_()

    def _stretches(self, users: Ints, lanes: Lanes) -> Iterator[_Stretch]:
        found = list(stretches(lanes))
        begin, end = (np.concatenate([part[place] for part in found]) for place in (2, 3))
        # Indices go to the device before the first step: a copy between steps would wait for those before it.
        indices = (users[begin], lanes.lane[begin], end, lanes.lane[end])
        on_device = [torch.from_numpy(index).to(self.losses.device) for index in indices]
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

    def _advance(self, start: int, stop: int, lanes: int) -> None:
        """Take the steps from one to another."""
        if self.graphs:
            for _ in range(start, stop):
                self.graphs[lanes].replay()
            return
        for first in range(start, stop, _PICKED_AT_ONCE):
            chunk = slice(first, min(first + _PICKED_AT_ONCE, stop))
            inputs, labels = self.task.data.pick(self.samples[chunk, :lanes])
            for batch in zip(inputs, labels, self.shares[chunk, :lanes], strict=True):
                self._step(lanes, *batch)

    def _step(self, lanes: int, inputs: Tensor, labels: Tensor, shares: Tensor) -> None:
        if lanes not in self.views:
            self.views[lanes] = self._view(lanes)
        self.step(*self.views[lanes], inputs, labels, shares)

    def _view(self, lanes: int) -> tuple[Any, ...]:
        """What a step of the first lanes works on."""
        weights, momenta = ([tensor[:lanes] for tensor in tensors] for tensors in (self.weights, self.momenta))
        correction = None if self.correction is None else [tensor[:lanes] for tensor in self.correction]
        return weights, momenta, self.anchor, correction, self.learning_rate, self.losses[:lanes]

    def _step_at_position(self, lanes: int) -> None:
        """A step whose batch is looked up on the device, which counts along."""
        inputs, labels = self.task.data.pick(self.samples[:, :lanes].index_select(0, self.position)[0])
        self._step(lanes, inputs, labels, self.shares[:, :lanes].index_select(0, self.position)[0])
        self.position += 1

    def _recorded(self, lanes: int) -> torch.cuda.CUDAGraph:
        """One step as a CUDA graph, after warm-up steps on a side stream as PyTorch asks for."""
        for weight in (*self.weights, *self.anchor):
            weight.zero_()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.position.zero_()
                self._step_at_position(lanes)
        torch.cuda.current_stream().wait_stream(side)
        self.position.zero_()
        graph = torch.cuda.CUDAGraph()
        # Graphs are never replayed at once, so that they can share what they work in.
        pool = next(iter(self.graphs.values())).pool() if self.graphs else None
        with torch.cuda.graph(graph, pool=pool):
            self._step_at_position(lanes)
        return graph


def longest_block(task: Task, lanes: int, block: int) -> int:
    """Steps that no block takes more of, with as many lanes as are of use of so many at most.

    The user that ends last begins while all lanes are taken, so no later than they are filled on average; lanes that
    are left out delay the end by a little.
    """
    steps = np.sort(steps_of(task.users.sizes, task.batch_size, task.epochs))[::-1]
    return int(AS_SOON * (steps[:block].sum() // lanes + steps[0])) + 1
