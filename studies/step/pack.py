"""Pack the runs of the learning rate study: FedAvg as in the paper's tables but for the step and the rounds.

    python studies/step/pack.py cifar10 out/step/pack
    python studies/step/train.py out/step/pack out/step/trained --rounds 25 --processes 4

The second command needs PyTorch and NumPy alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

from fedcast.runs import pack
from fedcast.scenario import Scenario
from fedcast_paper.job import Job
from fedcast_paper.training_setting import dirichlet, scenario, shared_by, task

# (momentum, learning rate). Both momenta in turns, so that the first processes compile the steps of both.
GRIDS = {
    "cifar10": [
        (0.0, 0.0025), (0.9, 0.0005), (0.0, 0.00125), (0.9, 0.001),
        (0.0, 0.01), (0.9, 0.00025), (0.9, 0.002), (0.0, 0.005), (0.9, 0.004),
    ],
    "shakespeare": [(0.0, 0.4), (0.0, 0.8), (0.0, 1.6), (0.0, 3.2), (0.0, 6.4)],
}  # fmt: skip
SKEWS = {"cifar10": dirichlet(0.1), "shakespeare": ()}
ROUNDS = {"cifar10": 100, "shakespeare": 300}
SEEDS = (0, 1)


def of_grid(dataset: str, momentum: float, rate: float, seed: int) -> Scenario:
    """Return the scenario of a point of a dataset's grid."""
    job = Job("full")
    step = (f"training.momentum={momentum}", f"training.learning_rate={rate}", f"seed={seed}")
    setting = task(job, dataset, *SKEWS[dataset], rounds=ROUNDS[dataset])
    return scenario(job, *setting, *shared_by("none"), *step)


def main(dataset: str, folder: Path) -> None:
    scenarios = [of_grid(dataset, *point, seed) for seed in SEEDS for point in GRIDS[dataset]]
    print(f"{len(pack(scenarios, folder.parent / 'runs', folder))} runs in {folder}")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
