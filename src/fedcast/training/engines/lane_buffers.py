"""Tensors of all lanes, allocated once: CUDA graphs need fixed addresses, and a CPU finds them in its cache.

On a GPU the step is recorded as a CUDA graph for each number of lanes that is used, and replayed; it reads its batch
numbers from a table on the device, so that nothing crosses from the host while a block of users runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedcast.training.algorithms import Tensors
from fedcast.training.engines.engine_protocol import Round, Task
from fedcast.training.engines.schedule import STEPS_TOLERANCE, Lanes, steps_of, stretches
from fedcast.typing import Floats, Ints

_PICKED_AT_ONCE = 16  # steps whose samples are gathered together on a CPU

Place = slice | Tensor


def _place(numbers: Ints, on_device: Tensor) -> Place:
    """Return the index as a slice if it is one: slices are copied faster, and equal users begin and end together."""
    if len(numbers) and np.array_equal(numbers, np.arange(numbers[0], numbers[0] + len(numbers))):
        return slice(int(numbers[0]), int(numbers[-1]) + 1)
    return on_device


class LaneBuffers:
    """Trains a block of users in lanes."""

    def __init__(self, task: Task, step: Callable[..., None], lanes: int, longest: int, current: Round) -> None:
        device, dtype = task.device, task.data.dtype
        self.task, self.step = task, step
        self.weights = [torch.zeros(lanes, *weight.shape, dtype=dtype, device=device) for weight in current.weights]
        self.momenta = [torch.zeros_like(weight) for weight in self.weights] if task.settings.momentum else []
        shown = current.context(task, torch.zeros(1, dtype=torch.int64, device=device))
        self.context = [tensor.new_zeros(lanes, *tensor.shape[1:]) for tensor in shown]
        self.start_weights = [torch.empty_like(weight) for weight in current.weights]
        self.losses = torch.zeros(lanes, dtype=torch.float64, device=device)
        self.learning_rate = torch.zeros((), dtype=dtype, device=device)
        self.samples = torch.zeros(longest, lanes, task.settings.batch_size, dtype=torch.int64, device=device)
        self.shares = torch.zeros(longest, lanes, task.settings.batch_size, dtype=dtype, device=device)
        self.position = torch.zeros(1, dtype=torch.int64, device=device)
        self.views: dict[int, tuple[Any, ...]] = {}
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}

    def run(self, users: Ints, lanes: Lanes, current: Round) -> tuple[Tensors, Tensor]:
        """Train a block; return the change of each user's weights and the sum of its losses."""
        if self.task.device.type == "cuda" and lanes.count not in self.graphs:
            with torch.random.fork_rng([self.task.device]):  # warm-up steps may draw and must not change later draws
                self.graphs[lanes.count] = self._recorded(lanes.count)
        self._start(*self.task.batches(users, current.number, lanes), current)
        change = [weight.new_empty(len(users), *weight.shape[1:]) for weight in self.weights]
        losses = self.losses.new_empty(len(users))
        for start, stop, beginning, taken, rows, left in self._stretches(users, lanes):
            if len(beginning):
                self._begin(beginning, taken, current)
            self._advance(start, stop, lanes.count)
            for moved, weight, first in zip(change, self.weights, self.start_weights, strict=True):
                moved[rows] = weight[left] - first
            losses[rows] = self.losses[left]
        return change, losses

    def _start(self, samples: Ints, shares: Floats, current: Round) -> None:
        for start, weight in zip(self.start_weights, current.weights, strict=True):
            start.copy_(weight)
        self.learning_rate.fill_(current.learning_rate)
        length, lanes, _ = samples.shape
        self.samples[:length, :lanes] = torch.from_numpy(samples).to(self.samples.device, non_blocking=True)
        self.shares[:length, :lanes] = torch.from_numpy(shares).to(self.shares)
        self.position.zero_()

    def _stretches(self, users: Ints, lanes: Lanes) -> Iterator[tuple[int, int, Tensor, Place, Place, Place]]:
        """Yield ranges of steps, the users that begin, their lanes, the rows of those that end, and their lanes."""
        found = list(stretches(lanes))
        begin, end = (np.concatenate([part[place] for part in found]) for place in (2, 3))
        # Indices go to the device before the first step: a copy between steps would wait for those before it.
        indices = (users[begin], lanes.lane[begin], end, lanes.lane[end])
        on_device = [torch.from_numpy(index).to(self.losses.device) for index in indices]
        begun = ended = 0
        for start, stop, begins, ends in found:
            among, done = slice(begun, begun := begun + len(begins)), slice(ended, ended := ended + len(ends))
            taken = _place(lanes.lane[begins], on_device[1][among])
            rows, left = _place(ends, on_device[2][done]), _place(lanes.lane[ends], on_device[3][done])
            yield start, stop, on_device[0][among], taken, rows, left

    def _begin(self, users: Tensor, lanes: Place, current: Round) -> None:
        for weight, start in zip(self.weights, self.start_weights, strict=True):
            weight[lanes] = start
        for momentum in self.momenta:
            momentum[lanes] = 0.0
        if self.context:
            for buffer, tensor in zip(self.context, current.context(self.task, users), strict=True):
                buffer[lanes] = tensor
        self.losses[lanes] = 0.0

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
            own = (self.weights, self.momenta, self.context)
            weights, momenta, context = ([tensor[:lanes] for tensor in tensors] for tensors in own)
            start, rate = self.start_weights, self.learning_rate
            self.views[lanes] = weights, momenta, start, context, rate, self.losses[:lanes]
        self.step(*self.views[lanes], inputs, labels, shares)

    def _step_at_position(self, lanes: int) -> None:
        """Take a step whose batch is looked up on the device, which counts the steps."""
        inputs, labels = self.task.data.pick(self.samples[:, :lanes].index_select(0, self.position)[0])
        self._step(lanes, inputs, labels, self.shares[:, :lanes].index_select(0, self.position)[0])
        self.position += 1

    def _recorded(self, lanes: int) -> torch.cuda.CUDAGraph:
        """Record one step as a CUDA graph, after warm-up steps on a side stream as PyTorch requires."""
        for weight in (*self.weights, *self.start_weights):
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
    """Return a number of steps that no block of so many users exceeds, with this number of lanes or more.

    The user that ends last begins while all lanes are in use, so no later than they are filled on average; using fewer
    lanes (`useful_lanes`), and rounding their number, delay the end by at most `STEPS_TOLERANCE` each.
    """
    steps = np.sort(steps_of(task.users.sizes, task.settings.batch_size, task.settings.local_epochs))[::-1]
    return int(STEPS_TOLERANCE**2 * (steps[:block].sum() // lanes + steps[0])) + 1
