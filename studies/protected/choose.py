"""Train an MLP on generated MNIST samples alone and test it on real ones, to compare kinds of sharing.

    python studies/protected/choose.py

Heads hold 600 samples, of one class (three heads for each class) or of all classes (20 heads), and send 60 each. Writes
choose.json: test accuracy by kind, ε and heads, one for each seed.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from fedcast.data import Dataset, load_dataset
from fedcast.scenario import Data
from fedcast.sharing import Held, Request, find_sharing, make_raw, seeded_noise
from fedcast.training import build_model
from fedcast.typing import Ints

SEEDS = (0, 1)
EPSILONS = (1.0, 2.0, 4.0, 8.0)
HELD, SENT, STEPS, BATCH = 600, 60, 800, 64


def heads_of(labels: Ints, seed: int) -> dict[str, list[Ints]]:
    """Return the samples of heads of one class, and of heads of all classes."""
    rng = np.random.default_rng(seed)
    by_class = [rng.permutation(np.flatnonzero(labels == label)) for label in range(10)]
    everything = rng.permutation(len(labels))
    return {
        "one class": [held[HELD * part : HELD * (part + 1)] for held in by_class for part in range(3)],
        "all classes": [everything[HELD * part : HELD * (part + 1)] for part in range(20)],
    }


def accuracy(dataset: Dataset, heads: list[Ints], kind: str, epsilon: float | None, seed: int) -> float:
    """Let every head send, train on all that was sent, and return the accuracy on the test set."""
    sharing, rng = find_sharing(kind), np.random.default_rng([seed, 1])
    options = sharing.options() if epsilon is None else sharing.options(epsilon=epsilon)
    request = Request(SENT, True, rng, seeded_noise(rng))
    made = [
        (sharing.make or make_raw)(Held(dataset.features(held), dataset.labels[held], 10), request, options)
        for held in heads
    ]
    inputs = torch.from_numpy(np.clip(np.concatenate([some.inputs for some in made]), 0, 1).astype(np.float32))
    one_hot = np.eye(10, dtype=np.float32)
    targets = [one_hot[some.labels] if some.soft_labels is None else some.soft_labels for some in made]
    labels = torch.from_numpy(np.concatenate(targets))
    model = build_model("mlp", dataset.sample_shape, 10, seed)
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = 0.05 if step < STEPS * 2 / 3 else 0.01
        batch = torch.from_numpy(rng.integers(0, len(inputs), BATCH))
        optimizer.zero_grad()
        F.cross_entropy(model(inputs[batch]), labels[batch]).backward()
        optimizer.step()
    with torch.no_grad():
        scores = model(torch.from_numpy(np.asarray(dataset.test_inputs, dtype=np.float32) / 255))
    return float((scores.argmax(1).numpy() == dataset.test_labels).mean())


if __name__ == "__main__":
    torch.set_num_threads(1)
    mnist = load_dataset(Data(dataset="mnist"))
    settings: list[tuple[str, float | None]] = [("raw", None), ("mixed", None)]
    settings += [(kind, epsilon) for kind in ("prototypes", "synthetic") for epsilon in EPSILONS]
    rows = []
    for kind, epsilon in settings:
        for name in ("one class", "all classes"):
            found = [accuracy(mnist, heads_of(mnist.labels, seed)[name], kind, epsilon, seed) for seed in SEEDS]
            rows.append({"kind": kind, "epsilon": epsilon, "heads": name, "accuracy": [round(one, 4) for one in found]})
            print(rows[-1], flush=True)
    Path(__file__).with_name("choose.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
