"""Train a model over users: rounds, aggregation, scores, checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from fedcast.data import Assignment, Dataset, TextWindows
from fedcast.errors import FedcastError
from fedcast.participation import Attendance, Pairs, attend
from fedcast.random import generator, stream_key
from fedcast.training.algorithms import Tensors, Upload, effective_steps
from fedcast.training.checkpoint import TrainingState, fingerprint_of, load_checkpoint, save_checkpoint
from fedcast.training.device_data import ModelScores, own_accuracies, score, to_device, training_data
from fedcast.training.engines import BlockResult, Round, Task, choose_device, choose_engine, rows_of, worth_compiling
from fedcast.training.engines.choose import matrix_precision
from fedcast.training.engines.engine_protocol import Aggregate, one_sample
from fedcast.training.fine_tuning import user_columns
from fedcast.training.history import Clock, History, Record, mean_and_worst
from fedcast.training.model_checks import check_model, check_scores, with_weights
from fedcast.training.settings import TrainingSettings, training_settings
from fedcast.typing import Floats, Ints

if TYPE_CHECKING:
    from fedcast.scenario import Training


@dataclass(frozen=True)
class Federation:
    """A dataset and the samples of each user after sharing; sizes [K] and label distributions [K, Y] before it.

    `own_tests` are test samples of each user's own, by which it is scored; None: it is scored by its labels.
    """

    dataset: Dataset
    users: Assignment
    own_sizes: Ints
    distributions: Floats
    own_tests: Assignment | None = None

    def own_accuracies(self, scored: ModelScores) -> Floats:
        """Return the accuracy of each user, float64[K]: on its own test samples, or under its label distribution.

        A user without test samples of its own, and of a class without test samples, is scored by its labels.
        """
        own = own_accuracies(scored.class_accuracy, self.distributions)
        if self.own_tests is None:
            return own
        tests, correct = self.own_tests, scored.correct.cpu().numpy()
        hits = np.bincount(tests.owners, correct[tests.samples], minlength=len(own))
        return np.divide(hits, tests.sizes, out=own, where=tests.sizes > 0)


@dataclass
class Outcome:
    """The history, the model after the last round, why training ended early (or None), and the engine's class."""

    history: History
    model: nn.Module
    stopped: str | None
    engine: str

    @property
    def weights(self) -> Tensors:
        """The weights of the model, in the order of its parameters."""
        return [weight.detach() for weight in self.model.parameters()]


Progress = Callable[[Record], None]
Stop = Callable[[], bool]


def train(
    federation: Federation,
    model: nn.Module,
    training: TrainingSettings | Training,
    *,
    seed: int = 0,
    clock: Clock | None = None,
    checkpoint: str | Path | None = None,
    progress: Progress | None = None,
    should_stop: Stop | None = None,
    dropped: Pairs | None = None,
    replace_batch_norm: bool = False,
) -> Outcome:
    """Train a model over users, round by round: broadcast, local training, upload, aggregation.

    Args:
        federation: the data, before and after sharing.
        model: any module whose state is all weights; training starts from its weights and does not change it.
        training: `TrainingSettings`, or the section ``training`` of a scenario.
        seed: seed of batches, participants and dropouts.
        clock: what sharing and a round cost.
        checkpoint: file to resume from, if it exists, and to write every `checkpoint_every` rounds.
        progress: called after every round.
        should_stop: called after every round; if it returns true, a checkpoint is written and training ends.
        dropped: pairs (round, user) of users that drop out.
        replace_batch_norm: replace batch norm by group norm; by default a model with batch norm is an error.
    """
    settings = training_settings(training)
    checked, device = check_model(model, replace_batch_norm=replace_batch_norm), choose_device(settings.device)
    # A model may draw, as dropout does: PyTorch's generators are seeded for every round and restored afterwards.
    with torch.random.fork_rng([device] if device.type == "cuda" else []), matrix_precision(settings, device):
        kind = Trainer
        if settings.buffer_size is not None:
            from fedcast.training.asynchronous import BufferedTrainer  # which is made of the one here

            kind = BufferedTrainer
        trainer = kind(federation, checked, settings, seed, clock or Clock(), dropped or set())
        return trainer.run(Path(checkpoint) if checkpoint is not None else None, progress, should_stop)


class Trainer:
    """One training run: what is fixed, and the steps of a round."""

    def __init__(
        self, data: Federation, model: nn.Module, settings: TrainingSettings, seed: int, clock: Clock, dropped: Pairs
    ) -> None:
        self.federation, self.settings, self.clock, self.seed, self.dropped = data, settings, clock, seed, dropped
        dataset, users, sizes = data.dataset, data.users, data.users.sizes
        if not sizes.any():
            raise FedcastError("training: no user holds a sample; check data.partition and the files it reads")
        self.device = choose_device(settings.device)
        samples = training_data(dataset, settings, self.device)
        self.model = model.to(self.device, samples.dtype)
        check_scores(self.model, one_sample(self.model, samples), dataset.num_classes)
        self.test = to_device(dataset.test_inputs, dataset.test_labels, dataset.scale, self.device, samples.dtype)
        self.noisy_test = None
        if dataset.noisy_test_inputs is not None:
            noisy = torch.from_numpy(dataset.noisy_test_inputs).to(self.device, self.test.inputs.dtype)
            self.noisy_test = replace(self.test, inputs=noisy)
        compiled = worth_compiling(model, samples, users, settings)
        self.task = Task(self.model, samples, users, settings, seed, compiled)
        self.engine = choose_engine(settings.engine, self.task)
        self.able, self.attendance = np.flatnonzero(sizes), settings.attendance
        self.user_s = self._times()
        weighing = {"shared": sizes, "own": data.own_sizes, "uniform": np.ones(len(sizes))}
        self.user_weights = weighing[settings.aggregation].astype(np.float64)
        self._first_weights = [weight.detach().cpu().numpy() for weight in self.model.parameters()]

    def _times(self) -> Floats:
        """Return the time of each user in a round, float64[K], after checks of who can take part."""
        self.attendance.check(len(self.able))
        user_s = np.array(self.clock.user_s, dtype=np.float64)
        if not self.attendance.reads_clock:
            return user_s
        if not len(user_s):
            raise FedcastError(
                "training: deadlines, over-selection and asynchronous training need the time of each user; give a "
                "clock with user_s and user_j"
            )
        self.attendance.check_times(user_s[self.able])
        return user_s

    def run(self, checkpoint: Path | None, progress: Progress | None, should_stop: Stop | None) -> Outcome:
        """Train all rounds that a checkpoint does not hold."""
        settings = self.settings
        completed, state, history = self.start(checkpoint)
        stopped = None
        for number in range(completed + 1, settings.rounds + 1):
            present, loss, drift = self.advance(number, state)
            history.records.append(self.record(number, state.weights, loss, drift, present, history.records[-1]))
            if progress is not None:
                progress(history.records[-1])
            last = number == settings.rounds
            if should_stop is not None and not last and should_stop():
                stopped = f"stopped after round {number}"
            if checkpoint is not None and (last or stopped or number % settings.checkpoint_every == 0):
                save_checkpoint(checkpoint, self.fingerprint, number, state, history)
            if stopped:
                break
        if not stopped and (settings.fine_tune_epochs or self.federation.own_tests is not None):
            history.users = user_columns(self.task, state.weights, self.test, self.federation)
        return Outcome(history, with_weights(self.model, state.weights), stopped, type(self.engine).__name__)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all that decides the result, so that a checkpoint is never resumed by another run."""
        federation, dataset = self.federation, self.federation.dataset
        arrays = (
            *self.held_samples, federation.own_sizes, federation.distributions,
            *_arrays(dataset.inputs), dataset.labels, *_arrays(dataset.test_inputs), dataset.test_labels,
            *self._first_weights, *([] if dataset.soft_labels is None else [dataset.soft_labels]),
            *([] if (tests := federation.own_tests) is None else [tests.samples, tests.offsets]),
        )  # fmt: skip
        return fingerprint_of(self.settings, self.seed, (self.clock, sorted(self.dropped), self.model), arrays)

    @property
    def held_samples(self) -> list[Ints]:
        """Return the arrays of samples that users hold; a checkpoint is resumed only with the same."""
        return [self.federation.users.samples, self.federation.users.offsets]

    def start(self, checkpoint: Path | None) -> tuple[int, TrainingState, History]:
        """Resume from a checkpoint, or start; round 0 is the untrained model."""
        if checkpoint is not None and (found := load_checkpoint(checkpoint, self.fingerprint, self.device)):
            return found
        settings, weights = self.settings, [weight.detach().clone() for weight in self.model.parameters()]
        count, optimizer = len(self.federation.own_sizes), settings.server_implementation
        server, user = settings.implementation.first_states(settings.options, weights)
        users = {name: [each.expand(count, *each.shape).clone() for each in tensors] for name, tensors in user.items()}
        of_optimizer = {} if optimizer is None else optimizer.first_states(settings.server_options, weights)[0]
        upload, size = settings.upload_kind, sum(weight.numel() for weight in weights)
        feedback = upload.compress is not None and upload.feedback(settings.upload_options)
        residuals = [weights[0].new_zeros(count, size)] if feedback else []
        state = TrainingState(weights, server, users, of_optimizer, residuals)
        return 0, state, History([self.record(0, weights, None, None, Attendance(np.zeros(0, dtype=np.int64)), None)])

    def advance(self, number: int, state: TrainingState) -> tuple[Attendance, float | None, float | None]:
        """Take one round; return who took part, mean training loss and drift."""
        present = attend(self.able, self.attendance, self.dropped, self.user_s, seed=self.seed, round_number=number)
        users, loss, drift = self.round(number, present.users, state)
        return replace(present, users=users), loss, drift

    def round(self, number: int, users: Ints, state: TrainingState) -> tuple[Ints, float | None, float | None]:
        """Train users locally and take one step of the server; return who trained, mean training loss and drift."""
        if not self.user_weights[users].any():  # no users, or none with a weight
            return users, None, None
        self._seed_model(number)
        current = Round(number, state.weights, self.settings.rate_in(number), state.server, state.users)
        users, blocks = self.local_training(users, current)
        total, present = Aggregate(state.weights), self.user_weights[users].sum()
        for block in blocks:
            self._check(number, block)
            block = self._uploaded(block, number, state.residuals)
            shares = torch.from_numpy(self.user_weights[block.users] / present).to(self.device)
            total.add(block, shares)
            self._collect(block, shares, current, total)
        self._server_step(state, total)
        self._check_weights(number, state)
        return users, float(total.loss) / total.steps, total.drift()

    def _seed_model(self, number: int) -> None:
        """Seed what the model itself draws, as dropout does."""
        drawn = int(stream_key(self.seed, f"model/{number}"))
        torch.default_generator.manual_seed(drawn)
        if self.device.type == "cuda":
            torch.cuda.manual_seed(drawn)

    def local_training(self, users: Ints, current: Round) -> tuple[Ints, Iterable[BlockResult]]:
        """Return the users that train in a round, and their results as they come."""
        return users, self.engine.local_training(users, current)

    def _uploaded(self, block: BlockResult, number: int, residuals: Tensors) -> BlockResult:
        """Return what the server decodes of a block's uploads; residuals of its users change in place."""
        settings, kind = self.settings, self.settings.upload_kind
        if kind.compress is None:
            return block
        changes, index = torch.cat([moved.flatten(1) for moved in block.change], 1), torch.from_numpy(block.users)
        for residual in residuals:
            changes = changes + residual[index.to(self.device)]
        draws = self._draws(number, block.users, changes) if kind.draws else None
        sent = kind.compress(settings.upload_options, changes, draws)
        for residual in residuals:
            residual[index.to(self.device)] = changes - sent
        parts = sent.split([moved[0].numel() for moved in block.change], 1)
        return replace(block, change=[part.view_as(moved) for part, moved in zip(parts, block.change, strict=True)])

    def _draws(self, number: int, users: Ints, like: Tensor) -> Tensor:
        """Return a uniform number in [0, 1) for each value of each user's upload, whatever engine and device."""
        streams = [generator(self.seed, "upload", round=number, user=int(user)) for user in users]
        return torch.from_numpy(np.stack([stream.random(like.shape[1], np.float32) for stream in streams])).to(like)

    def _collect(self, block: BlockResult, shares: Tensor, current: Round, total: Aggregate) -> None:
        """Let the algorithm read what a block sends; states of its users change in place."""
        settings = self.settings
        if settings.implementation.collect is None:
            return
        index = torch.from_numpy(block.users).to(self.device)
        overall = torch.from_numpy(self.user_weights[block.users] / self.user_weights.sum()).to(self.device)
        steps = effective_steps(torch.from_numpy(block.steps).to(self.device, torch.float64), settings.momentum)
        own = rows_of(current.users, index)
        upload = Upload(block.change, shares, overall, steps, current.learning_rate, current.server, own)
        new, sums = settings.implementation.collect(settings.options, upload)
        for name, tensors in new.items():
            for held, tensor in zip(current.users[name], tensors, strict=True):
                held[index] = tensor
        total.add_sums(sums)

    def _server_step(self, state: TrainingState, total: Aggregate) -> None:
        settings, change = self.settings, total.mean
        algorithm, optimizer = settings.implementation, settings.server_implementation
        if algorithm.change is not None:
            change, state.server = algorithm.change(settings.options, change, total.sums, state.server)
        if algorithm.server_step is not None:
            state.weights, state.server = algorithm.server_step(settings.options, state.weights, change, state.server)
        elif optimizer is not None and optimizer.server_step is not None:
            state.weights, state.optimizer = optimizer.server_step(
                settings.server_options, state.weights, change, state.optimizer
            )
        else:
            rate, pairs = settings.server_learning_rate, zip(state.weights, change, strict=True)
            state.weights = [weight.add(moved, alpha=rate) for weight, moved in pairs]

    def _check(self, number: int, block: BlockResult) -> None:
        finite = torch.isfinite(block.losses)
        for moved in block.change:
            finite &= torch.isfinite(moved.reshape(len(moved), -1).sum(1))
        if not bool(finite.all()):
            user = int(block.users[int((~finite).nonzero()[0])])
            raise FedcastError(
                f"training diverged in round {number} at user {user}: its loss or weights are not finite; "
                f"lower training.learning_rate = {self.settings.learning_rate} or set training.clip_norm"
            )

    def _check_weights(self, number: int, state: TrainingState) -> None:
        if not bool(torch.stack([weight.isfinite().all() for weight in state.weights]).all()):
            algorithm = self.settings.algorithm
            name = algorithm if isinstance(algorithm, str) else algorithm.summary
            raise FedcastError(
                f"algorithm {name}: the weights after aggregation of round {number} are not finite, though all uploads "
                f"are; check what its functions collect, change and server_step return, or lower the step size of the "
                f"server"
            )

    def record(
        self,
        number: int,
        weights: Tensors,
        loss: float | None,
        drift: float | None,
        present: Attendance,
        before: Record | None,
    ) -> Record:
        """Score the server's model and advance the simulated clock from the record before."""
        federation, clock, classes = self.federation, self.clock, self.federation.dataset.num_classes
        spent = (clock.sharing_s, clock.sharing_j, clock.sharing_bytes)
        if before is not None:
            cost = clock.cost_of(present, len(self.able))
            spent = (before.seconds + cost[0], before.energy_j + cost[1], before.bytes_sent + cost[2])
        result = score(self.model, weights, self.test, classes)
        if not np.isfinite([result.loss, drift or 0.0]).all():
            raise FedcastError(
                f"training diverged in round {number}: the test loss or the drift is not finite; "
                f"lower training.learning_rate = {self.settings.learning_rate} or set training.clip_norm"
            )
        noisy = None if self.noisy_test is None else score(self.model, weights, self.noisy_test, classes).accuracy
        of_users = mean_and_worst(federation.own_accuracies(result)[federation.own_sizes > 0])
        by_class = zip(result.class_accuracy.tolist(), result.tested, strict=True)
        of_classes = tuple(value if tested else None for value, tested in by_class)
        scores = (result.loss, result.accuracy, *of_users)
        steps_old = present.staleness if present.staleness is not None and len(present.users) else None
        return Record(
            number, loss, *scores, drift, len(present.users), *spent, of_classes, noisy,
            dropped_out=present.dropped_out, missed=len(present.late), surplus=len(present.surplus),
            staleness=None if steps_old is None else float(steps_old.mean()),
            max_staleness=None if steps_old is None else int(steps_old.max()),
        )  # fmt: skip


def _arrays(inputs: np.ndarray | TextWindows) -> tuple[np.ndarray, ...]:
    return (inputs,) if isinstance(inputs, np.ndarray) else (inputs.codes, inputs.starts)
