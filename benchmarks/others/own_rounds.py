"""The plain PyTorch loop that everything is measured against, and our engines; these need numpy and PyTorch alone."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from fedcast.data import Assignment, dataset_from_arrays
from fedcast.training import Clock, Federation, TrainingSettings
from fedcast.training.trainer import Trainer
from others.turns import from_command_line
from others.workloads import Workload, make_samples

Round = Callable[[int], float]


def federation_of(work: Workload) -> Federation:
    images, labels = make_samples(work)
    dataset = dataset_from_arrays(images, labels, images[:10], labels[:10])
    offsets = np.arange(work.num_users + 1) * work.samples_per_user
    users = Assignment(np.arange(work.total), offsets)
    return Federation(dataset, users, users.sizes, np.full((work.num_users, 10), 0.1))


def plain_loop(federation: Federation, model: nn.Module, work: Workload) -> Round:
    """Train as a first own script would: a copy of the model per user, a data loader by hand, an average at the end."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dataset = federation.dataset
    inputs = torch.from_numpy(np.asarray(dataset.inputs)).to(device)
    labels = torch.from_numpy(dataset.labels).to(device)
    server = copy.deepcopy(model).to(device)

    def one_round(number: int) -> float:
        rng = np.random.default_rng(number)
        total = [torch.zeros_like(weight) for weight in server.parameters()]
        losses = []
        for user in work.participants(number):
            local = copy.deepcopy(server)
            optimizer = torch.optim.SGD(local.parameters(), work.learning_rate)
            held = federation.users.of(int(user))
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


def our_engine(federation: Federation, model: nn.Module, work: Workload, *, compiled: bool) -> Round:
    trainer = Trainer(federation, copy.deepcopy(model), settings(work, compiled), 0, Clock(), set())
    _, state, _ = trainer.start(None)

    def one_round(number: int) -> float:
        _, loss, _ = trainer.round(number, work.participants(number), state)
        assert loss is not None
        return loss

    return one_round


def settings(work: Workload, compiled: bool) -> TrainingSettings:
    return TrainingSettings(
        batch_size=work.batch_size, local_epochs=work.epochs, learning_rate=work.learning_rate,
        participation=work.per_round / work.num_users, precision=precision(work), engine="stacked",
        compile="always" if compiled else "never",
    )  # fmt: skip


def precision(work: Workload) -> str:
    """As BENCHMARKS measures it: TF32 for the large model on a GPU."""
    return "tf32" if work.name == "gpu_w4" else "float32"


def main() -> None:
    turns = from_command_line("loop", "stacked", "compiled")
    torch.set_num_threads(1)
    on_gpu = torch.cuda.is_available()
    tf32 = on_gpu and precision(turns.work) == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    federation = federation_of(turns.work)
    model: nn.Module = torch.load(turns.model, weights_only=False)
    if turns.way == "loop":
        one_round = plain_loop(federation, model, turns.work)
    else:
        one_round = our_engine(federation, model, turns.work, compiled=turns.way == "compiled")
    turns.ready()
    for number in range(1, turns.rounds + 1):
        turns.start()
        loss = one_round(number)
        if on_gpu:
            torch.cuda.synchronize()
        turns.stop(loss)
    turns.note_peak()
    gpu = {"peak_gpu_mib": torch.cuda.max_memory_allocated() / 2**20} if on_gpu else {}
    turns.finish(version=f"torch {torch.__version__}", **gpu)


if __name__ == "__main__":
    main()
