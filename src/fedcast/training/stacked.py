"""The fast engine: the weights of many users stacked, one step for all of them.

A place in the stack is a lane, in which one user trains after another (`lanes`), so that large users do not keep small
ones waiting. A block of users has as many lanes as fit the cache (CPU) or the memory (GPU), or as are of use.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fedcast.training.algorithm import Tensors, local_step
from fedcast.training.batches import batches_of, steps_of
from fedcast.training.engine import BlockResult, Round, Task
from fedcast.training.lane_buffers import LaneBuffers
from fedcast.training.lanes import Lanes, fill_lanes, useful_lanes
from fedcast.training.sizing import activation_bytes, one_sample, weight_bytes
from fedcast.training.stack import stacked_forward
from fedcast.training.vmapped import Forward
from fedcast.typing import Ints

# What one core's second-level cache holds, and a sixth of the memory of a large GPU, which several runs may share.
_CPU_CACHE_BYTES = 4 * 2**20
_GPU_BYTES = 24 * 2**30
# Changes wait for the end of their block; on a CPU a block of a few cache sizes is soon written and read again.
_CHANGE_BYTES = {"cpu": 16 * 2**20, "cuda": 16 * 2**30}
_MOST_USERS = 512

Step = Callable[..., None]

_log = logging.getLogger(__name__)


class StackedEngine:
    """Steps many users at once; equal to `LoopEngine` up to rounding."""

    def __init__(self, task: Task) -> None:
        self.task = task
        most = most_lanes(task)
        self.block = users_of_block(task, most)
        self.most = min(most, self.block)
        step = stacked_step(stacked_forward(task.model, task.device, one_sample(task.model, task.data)), task)
        self.step = compiled(step) if task.compiled else step
        self.last: tuple[Ints, Lanes] | None = None
        self.buffers: LaneBuffers | None = None

    def local_training(self, users: Ints, current: Round) -> Iterator[BlockResult]:
        """Train users block by block, those with the most steps first."""
        task = self.task
        steps = steps_of(task.users.sizes[users], task.batch_size, task.epochs)
        order = np.argsort(-steps, kind="stable")
        for start in range(0, len(order), self.block):
            some = order[start : start + self.block]
            yield self._train(users[some], steps[some], current)

    def _train(self, users: Ints, steps: Ints, current: Round) -> BlockResult:
        task, lanes = self.task, self._lanes(steps)
        plan = batches_of(
            task.users, users, task.batch_size, task.epochs, seed=task.seed, round_number=current.number, lanes=lanes
        )
        if self.buffers is None:
            self.buffers = LaneBuffers(task, self.step, self.most, self.block, current)
        change, losses = self.buffers.run(users, lanes, plan, current)
        return BlockResult(users, change, losses, steps)

    def _lanes(self, steps: Ints) -> Lanes:
        """Lanes for a block; where the same users train in every round, those of the round before."""
        if self.last is None or not np.array_equal(self.last[0], steps):
            self.last = steps, fill_lanes(steps, self._count(useful_lanes(steps, self.most)))
        return self.last[1]

    def _count(self, useful: int) -> int:
        """So many lanes, or where steps are recorded or compiled for a number of lanes, a round number of them.

        Not one that there is already: a model draws lane by lane, and what it draws must not depend on rounds before.
        """
        if self.task.device.type == "cpu" and not self.task.compiled:
            return useful
        grain = 1 << max(0, useful.bit_length() - 3)
        return min(self.most, -(-useful // grain) * grain)


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
                _log.warning("training goes on without compiling, which failed: %s", _first_line(error))
                works = False
            else:
                works = True
                return
        step(*arguments)

    return either


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def users_of_block(task: Task, lanes: int) -> int:
    """Users whose changes are held at once: blocks of even size, as memory allows."""
    room = _CHANGE_BYTES[task.device.type] // weight_bytes(task.model)
    blocks = -(-task.users_per_round // max(lanes, min(_MOST_USERS, room)))
    return -(-task.users_per_round // blocks)


def most_lanes(task: Task) -> int:
    """Users stepped together: as many as the cache of a CPU or a share of a GPU's memory holds activations for."""
    room = _GPU_BYTES if task.device.type == "cuda" else _CPU_CACHE_BYTES
    per_user = task.batch_size * activation_bytes(task.model, task.data)
    if task.device.type == "cuda":
        per_user += 4 * weight_bytes(task.model)
    return max(1, min(_MOST_USERS, room // per_user))
