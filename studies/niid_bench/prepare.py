"""Pack the rows of NIID-Bench's table for MNIST and CIFAR-10, those that matter most first.

    python studies/niid_bench/prepare.py out/niid

writes the pack and the run folders' inputs to the folder. Train it with `python -m fedcast.training.packed`, which
needs PyTorch and NumPy alone, then read the histories with `read.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from fedcast.runs import pack
from fedcast.scenario import Scenario, load_scenario

SEEDS = (0, 1, 2)
PRESETS = ("niid-cifar10", "niid-mnist")
# The partitions of the table, in the order in which they are trained.
PARTITIONS: list[dict[str, object]] = [
    {"data.partition": "dirichlet"},
    *({"data.partition": "shards", "data.shards.classes_per_user": classes} for classes in (1, 2, 3)),
    {"data.partition": "iid"},
    {"data.partition": "quantity"},
    {"data.partition": "noise"},
]
ALGORITHMS: list[dict[str, object]] = [
    {"training.algorithm": "fedavg"},
    {"training.algorithm": "fedprox", "training.fedprox.prox_weight": 0.01},
    {"training.algorithm": "scaffold"},
    {"training.algorithm": "fednova"},
]
# The other weights among which NIID-Bench takes the best, after everything else.
OTHER_WEIGHTS: list[dict[str, object]] = [
    {"training.algorithm": "fedprox", "training.fedprox.prox_weight": weight} for weight in (0.001, 0.1, 1.0)
]


def scenarios() -> list[Scenario]:
    """Return the scenario of every run."""
    return [
        load_scenario(base=base, overrides={"seed": seed, "training.compile": "never", **partition, **algorithm})
        for algorithms in (ALGORITHMS, OTHER_WEIGHTS)
        for seed in SEEDS
        for partition in PARTITIONS
        for base in PRESETS
        for algorithm in algorithms
    ]


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    names = pack(scenarios(), folder / "store", folder / "pack")
    print(f"{len(names)} runs in {folder / 'pack'}")
