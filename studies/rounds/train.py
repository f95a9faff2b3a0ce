"""Train every world that `prepare.py` made; needs PyTorch and NumPy alone.

    python studies/rounds/train.py out/rounds out/rounds/accuracy.json --model cnn --seconds 560

Writes the test accuracy after every round of each run as it goes; a second call skips runs that are done.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from fedcast.data import Assignment, Dataset
from fedcast.training import Federation, build_model, train

# FedAvg, all users every round, batch 10; MNIST: one epoch, step 0.05; digits: five epochs, step 0.1.
SETTINGS: dict[str, Any] = {
    "algorithm": "fedavg", "aggregation": "shared", "batch_size": 10,
    "learning_rate_decay": 1.0, "momentum": 0.0, "weight_decay": 0.0, "clip_norm": None, "prox_weight": 0.0,
    "server_optimizer": "none", "server_learning_rate": 1.0, "participation": 1.0, "dropout_probability": 0.0,
    "device": "auto", "precision": "float32", "engine": "stacked", "compile": "never", "checkpoint_every": 1000,
}  # fmt: skip


class Settings(SimpleNamespace):
    """The training section of a scenario as plain values."""

    def __iter__(self) -> Any:
        return iter(vars(self).items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", default="cnn")
    parser.add_argument("--epochs", type=int, default=1, help="local epochs")
    parser.add_argument("--step", type=float, default=0.05, help="learning rate")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no new run after so long")
    options = parser.parse_args()
    started = time.monotonic()
    stored = np.load(options.folder / "dataset.npz")
    worlds = np.load(options.folder / "worlds.npz")
    classes = int(stored["labels"].max()) + 1
    dataset = Dataset(
        "study", stored["inputs"], stored["labels"], stored["test_inputs"], stored["test_labels"], classes, 0.0,
        float(stored["scale"]), tuple(str(label) for label in range(classes)),
    )  # fmt: skip
    done: dict[str, list[float]] = json.loads(options.out.read_text()) if options.out.exists() else {}
    with (options.folder / "runs.csv").open() as stream:
        runs = list(csv.DictReader(stream))
    for run in runs:
        name = run["name"]
        if name in done or time.monotonic() - started > options.seconds:
            continue
        counts = worlds[f"{name}/counts"]
        users = Assignment(worlds[f"{name}/samples"].astype(np.int64), worlds[f"{name}/offsets"])
        sizes = counts.sum(axis=1)
        federation = Federation(dataset, users, sizes, counts / np.maximum(sizes, 1)[:, None])
        seed = int(run["seed"])
        model = build_model(options.model, stored["inputs"].shape[1:], classes, seed)
        chosen = {"local_epochs": options.epochs, "learning_rate": options.step, "rounds": int(run["max_rounds"])}
        settings: Any = Settings(**SETTINGS, **chosen)
        outcome = train(federation, model, settings, seed=seed)
        done[name] = [round(accuracy, 6) for accuracy in outcome.history.column("accuracy")]
        options.out.write_text(json.dumps(done))
        print(f"{time.monotonic() - started:5.0f} s  {name}  {done[name][-1]:.4f}", flush=True)


if __name__ == "__main__":
    main()
