"""Training over users on other machines: the local training of one of them there, and the rounds of the server here.

Both are the same code as in a simulation: an engine trains the one user with the batches that it would have among all,
and the server aggregates, scores and writes checkpoints as `Trainer` does. States of the algorithm stay at the server;
a user gets what its local steps read with the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedcast.data import Assignment, Dataset
from fedcast.errors import FedcastError
from fedcast.random import stream_key
from fedcast.training.algorithms import Tensors
from fedcast.training.device_data import training_data
from fedcast.training.engines import BlockResult, Round, Task, choose_device, choose_engine
from fedcast.training.history import Clock
from fedcast.training.model_checks import check_model
from fedcast.training.settings import TrainingSettings
from fedcast.training.trainer import Federation, Outcome, Progress, Stop, Trainer
from fedcast.typing import Floats, Ints

_MOST_STEPS = 2**31

Arrays = Sequence[NDArray[Any]]
#: (round, what each user gets: weights and context) → what each user that answered returns
AskUsers = Callable[[int, Mapping[int, Mapping[str, Any]]], Mapping[int, Mapping[str, Any]]]


@dataclass(frozen=True)
class _GivenRound(Round):
    """A round whose context came with the weights."""

    given: tuple[Tensor, ...] = ()

    def context(self, task: Task, users: Tensor) -> Tensors:
        """Return the context that the server sent."""
        del task, users
        return list(self.given)


class LocalTraining:
    """Local training of one user on its own machine; it gives what an engine over all users gives for it.

    Only a model that draws, as dropout does, draws other numbers than in a simulation.
    """

    def __init__(
        self, dataset: Dataset, model: nn.Module, settings: TrainingSettings, *, seed: int, user: int, num_users: int
    ) -> None:
        if not 0 <= user < num_users:
            raise FedcastError(f"invalid value {user} for user: expected 0 … {num_users - 1}")
        self.settings, self.seed, self.user = settings, seed, user
        self.device = choose_device(settings.device)
        data = training_data(dataset, settings, self.device)
        # The only user with samples, under the number that it has among all.
        offsets = np.where(np.arange(num_users + 1) > user, len(dataset), 0)
        held = Assignment(np.arange(len(dataset)), offsets)
        self.task = Task(model.to(self.device, data.dtype), data, held, settings, seed)
        self.engine = choose_engine(settings.engine, self.task)

    def round(self, number: int, weights: Arrays, context: Arrays) -> dict[str, Any]:
        """Train one round; return the change of each weight, the sum of the losses of all steps, and their number."""
        dtype = self.task.data.dtype
        start, given = (
            [torch.from_numpy(np.array(a)).to(self.device, dtype) for a in arrays] for arrays in (weights, context)
        )
        current = _GivenRound(number, start, self.settings.rate_in(number), {}, {}, tuple(given))
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(int(stream_key(self.seed, f"model/{number}/{self.user}")))
            (result,) = self.engine.local_training(np.array([self.user]), current)
        change = [moved[0].cpu().numpy() for moved in result.change]
        return {"change": change, "loss": float(result.losses[0]), "steps": int(result.steps[0])}


@dataclass(frozen=True, eq=False)
class RemoteUsers:
    """Users as the server knows them: sizes after and before sharing, and label distributions [K, Y] before it."""

    sizes: Ints
    own_sizes: Ints
    distributions: Floats


def train_remotely(
    ask: AskUsers,
    users: RemoteUsers,
    dataset: Dataset,
    model: nn.Module,
    settings: TrainingSettings,
    *,
    seed: int = 0,
    clock: Clock | None = None,
    checkpoint: str | Path | None = None,
    progress: Progress | None = None,
    should_stop: Stop | None = None,
) -> Outcome:
    """Train a model over users on other machines.

    A user that does not answer, or whose answer is not finite, is left out of the round. A round that nobody answers
    ends training with an error; the checkpoint holds the rounds before.

    Args:
        ask: trains users in a round, wherever they are.
        users: what the server knows of them.
        dataset: its test samples score the model; its training samples are not used.
        model: any module whose state is all weights; training starts from its weights and does not change it.
        settings: all that decides how it is trained; users need the same.
        seed: seed of batches and participants; users need the same.
        clock: what sharing and a round cost.
        checkpoint: file to resume from, if it exists, and to write every `checkpoint_every` rounds.
        progress: called after every round.
        should_stop: called after every round; if it returns true, a checkpoint is written and training ends.
    """
    if settings.upload != "full":
        raise FedcastError(
            f"invalid value {settings.upload!r} for training.upload: devices upload all weights; use full, or simulate"
        )
    if settings.attendance.reads_clock:
        raise FedcastError(
            "training.deadline_s, training.over_selection and training.buffer_size are judged by the simulated clock; "
            "unset them for training on other machines"
        )
    if settings.fine_tune_epochs:
        raise FedcastError(
            f"invalid value {settings.fine_tune_epochs} for training.fine_tune_epochs: devices do not fine-tune the "
            "model for the server; use 0, or simulate"
        )
    checked, device = check_model(model), choose_device(settings.device)
    # The server holds no training samples; sizes are all that it needs of them.
    nothing = replace(dataset, inputs=dataset.test_inputs, labels=dataset.test_labels)
    placeholder = np.broadcast_to(np.int64(0), int(users.sizes.sum()))
    held = Assignment(placeholder, np.concatenate([[0], np.cumsum(users.sizes)]))
    federation = Federation(nothing, held, users.own_sizes, users.distributions)
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        uncompiled = replace(settings, compile="never")
        trainer = _RemoteTrainer(federation, checked, uncompiled, seed, clock or Clock(), set())
        trainer.ask = ask
        return trainer.run(Path(checkpoint) if checkpoint is not None else None, progress, should_stop)


class _RemoteTrainer(Trainer):
    """The server: everything but local training."""

    ask: AskUsers

    @property
    def held_samples(self) -> list[Ints]:
        """None: users that were away receive samples of others later."""
        return []

    def local_training(self, users: Ints, current: Round) -> tuple[Ints, list[BlockResult]]:
        """Ask users, and return those that answered with finite numbers, ascending."""
        weights = [weight.cpu().numpy() for weight in current.weights]
        requests = {}
        for user in users.tolist():
            context = current.context(self.task, torch.tensor([user], device=self.device))
            requests[user] = {"weights": weights, "context": [tensor.cpu().numpy() for tensor in context]}
        answers = self.ask(current.number, requests)
        blocks = [block for user in sorted(answers) if (block := self._block(user, answers[user])) is not None]
        if not blocks:
            raise FedcastError(f"round {current.number}: no user returned a finite change of the weights")
        return np.concatenate([block.users for block in blocks]), blocks

    def _block(self, user: int, answer: Mapping[str, Any]) -> BlockResult | None:
        """Return the result of one user; None if it is not a finite change of every weight."""
        shapes = [tuple(weight.shape) for weight in self.model.parameters()]
        try:
            change, loss, steps = list(answer["change"]), float(answer["loss"]), int(answer["steps"])
            fits = [moved.shape for moved in change] == shapes and 0 < steps <= _MOST_STEPS
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            return None
        if not fits or not np.isfinite(loss) or not all(np.isfinite(moved).all() for moved in change):
            return None
        dtype = next(self.model.parameters()).dtype
        tensors = [torch.from_numpy(np.array(moved)).to(self.device, dtype)[None] for moved in change]
        losses = torch.tensor([loss], dtype=torch.float64, device=self.device)
        return BlockResult(np.array([user]), tensors, losses, np.array([steps]))
