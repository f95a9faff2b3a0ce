"""Train an exported run by a plain loop over users (FedAvg), and compare it with fedcast: `python train.py`."""

from pathlib import Path

import torch
from model import build
from task import Task

FOLDER = Path(__file__).resolve().parent.parent


def main():
    """Train all rounds and write the accuracy after each to history_pytorch.csv."""
    task = Task(FOLDER)
    model = build(FOLDER).to(task.dtype)
    model.load_state_dict(task.initial_weights())
    curve = [task.score(model)]
    for number in range(1, task.settings["rounds"] + 1):
        train_round(task, model, number)
        curve.append(task.score(model))
        print(f"round {number}: accuracy {curve[-1][0]:.4f}, test loss {curve[-1][1]:.4f}", flush=True)
    torch.save(model.state_dict(), FOLDER / "weights_pytorch.pt")
    task.compare(curve, "history_pytorch.csv")


def train_round(task, model, number):
    """Train every user of a round from the same weights, and average what they changed."""
    start = [weight.detach().clone() for weight in model.parameters()]
    total = [torch.zeros_like(weight) for weight in start]
    users = task.participants(number)
    for user in users:
        with torch.no_grad():
            for weight, first in zip(model.parameters(), start, strict=True):
                weight.copy_(first)
        task.train_user(model, user, number)
        share = task.weights[user] / task.weights[users].sum()
        for change, weight, first in zip(total, model.parameters(), start, strict=True):
            change += share * (weight.detach() - first)
    with torch.no_grad():
        for weight, first, change in zip(model.parameters(), start, total, strict=True):
            weight.copy_(first + change)


if __name__ == "__main__":
    main()
