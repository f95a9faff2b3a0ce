"""Federated training from start to end: rounds, aggregation, scores, checkpoints."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedcast.data import Assignment
from fedcast.errors import FedcastError
from fedcast.random import stream_key
from fedcast.training.aggregate import Aggregate, aggregation_weights
from fedcast.training.algorithm import ServerState, Tensors, local_rule, new_control, normalised_steps, server_step
from fedcast.training.checkpoint import load_checkpoint, save_checkpoint
from fedcast.training.choose import choose_device, choose_engine, worth_compiling
from fedcast.training.clock import Clock
from fedcast.training.device_data import to_device
from fedcast.training.engine import BlockResult, Round, Task
from fedcast.training.evaluate import score, user_accuracies
from fedcast.training.history import History, Record
from fedcast.training.models import check_model, check_scores, with_weights
from fedcast.training.participation import asked_users, participants
from fedcast.training.sizing import one_sample
from fedcast.typing import Ints

if TYPE_CHECKING:
    from fedcast.data import Dataset, TextWindows
    from fedcast.scenario import Training


@dataclass(frozen=True)
class Federation:
    """Who trains on what.

    Attributes:
        dataset: training and test samples.
        users: samples of each user after sharing.
        own_sizes: int64[K], samples before sharing.
        distributions: float64[K, Y], class mixes before sharing.
    """

    dataset: Dataset
    users: Assignment
    own_sizes: Ints
    distributions: NDArray[np.float64]


@dataclass
class Outcome:
    """A trained model and how it got there.

    Attributes:
        history: record of the rounds.
        model: with the weights after the last one.
        stopped: why training ended early; None: it did not.
        engine: that stepped the users.
    """

    history: History
    model: nn.Module
    stopped: str | None
    engine: str

    @property
    def weights(self) -> Tensors:
        """Of the model, in the order of its parameters."""
        return [weight.detach() for weight in self.model.parameters()]


Progress = Callable[[Record], None]


def train(
    federation: Federation,
    model: nn.Module,
    training: Training,
    *,
    seed: int = 0,
    clock: Clock | None = None,
    checkpoint: str | Path | None = None,
    progress: Progress | None = None,
    should_stop: Callable[[], bool] | None = None,
    dropped: set[tuple[int, int]] | None = None,
    replace_batch_norm: bool = False,
) -> Outcome:
    """Train a model over users: broadcast, local SGD, upload, weighted average; again and again.

    Args:
        federation: the data, before and after sharing.
        model: any module whose state is all weights; its present weights are the start, and it is left as it is.
        training: settings, the `training` section of a scenario.
        seed: of batches, participants and dropouts.
        clock: what sharing and a round cost.
        checkpoint: file to go on from, if it is there, and to write every `checkpoint_every` rounds.
        progress: called after every round.
        should_stop: asked after every round; if it says so, a checkpoint is written and training ends.
        dropped: pairs (round, user) that do not answer.
        replace_batch_norm: put group norm in the place of batch norm instead of refusing it.
    """
    checked, device = check_model(model, replace_batch_norm=replace_batch_norm), choose_device(training.device)
    # A model may draw, as dropout does: PyTorch's generators are seeded for every round, and afterwards as they were.
    with torch.random.fork_rng([device] if device.type == "cuda" else []), _own_precision(training, device):
        run = _Run(federation, checked, training, seed, clock or Clock(), dropped or set())
        return _trained(run, Path(checkpoint) if checkpoint is not None else None, progress, should_stop)


@contextmanager
def _own_precision(training: Training, device: torch.device) -> Iterator[None]:
    """PyTorch's switches for matrix units as the run wants them, and afterwards as they were."""
    if device.type != "cuda":
        yield
        return
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32, cudnn.deterministic
    # Whoever trains in bfloat16 is not asking for more than tf32 in the rest, which is scoring.
    matmul.allow_tf32 = cudnn.allow_tf32 = training.precision in ("tf32", "bf16")
    cudnn.deterministic = True
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32, cudnn.deterministic = before


def _trained(
    run: _Run, checkpoint: Path | None, progress: Progress | None, should_stop: Callable[[], bool] | None
) -> Outcome:
    training = run.training
    completed, state, controls, history = run.start(checkpoint)
    stopped = None
    for number in range(completed + 1, training.rounds + 1):
        present = participants(
            run.federation.users.sizes, training.participation, training.dropout_probability, run.dropped,
            seed=run.seed, round_number=number,
        )  # fmt: skip
        loss, drift = run.round(number, present, state, controls)
        history.records.append(run.record(number, state, loss, drift, present, history.records[-1]))
        if progress is not None:
            progress(history.records[-1])
        last = number == training.rounds
        if should_stop is not None and not last and should_stop():
            stopped = f"stopped after round {number}"
        if checkpoint is not None and (last or stopped or number % training.checkpoint_every == 0):
            save_checkpoint(checkpoint, run.fingerprint, number, state, controls, history)
        if stopped:
            break
    return Outcome(history, with_weights(run.model, state.weights), stopped, type(run.engine).__name__)


class _Run:
    """One training run: what is fixed, and the steps of a round."""

    def __init__(
        self,
        federation: Federation,
        model: nn.Module,
        training: Training,
        seed: int,
        clock: Clock,
        dropped: set[tuple[int, int]],
    ) -> None:
        self.federation, self.training, self.clock, self.seed, self.dropped = federation, training, clock, seed, dropped
        if not federation.users.sizes.any():
            raise FedcastError("training: no user holds a sample; check data.partition and the files it reads")
        self.device = choose_device(training.device)
        dtype = torch.float64 if training.precision == "float64" else torch.float32
        self.model = model.to(self.device, dtype)
        dataset = federation.dataset
        data = to_device(dataset.inputs, dataset.labels, dataset.scale, self.device, dtype)
        check_scores(self.model, one_sample(self.model, data), dataset.num_classes)
        self.test = to_device(dataset.test_inputs, dataset.test_labels, dataset.scale, self.device, dtype)
        noisy = dataset.noisy_test_inputs
        self.noisy_test = (
            None
            if noisy is None
            else replace(self.test, inputs=torch.from_numpy(noisy).to(self.device, self.test.inputs.dtype))
        )
        self.task = Task(
            self.model, data, federation.users, local_rule(training), training.batch_size, training.local_epochs, seed,
            asked_users(federation.users.sizes, training.participation),
            compiled=worth_compiling(model, data, federation.users, training),
            bfloat16=training.precision == "bf16",
        )  # fmt: skip
        self.engine = choose_engine(training.engine, self.task)
        self.user_weights = aggregation_weights(federation.own_sizes, federation.users.sizes, training.aggregation)
        self._first_weights = [weight.detach().cpu().numpy() for weight in self.model.parameters()]

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all that decides the course of the run, so that a checkpoint is never mixed into another."""
        digest = hashlib.blake2b()
        settings = {
            name: value for name, value in dict(self.training).items() if name not in ("rounds", "checkpoint_every")
        }
        digest.update(
            repr((self.seed, sorted(settings.items()), self.clock, sorted(self.dropped), self.model)).encode()
        )
        federation, dataset = self.federation, self.federation.dataset
        for array in (
            federation.users.samples, federation.users.offsets, federation.own_sizes, federation.distributions,
            *_arrays(dataset.inputs), dataset.labels, *_arrays(dataset.test_inputs), dataset.test_labels,
            *self._first_weights,
        ):  # fmt: skip
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def start(self, checkpoint: Path | None) -> tuple[int, ServerState, Tensors, History]:
        """Go on from a checkpoint, or begin; round 0 is the untrained model."""
        if checkpoint is not None and (found := load_checkpoint(checkpoint, self.fingerprint, self.device)):
            return found
        weights = [weight.detach().clone() for weight in self.model.parameters()]
        zeros = [torch.zeros_like(weight) for weight in weights]
        momentum = [zero.clone() for zero in zeros] if self.training.server_optimizer != "none" else []
        second = [zero.clone() for zero in zeros] if self.training.server_optimizer == "adam" else []
        control, controls = [], []
        if self.training.algorithm == "scaffold":
            control = zeros
            controls = [zero.new_zeros(len(self.federation.own_sizes), *zero.shape) for zero in zeros]
        state = ServerState(weights, momentum, second, control)
        return 0, state, controls, History([self.record(0, state, None, None, np.zeros(0, dtype=np.int64), None)])

    def round(
        self, number: int, users: Ints, state: ServerState, controls: Tensors
    ) -> tuple[float | None, float | None]:
        """Local training of the users and one step of the server; mean training loss and drift."""
        if not self.user_weights[users].any():  # nobody, or nobody that counts
            return None, None
        rate = self.training.learning_rate * self.training.learning_rate_decay ** (number - 1)
        current = Round(number, state.weights, rate, state.control, controls)
        total = Aggregate(state.weights, self.user_weights[users].sum(), self.training.algorithm)
        drawn = int(stream_key(self.seed, f"model/{number}"))
        torch.default_generator.manual_seed(drawn)
        if self.device.type == "cuda":
            torch.cuda.manual_seed(drawn)
        self._add_changes(users, current, state, total)
        for control, moved in zip(state.control, total.control, strict=True):
            control.add_(moved)
        server_step(self.training, state, total.change())
        return float(total.loss) / total.steps, total.drift()

    def _add_changes(self, users: Ints, current: Round, state: ServerState, total: Aggregate) -> None:
        for block in self.engine.local_training(users, current):
            self._check(current.number, block)
            share = torch.from_numpy(self.user_weights[block.users] / total.weight).to(self.device)
            steps = torch.from_numpy(block.steps).to(self.device, torch.float64)
            effective = normalised_steps(steps, self.training.momentum)
            total.add(block, share, effective)
            if current.user_controls:
                self._update_controls(block, current, effective, state, total)

    def _update_controls(
        self, block: BlockResult, current: Round, effective: Tensor, state: ServerState, total: Aggregate
    ) -> None:
        index = torch.from_numpy(block.users).to(self.device)
        # The server's variate is the mean of all users' in the weights of the aggregation: with any other mean the
        # corrections would not cancel, and where sizes differ the error would feed itself until training diverges.
        share = torch.from_numpy(self.user_weights[block.users] / self.user_weights.sum()).to(self.device)
        for position, moved in enumerate(block.change):
            own = current.user_controls[position][index]
            new = new_control(state.control[position], own, moved, effective.to(moved.dtype), current.learning_rate)
            total.control[position] += torch.tensordot(share.to(moved.dtype), new - own, dims=1)
            current.user_controls[position][index] = new

    def _check(self, number: int, block: BlockResult) -> None:
        finite = torch.isfinite(block.losses)
        for moved in block.change:
            finite &= torch.isfinite(moved.reshape(len(moved), -1).sum(1))
        if not bool(finite.all()):
            user = int(block.users[int((~finite).nonzero()[0])])
            raise FedcastError(
                f"training diverged in round {number} at user {user}: its loss or weights are not finite; "
                f"lower training.learning_rate = {self.training.learning_rate} or set training.clip_norm"
            )

    def record(
        self,
        number: int,
        state: ServerState,
        loss: float | None,
        drift: float | None,
        users: Ints,
        before: Record | None,
    ) -> Record:
        """Score the server's model and read the simulated clock, which goes on from the record before."""
        federation, clock = self.federation, self.clock
        spent = (clock.sharing_s, clock.sharing_j, clock.sharing_bytes)
        if before is not None:
            able = int(np.count_nonzero(federation.users.sizes))
            cost = clock.cost_of(users, able)
            spent = (before.seconds + cost[0], before.energy_j + cost[1], before.bytes_sent + cost[2])
        result = score(self.model, state.weights, self.test, federation.dataset.num_classes)
        mean, worst = user_accuracies(result.class_accuracy, federation.distributions, federation.own_sizes)
        return Record(
            round=number,
            train_loss=loss,
            test_loss=result.loss,
            accuracy=result.accuracy,
            user_accuracy=mean,
            worst_accuracy=worst,
            drift=drift,
            participants=len(users),
            seconds=spent[0],
            energy_j=spent[1],
            bytes_sent=spent[2],
            class_accuracy=tuple(
                float(value) if tested else None
                for value, tested in zip(result.class_accuracy, result.tested, strict=True)
            ),
            noisy_accuracy=None
            if self.noisy_test is None
            else score(self.model, state.weights, self.noisy_test, federation.dataset.num_classes).accuracy,
        )


def _arrays(inputs: NDArray[Any] | TextWindows) -> tuple[NDArray[Any], ...]:
    return (inputs,) if isinstance(inputs, np.ndarray) else (inputs.codes, inputs.starts)
