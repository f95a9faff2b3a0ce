"""Federated averaging as pfl-research's tutorials write it: `pip install "pfl[pytorch]==0.6.*"`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from pfl.aggregate.simulate import SimulatedBackend  # type: ignore[import-not-found]
from pfl.aggregate.weighting import WeightByDatapoints  # type: ignore[import-not-found]
from pfl.algorithm.base import NNAlgorithmParams  # type: ignore[import-not-found]
from pfl.algorithm.federated_averaging import FederatedAveraging  # type: ignore[import-not-found]
from pfl.callback.base import TrainingProcessCallback  # type: ignore[import-not-found]
from pfl.data.federated_dataset import FederatedDataset  # type: ignore[import-not-found]
from pfl.data.pytorch import PyTorchTensorDataset  # type: ignore[import-not-found]
from pfl.hyperparam import NNTrainHyperParams  # type: ignore[import-not-found]
from pfl.metrics import Metrics, Weighted  # type: ignore[import-not-found]
from pfl.model.pytorch import PyTorchModel  # type: ignore[import-not-found]
from torch import Tensor, nn

from others.turns import Turns, from_command_line
from others.workloads import Workload, scaled_samples


class Network(nn.Module):
    """The network with the two methods that pfl asks for; notes the loss of every step."""

    def __init__(self, layers: nn.Module) -> None:
        super().__init__()
        self.layers = layers
        self.losses: list[Tensor] = []

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits."""
        logits: Tensor = self.layers(inputs)
        return logits

    def loss(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Return the loss."""
        loss = F.cross_entropy(self(inputs), labels)
        self.losses.append(loss.detach())
        return loss

    @torch.no_grad()
    def metrics(self, inputs: Tensor, labels: Tensor) -> dict[str, Any]:
        """Return the metrics of an evaluation of users, which happens in the first round alone."""
        return {"loss": Weighted(F.cross_entropy(self(inputs), labels, reduction="sum").item(), len(labels))}


class Shuffled(PyTorchTensorDataset):  # type: ignore[misc]
    """A user's samples in a new order every epoch, as everywhere else: pfl by itself keeps order and batches.

    Without this its users fit the same small last batch again and again, and its loss falls along another curve.
    """

    def iter(self, batch_size: int | None) -> Iterator[tuple[Tensor, Tensor]]:
        """Batches of one epoch."""
        order = torch.randperm(len(self))
        inputs, labels = (tensor[order].split(batch_size or len(order)) for tensor in self.raw_data)
        return zip(inputs, labels, strict=True)


class Cohorts:
    """Hands out the users of each round one by one, the same users as everywhere else."""

    def __init__(self, work: Workload) -> None:
        self.work, self.number = work, 0
        self.waiting: list[int] = []

    def __call__(self) -> int:
        """Return the next user."""
        if not self.waiting:
            self.number += 1
            self.waiting = [int(user) for user in self.work.participants(self.number)]
        return self.waiting.pop(0)


class Report(TrainingProcessCallback):  # type: ignore[misc]
    """Tells how each round went, between one round and the next."""

    def __init__(self, turns: Turns, network: Network) -> None:
        self.turns, self.network = turns, network

    def after_central_iteration(
        self, aggregate_metrics: Any, model: Any, *, central_iteration: int
    ) -> tuple[bool, Any]:
        """Note that the server's model has been updated."""
        del aggregate_metrics, model
        self.turns.stop(float(torch.stack(self.network.losses).mean()))
        self.network.losses.clear()
        if central_iteration + 1 < self.turns.rounds:
            self.turns.start()
        return False, Metrics()


def main() -> None:
    logging.disable(logging.WARNING)
    turns = from_command_line()
    work = turns.work
    torch.set_num_threads(1)
    np.random.seed(0)  # noqa: NPY002 - pfl draws its seeds from here
    images, labels = (torch.from_numpy(array) for array in scaled_samples(work))
    users = [Shuffled((images[held], labels[held])) for held in map(work.of_user, range(work.num_users))]
    network = Network(torch.load(turns.model, weights_only=False))
    model = PyTorchModel(
        network,
        local_optimizer_create=torch.optim.SGD,
        central_optimizer=torch.optim.SGD(network.parameters(), lr=1.0),
    )
    backend = SimulatedBackend(
        training_data=FederatedDataset(users.__getitem__, Cohorts(work)),
        val_data=None,
        postprocessors=[WeightByDatapoints()],
    )
    turns.ready()
    turns.start()
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=turns.rounds,
            evaluation_frequency=turns.rounds,  # users are evaluated in the first round alone, which is not counted
            train_cohort_size=work.per_round,
            val_cohort_size=None,
        ),
        backend=backend,
        model=model,
        model_train_params=NNTrainHyperParams(
            local_num_epochs=work.epochs, local_learning_rate=work.learning_rate, local_batch_size=work.batch_size
        ),
        callbacks=[Report(turns, network)],
        send_metrics_to_platform=False,
    )
    turns.note_peak()
    turns.finish(version=f"pfl {version('pfl')}, torch {torch.__version__}")


if __name__ == "__main__":
    main()
