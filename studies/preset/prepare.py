"""Pack the runs that test the plan of the preset mnist against FedAvg at its best.

    python studies/preset/prepare.py out/preset [best daca blend]

writes the pack and the run folders' inputs to the folder, of all rules or of those named. Train it with
`python -m fedcast.training.packed`, which needs PyTorch and NumPy alone, then read the histories with `read.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from pathlib import Path

from fedcast.runs import pack
from fedcast.scenario import Scenario, load_scenario

SEEDS = range(5)
# Rule, local epochs ("" leaves the choice to the plan) and rounds to train, about twice those predicted.
STRATEGIES = [
    ("none", "1", 30), ("none", "2", 20), ("none", "3", 14), ("none", "5", 12), ("none", "8", 10),
    ("best", "", 12), ("daca", "", 12), ("blend", "", 12),
]  # fmt: skip


def scenarios(rules: Collection[str]) -> list[Scenario]:
    """Return the scenario of every run of some rules."""
    return [
        load_scenario(
            base="mnist",
            overrides=[
                f"seed={seed}", f"clustering.rule={rule}", f"training.rounds={rounds}", "training.compile=never",
                *([f"training.local_epochs={epochs}"] if epochs else []),
            ],
        )
        for seed in SEEDS
        for rule, epochs, rounds in STRATEGIES
        if rule in rules
    ]  # fmt: skip


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    names = pack(scenarios(sys.argv[2:] or {rule for rule, *_ in STRATEGIES}), folder / "store", folder / "pack")
    print(f"{len(names)} runs in {folder / 'pack'}")
