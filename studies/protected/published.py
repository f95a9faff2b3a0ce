"""Train an MLP on generated Fashion-MNIST samples of one head alone, as published tables of DP image generators do.

    python studies/protected/published.py

The head holds all 60,000 training samples or 600 of them, and sends 10,000. Writes published.json: test accuracy by
kind, ε and samples held.
"""

from __future__ import annotations

import json
from pathlib import Path

import choose
import numpy as np
import torch

from fedcast.data import load_dataset
from fedcast.scenario import Data

if __name__ == "__main__":
    torch.set_num_threads(1)
    choose.SENT, choose.STEPS = 10_000, 3_000
    dataset = load_dataset(Data(dataset="fashion_mnist"))
    everything = np.random.default_rng(0).permutation(len(dataset.labels))
    rows = []
    for held in (60_000, 600):
        for kind, epsilon in (("synthetic", 1.0), ("synthetic", 4.0), ("synthetic", 10.0), ("prototypes", 1.0)):
            found = choose.accuracy(dataset, [everything[:held]], kind, {"epsilon": epsilon}, 0)
            rows.append({"kind": kind, "epsilon": epsilon, "held": held, "accuracy": round(found, 4)})
            print(rows[-1], flush=True)
    lines = ",\n".join(map(json.dumps, rows))
    Path(__file__).with_name("published.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
