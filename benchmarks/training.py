"""Federated training: seconds per round of our engines against a plain PyTorch loop, and against other frameworks.

W1: MNIST CNN, batch 10, 10 of 100 users a round.  W2: MNIST CNN, batch 32, all 100 users.  W3: digits MLP, batch 10, all
100 users, 5 epochs.  W4: VGG-16, batch 32, 50 users (GPU only).  Inputs are random where no dataset is at hand: the work
is the same. Other frameworks are measured where they are installed, each in its own environment, by
`benchmarks/others.py`; pass its JSON files with --others.
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from fedcast.data.assignment import Assignment
from fedcast.data.dataset import dataset_from_arrays
from fedcast.training import Federation, build_model
from fedcast.training.run import _Run
from harness import Figure, run


@dataclass(frozen=True)
class Workload:
    """One setting of BENCHMARKS."""

    name: str
    model: str
    shape: tuple[int, ...]
    num_users: int
    samples_per_user: int
    per_round: int
    batch_size: int
    epochs: int
    learning_rate: float

    @property
    def samples(self) -> int:
        """Samples stepped through in a round."""
        return self.per_round * self.samples_per_user * self.epochs


WORKLOADS = {
    "w1": Workload("w1", "cnn", (1, 28, 28), 100, 600, 10, 10, 1, 0.05),
    "w2": Workload("w2", "cnn", (1, 28, 28), 100, 600, 100, 32, 1, 0.05),
    "w3": Workload("w3", "mlp", (1, 8, 8), 100, 14, 100, 10, 5, 0.05),
    "gpu_w1": Workload("gpu_w1", "cnn", (1, 28, 28), 100, 600, 100, 10, 1, 0.05),
    "gpu_w4": Workload("gpu_w4", "vgg16", (3, 32, 32), 50, 200, 50, 32, 1, 0.01),
}


def federation_of(work: Workload) -> Federation:
    """Random images that carry their label, so that losses can be compared."""
    rng = np.random.default_rng(0)
    total = work.num_users * work.samples_per_user
    labels = rng.integers(0, 10, total)
    patterns = rng.random((10, *work.shape))
    images = (0.5 * patterns[labels] + 0.5 * rng.random((total, *work.shape))) * 255
    dataset = dataset_from_arrays(images.astype(np.uint8), labels, images[:10].astype(np.uint8), labels[:10])
    offsets = np.arange(work.num_users + 1) * work.samples_per_user
    users = Assignment(np.arange(total), offsets)
    return Federation(dataset, users, users.sizes, np.full((work.num_users, 10), 0.1))


def settings(work: Workload, **changes: Any) -> Any:
    """The training settings, as plain values: pydantic need not be there."""
    base = {
        "algorithm": "fedavg", "aggregation": "shared", "batch_size": work.batch_size, "local_epochs": work.epochs,
        "learning_rate": work.learning_rate, "learning_rate_decay": 1.0, "momentum": 0.0, "weight_decay": 0.0,
        "clip_norm": None, "prox_weight": 0.0, "server_optimizer": "none", "server_learning_rate": 1.0, "rounds": 100,
        "participation": work.per_round / work.num_users, "device": "auto", "precision": "float32", "engine": "stacked", "compile": "never",
    }  # fmt: skip
    return _Settings(**(base | changes))


class _Settings(SimpleNamespace):
    def __iter__(self) -> Any:
        return iter(vars(self).items())


def plain_loop(
    federation: Federation, model: nn.Module, work: Workload, device: torch.device
) -> Callable[[int], float]:
    """What a person writes first: a copy of the model per user, a data loader by hand, an average at the end."""
    dataset = federation.dataset
    inputs = torch.from_numpy(np.asarray(dataset.inputs)).to(device)
    labels = torch.from_numpy(dataset.labels).to(device)
    server = copy.deepcopy(model).to(device)

    def one_round(number: int) -> float:
        rng = np.random.default_rng(number)
        total = [torch.zeros_like(weight) for weight in server.parameters()]
        losses = []
        for user in range(work.per_round):
            local = copy.deepcopy(server)
            optimizer = torch.optim.SGD(local.parameters(), work.learning_rate)
            held = federation.users.of(user)
            for _ in range(work.epochs):
                order = torch.from_numpy(rng.permutation(held)).to(device)
                for batch in order.split(work.batch_size):
                    optimizer.zero_grad()
                    loss = F.cross_entropy(local(inputs[batch].float() / 255), labels[batch])
                    loss.backward()
                    optimizer.step()
                    losses.append(loss.detach())
            with torch.no_grad():
                for sum_of, weight in zip(total, local.parameters(), strict=True):
                    sum_of += weight / work.per_round
        with torch.no_grad():
            for weight, mean in zip(server.parameters(), total, strict=True):
                weight.copy_(mean)
        return float(torch.stack(losses).mean())

    return one_round


def our_engine(federation: Federation, model: nn.Module, work: Workload, **changes: Any) -> Callable[[int], float]:
    engine = _Run(federation, copy.deepcopy(model), settings(work, **changes), 0, _NO_CLOCK)
    _, state, controls, _ = engine.start(None)
    users = np.arange(work.per_round)

    def one_round(number: int) -> float:
        loss, _ = engine.round(number, users, state, controls)
        assert loss is not None
        return loss

    return one_round


_NO_CLOCK: Any = SimpleNamespace(sharing_s=0, round_s=0, sharing_j=0, round_j=0, sharing_bytes=0, round_bytes=0)


def in_turns(ways: dict[str, Callable[[int], float]], repeats: int) -> tuple[dict[str, float], dict[str, float]]:
    """Median seconds per round of each way, measured in turns after one warm-up round, and its last loss."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    losses = {name: one_round(1) for name, one_round in ways.items()}
    for number in range(2, 2 + repeats):
        for name, one_round in ways.items():
            _synchronise()
            start = time.perf_counter()
            losses[name] = one_round(number)
            _synchronise()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}, losses


def _synchronise() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def measure_workload(work: Workload, repeats: int, *, compiled: bool, precision: str = "float32") -> dict[str, Figure]:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    federation = federation_of(work)
    model = build_model(work.model, work.shape, 10, seed=0)
    ways = {
        "loop": plain_loop(federation, model, work, device),
        "stacked": our_engine(federation, model, work, precision=precision),
    }
    if compiled:
        ways["compiled"] = our_engine(federation, model, work, precision=precision, compile="always")
    times, losses = in_turns(ways, repeats)
    spread = max(losses.values()) - min(losses.values())
    if spread > 0.05 * max(losses.values()) + 0.02:
        raise AssertionError(f"{work.name}: the ways end at different losses: {losses}")
    best = min(times, key=lambda name: times[name] if name != "loop" else float("inf"))
    shown = ", ".join(f"{name} {value:.4g} s" for name, value in times.items())
    how = f"seconds per round, median of {repeats}, in turns: {shown}; best: {best}; losses within {spread:.2g}"
    return {
        f"training.{work.name}_ratio_loop": Figure(times["loop"] / times[best], "", how),
        f"training.{work.name}_sps": Figure(work.samples / times[best], "samples/s", f"best engine, {device.type}"),
    }


def measure(quick: bool) -> dict[str, Figure]:
    figures: dict[str, Figure] = {}
    if torch.cuda.is_available():
        figures |= measure_workload(WORKLOADS["gpu_w1"], 2 if quick else 5, compiled=not quick)
        figures |= measure_workload(WORKLOADS["gpu_w4"], 2 if quick else 5, compiled=False, precision="tf32")
        return figures
    torch.set_num_threads(1)
    figures |= measure_workload(WORKLOADS["w3"], 5 if quick else 20, compiled=True)
    figures |= measure_workload(WORKLOADS["w1"], 2 if quick else 7, compiled=not quick)
    if not quick:
        figures |= measure_workload(WORKLOADS["w2"], 3, compiled=True)
    return figures


if __name__ == "__main__":
    run("training", measure)
