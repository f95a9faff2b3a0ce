"""Worlds of the rounds study: who trains on what, at several degrees of skew, with and without sharing.

    python studies/rounds/prepare.py mnist out/rounds

writes out/rounds/worlds.npz and dataset.npz for `train.py`, which needs PyTorch and NumPy alone and so runs on any GPU
machine, and runs.csv with what is known of each run before it is trained.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np

from fedcast.clustering import cluster
from fedcast.data import average_emd, average_js, average_kl, distribution_shift
from fedcast.plan import make_world
from fedcast.scenario import load_scenario
from fedcast.sharing import share_samples

# (share of one-class users, rule, composition, sharing ratio, seeds, rounds)
GRID = (
    [(share, "none", "own", 0.0, (0, 1, 2), 150 if share >= 0.9 else 100) for share in (0.0, 0.3, 0.5, 0.7, 0.8, 0.9)]
    + [(share, rule, own, 0.1, (0, 1), 150 if share >= 0.9 else 100)
       for share in (1.0, 0.9, 0.8, 0.5) for rule, own in (("daca", "own"), ("blend", "balanced"), ("gain", "own"))]
    + [(1.0, "none", "own", 0.0, (0, 1), 150)]
    + [(share, "daca", "own", ratio, (0, 1), 150) for share in (1.0, 0.9) for ratio in (0.05, 0.2)]
)  # fmt: skip


def main(dataset: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, np.ndarray] = {}
    rows = []
    for share, rule, composition, ratio, seeds, rounds in GRID:
        for seed in seeds:
            scenario = load_scenario(
                overrides=[
                    f"data.dataset={dataset}", f"data.label_skew.single_class_share={share}", f"seed={seed}",
                    f"clustering.rule={rule}", f"clustering.composition={composition}",
                    f"clustering.sharing_ratio={ratio}",
                ]
            )  # fmt: skip
            world = make_world(scenario)
            clustering = cluster(world.problem())
            shared = share_samples(world.population, clustering, seed)
            name = f"{share}_{rule}_{ratio}_{seed}"
            arrays[f"{name}/samples"] = shared.assignment.samples.astype(np.int32)
            arrays[f"{name}/offsets"] = shared.assignment.offsets
            arrays[f"{name}/counts"] = world.population.counts
            after = clustering.after
            rows.append(
                {
                    "name": name, "single_class_share": share, "rule": rule, "composition": composition,
                    "sharing_ratio": ratio, "seed": seed, "max_rounds": rounds,
                    **{f"emd_{kind.lower()}": average_emd(world.skew, after, kind) for kind in ("A", "B", "C")},
                    "js": average_js(world.skew, after), "kl": average_kl(world.skew, after),
                    "shift": distribution_shift(after), "distinct_shared": shared.ledger.distinct_samples,
                }
            )  # fmt: skip
            print(name, f"EMD {rows[-1]['emd_b']:.3f}", f"shift {rows[-1]['shift']:.3f}", flush=True)
    data = world.population.dataset
    assert data is not None
    np.savez_compressed(
        folder / "dataset.npz", inputs=np.asarray(data.inputs), labels=data.labels,
        test_inputs=np.asarray(data.test_inputs), test_labels=data.test_labels, scale=data.scale,
    )  # fmt: skip
    np.savez_compressed(folder / "worlds.npz", **arrays)
    with (folder / "runs.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
