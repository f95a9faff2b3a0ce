"""The simulated Flower client; a module of its own, so that Ray's workers can import it."""

from __future__ import annotations

from functools import cache

import torch
import torch.nn.functional as F
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict  # type: ignore[import-not-found]
from flwr.clientapp import ClientApp  # type: ignore[import-not-found]
from torch import Tensor, nn

from others.workloads import WORKLOADS, scaled_samples

client = ClientApp()


@cache
def load(workload: str) -> tuple[Tensor, Tensor]:
    """Load all samples, once per process, as the quickstart keeps its dataset."""
    images, labels = scaled_samples(WORKLOADS[workload])
    return torch.from_numpy(images), torch.from_numpy(labels)


@cache
def network(path: str) -> nn.Module:
    """Build the network, once per process; every client loads the server's weights into it."""
    torch.set_num_threads(1)
    model: nn.Module = torch.load(path, weights_only=False)
    return model


@client.train()  # type: ignore[untyped-decorator]
def train(message: Message, context: Context) -> Message:
    """Train one user."""
    config = message.content["config"]
    work = WORKLOADS[config["workload"]]
    model = network(config["model"])
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    images, labels = load(work.name)
    held = work.of_user(int(context.node_config["partition-id"]))
    images, labels = images[held], labels[held]
    optimizer = torch.optim.SGD(model.parameters(), lr=work.learning_rate)
    losses = []
    for _ in range(work.epochs):
        order = torch.randperm(len(labels))
        batches = zip(images[order].split(work.batch_size), labels[order].split(work.batch_size), strict=True)
        for inputs, targets in batches:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), targets)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    metrics = {"train_loss": float(torch.stack(losses).mean()), "num-examples": len(labels)}
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord(metrics)})
    return Message(content=content, reply_to=message)
