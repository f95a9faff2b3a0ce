"""Train an MLP on generated samples alone and test it on real ones, to compare kinds of sharing.

    python studies/protected/choose.py mnist    # or fashion_mnist, cifar10; then kinds or features, by default all

Heads hold 600 samples, of one class (three heads for each class) or of all classes (20 heads), and send 60 each.
Replaces rows of choose.json: test accuracy by dataset, kind, features, ε and heads, one for each seed. `pretrained` are
features of a network that was trained on scikit-learn's digits, which count as public, for MNIST.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from fedcast.data import Dataset, load_dataset
from fedcast.scenario import Data
from fedcast.sharing import Held, Request, find_sharing, make_raw, seeded_noise
from fedcast.training import build_model
from fedcast.typing import Ints

SEEDS = (0, 1)
EPSILONS = (1.0, 4.0)
HELD, SENT, STEPS, BATCH = 600, 60, 800, 64
WIDTH = 500  # of the layers of a pretrained network, as of a random one
RESULTS = Path(__file__).with_name("choose.json")
# Learning rate of the MLP; that of CIFAR-10 is the best of five from 0.002 to 0.05 for raw samples.
RATES = {"mnist": 0.05, "fashion_mnist": 0.05, "cifar10": 0.005}
# Largest root mean square of an image, and of what differs from its class mean, as in prepare.py.
CLIPS = {"mnist": (0.33, 0.2), "fashion_mnist": (0.5, 0.25), "cifar10": (0.6, 0.3)}


def heads_of(labels: Ints, seed: int) -> dict[str, list[Ints]]:
    """Return the samples of heads of one class, and of heads of all classes."""
    rng = np.random.default_rng(seed)
    by_class = [rng.permutation(np.flatnonzero(labels == label)) for label in range(10)]
    everything = rng.permutation(len(labels))
    return {
        "one class": [held[HELD * part : HELD * (part + 1)] for held in by_class for part in range(3)],
        "all classes": [everything[HELD * part : HELD * (part + 1)] for part in range(20)],
    }


def accuracy(dataset: Dataset, heads: list[Ints], kind: str, given: Mapping[str, Any], seed: int) -> float:
    """Let every head send with given options, train on all that was sent, and return the accuracy on the test set."""
    sharing, rng = find_sharing(kind), np.random.default_rng([seed, 1])
    options = sharing.options(**given)
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
    rate = RATES[dataset.name]
    optimizer = torch.optim.SGD(model.parameters(), rate, momentum=0.9)
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = rate if step < STEPS * 2 / 3 else rate / 5
        batch = torch.from_numpy(rng.integers(0, len(inputs), BATCH))
        optimizer.zero_grad()
        F.cross_entropy(model(inputs[batch]), labels[batch]).backward()
        optimizer.step()
    with torch.no_grad():
        scores = model(torch.from_numpy(np.asarray(dataset.test_inputs, dtype=np.float32) / 255))
    return float((scores.argmax(1).numpy() == dataset.test_labels).mean())


def options_of(dataset: str, kind: str, features: str, epsilon: float | None) -> dict[str, Any]:
    """Return the options of a kind: clip bounds are those of the runs (prepare.py), public numbers of each dataset."""
    if epsilon is None:
        return {}
    clip, spread = CLIPS[dataset]
    given = {"epsilon": epsilon, "clip": clip}
    if kind == "prototypes":
        return given
    if features == "pretrained":
        return given | {"spread": spread, "features": "network", "network_file": pretrained()}
    return given | {"spread": spread, "features": features}


@cache
def pretrained() -> str:
    """Train a network on scikit-learn's digits, enlarged to 28×28, and write its layers but the last to a file."""
    data, rng = load_dataset(Data(dataset="digits")), np.random.default_rng(0)
    images = np.kron(data.features(slice(None)), np.ones((3, 3), dtype=np.float32))
    images = np.pad(images, ((0, 0), (0, 0), (2, 2), (2, 2)))
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(28 * 28, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, WIDTH),
        torch.nn.ReLU(), torch.nn.Linear(WIDTH, data.num_classes),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    for _ in range(STEPS):
        batch = rng.integers(0, len(data), BATCH)
        optimizer.zero_grad()
        inputs, labels = torch.from_numpy(images[batch]), torch.from_numpy(data.labels[batch])
        F.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    layers = [layer for layer in model.modules() if isinstance(layer, torch.nn.Linear)][:-1]
    arrays = {f"weight_{place}": layer.weight.detach().numpy() for place, layer in enumerate(layers)}
    arrays |= {f"bias_{place}": layer.bias.detach().numpy() for place, layer in enumerate(layers)}
    file = Path(tempfile.mkdtemp()) / "layers.npz"
    np.savez(file, **arrays)
    return str(file)


def settings(dataset: str) -> list[tuple[str, str, float | None]]:
    """Return kind, features and ε of everything that is compared."""
    found: list[tuple[str, str, float | None]] = [("raw", "", None)]
    for kind, features in (("prototypes", ""), ("synthetic", "pixels"), ("synthetic", "fourier"),
                           ("synthetic", "network"), ("synthetic", "pretrained")):  # fmt: skip
        if features != "pretrained" or dataset == "mnist":
            found += [(kind, features, epsilon) for epsilon in EPSILONS]
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    name, only = sys.argv[1], sys.argv[2:]
    dataset = load_dataset(Data(dataset=name))
    for kind, features, epsilon in settings(name):
        if only and (features or kind) not in only:
            continue
        given = options_of(name, kind, features, epsilon)
        for held in ("one class", "all classes"):
            found = [accuracy(dataset, heads_of(dataset.labels, seed)[held], kind, given, seed) for seed in SEEDS]
            key = {"dataset": name, "kind": kind, "features": features, "epsilon": epsilon, "heads": held}
            row = key | {"accuracy": [round(one, 4) for one in found]}
            print(row, flush=True)
            stored = json.loads(RESULTS.read_text(encoding="utf-8"))
            kept = [other for other in stored if any(other[name] != value for name, value in key.items())]
            RESULTS.write_text("[\n" + ",\n".join(map(json.dumps, [*kept, row])) + "\n]\n", encoding="utf-8")
