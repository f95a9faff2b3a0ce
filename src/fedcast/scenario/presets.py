"""Presets: scenarios with a name, and what `fedcast compare` varies with them."""

from __future__ import annotations

from typing import Any

from fedcast.scenario.moved import Tree


def _niid_bench(dataset: str, target_accuracy: float, **training: Any) -> Tree:
    """Return the settings of NIID-Bench's scripts (github.com/Xtra-Computing/NIID-Bench, scripts/image-data-*.sh)."""
    return {
        "data": {
            "dataset": dataset, "num_users": 10, "partition": "dirichlet",
            "dirichlet": {"alpha": 0.5, "min_samples": 10, "balanced": True},
            "shards": {"holders": "random"},
            "quantity": {"alpha": 0.5, "min_samples": 10},
        },
        "devices": {"energy_budget_j": 1e3},
        "clustering": {"rule": "none"},
        "rounds": {"target_accuracy": target_accuracy},
        "allocation": {"method": "fixed"},
        "training": {
            "model": "lenet5", "rounds": 50, "local_epochs": 10, "batch_size": 64, "learning_rate": 0.01,
            "momentum": 0.9, "weight_decay": 1e-5, **training,
        },
    }  # fmt: skip


# Table I of the paper as printed, under the reading of its sidelink that gives v_th a meaning (SPEC §3, §4).
PRESETS: dict[str, Tree] = {
    "default": {},
    "paper": {
        "sidelink": {"model": "los_only", "tx_gain_db": 0.0, "rx_gain_db": 0.0},
        "devices": {"energy_coefficient": 4e-26, "energy_budget_j": 0.005},
        "clustering": {"rule": "daca"},
        "rounds": {"form": "paper", "fit": "paper-0.95", "target_accuracy": 0.95},
        "allocation": {"max_sharing_ratio": 1.0},
        "training": {"local_epochs": 1, "learning_rate": 0.05},
    },
    # Tasks with a fit of rounds of our own, at the learning rate that is best for FedAvg (studies/rounds).
    # Digits stand for photographs of 31 kB that take 3 million cycles each, so that all parts of the delay show. A head
    # may share half of what it holds, since 14 samples are little to share from.
    "digits": {
        "data": {"bits_per_sample": 250e3},
        "devices": {"cycles_per_sample": 3e6},
        "allocation": {"max_sharing_ratio": 0.5},
        "rounds": {"fit": "digits", "target_accuracy": 0.85},
        "training": {"model": "small_cnn", "learning_rate": 0.4, "rounds": 60},
    },
    "mnist": {
        "data": {"dataset": "mnist"},
        "rounds": {"fit": "mnist", "target_accuracy": 0.95},
        "training": {"learning_rate": 0.2},
    },
    # NIID-Bench (Li et al. 2022), which has neither a network nor devices: nothing is shared, and no budget limits
    # anybody. `STUDIES` has the algorithms and partitions of its table.
    "niid-mnist": _niid_bench("mnist", 0.95),
    "niid-fashion-mnist": _niid_bench("fashion_mnist", 0.8),
    "niid-cifar10": _niid_bench("cifar10", 0.5, augmentation="crop_flip"),
}

# What `fedcast compare` varies with a preset, as the table [study] of a scenario file says it.
STUDIES: dict[str, Tree] = {
    name: {
        "rules": ["none"],
        "algorithms": ["fedavg", "fedprox", "scaffold", "fednova"],
        "seeds": 3,
        "tune_on": 1,
        "vary": {
            "data.partition": ["dirichlet", "shards", "iid", "quantity", "noise"],
            "data.shards.classes_per_user": [1, 2, 3],
            "training.fedprox.prox_weight": [0.001, 0.01, 0.1, 1.0],
        },
    }
    for name in PRESETS
    if name.startswith("niid-")
}
