"""Pack the runs of the learning rate study on CIFAR-10: FedAvg on Dir 0.1, as in the paper's table but for the step.

    python studies/cifar10_step/pack.py out/cifar10_step/pack
    python studies/cifar10_step/train.py out/cifar10_step/pack out/cifar10_step/trained --rounds 25 --processes 4

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
GRID = [
    (0.0, 0.0025), (0.9, 0.0005), (0.0, 0.00125), (0.9, 0.001),
    (0.0, 0.01), (0.9, 0.00025), (0.9, 0.002), (0.0, 0.005), (0.9, 0.004),
]  # fmt: skip
SEEDS = (0, 1)


def of_grid(momentum: float, rate: float, seed: int) -> Scenario:
    """Return the scenario of a point of the grid."""
    changes = (*dirichlet(0.1), f"training.momentum={momentum}", f"training.learning_rate={rate}", f"seed={seed}")
    return scenario(Job(), *task(Job(), "cifar10"), *shared_by("none"), *changes)


def main(folder: Path) -> None:
    scenarios = [of_grid(*point, seed) for seed in SEEDS for point in GRID]
    print(f"{len(pack(scenarios, folder.parent / 'runs', folder))} runs in {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
