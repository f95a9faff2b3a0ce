"""Pack the runs of kinds of sharing against ε on MNIST, with all users and with 80 % of them of one class.

    python studies/protected/prepare.py out/protected cnn

writes the pack and the run folders' inputs to the folder. Train it with `python -m fedcast.training.packed`, which
needs PyTorch and NumPy alone, then read the histories with `read.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from fedcast.runs import pack
from fedcast.scenario import Scenario, load_scenario

SEEDS = (0, 1)
# Share of users of one class, and rounds to train.
SKEWS = {1.0: 100, 0.8: 50}
# Rule, kind of sharing and ε, in the order in which they are trained.
SETTINGS = [
    ("none", "raw", None), ("daca", "raw", None), ("daca", "synthetic", 4), ("daca", "prototypes", 4),
    ("daca", "synthetic", 1), ("daca", "prototypes", 1), ("daca", "synthetic", 2), ("daca", "synthetic", 8),
    ("daca", "prototypes", 2), ("daca", "prototypes", 8), ("daca", "mixed", None),
]  # fmt: skip
VOLUME = 0.1  # of a head's samples


def scenario_of(share: float, rule: str, kind: str, epsilon: float | None, seed: int, model: str) -> Scenario:
    """Return the scenario of one run, with fixed volumes and one local epoch."""
    values = {
        "seed": seed, "data.label_skew.single_class_share": share, "clustering.rule": rule,
        "clustering.sharing_ratio": VOLUME, "allocation.method": "fixed", "allocation.fixed.ratio": VOLUME,
        "sharing.kind": kind, "training.rounds": SKEWS[share], "training.local_epochs": 1, "training.model": model,
        "training.learning_rate": 0.05, "training.compile": "never",
    }  # fmt: skip
    if epsilon is not None:
        values[f"sharing.{kind}.epsilon"] = epsilon
    return load_scenario(base="mnist", overrides=[f"{key}={value}" for key, value in values.items()])


def scenarios(model: str) -> list[Scenario]:
    """Return the scenario of every run."""
    return [scenario_of(share, *setting, seed, model) for seed in SEEDS for setting in SETTINGS for share in SKEWS]


if __name__ == "__main__":
    folder, model = Path(sys.argv[1]), sys.argv[2]
    names = pack(scenarios(model), folder / "store", folder / "pack")
    print(f"{len(names)} runs in {folder / 'pack'}")
