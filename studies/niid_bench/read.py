"""Read the trained runs back, write results.json, and print the table of docs/how-to/niid-bench.md.

    python studies/niid_bench/read.py out/niid OUT_OF_TRAINING

The accuracy is that after the last round, as in NIID-Bench. Only finished runs are read. Without arguments the table is
made from the stored results.json.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedcast.runs import load_runs, unpack
from fedcast.scenario import Scenario

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "how-to" / "niid-bench.md"
START, END = "<!-- table: studies/niid_bench/read.py -->", "<!-- end of the table -->"
DATASETS = {"cifar10": "CIFAR-10", "mnist": "MNIST"}
PARTITIONS = {
    "dirichlet": "Dir(0.5)", "shards 1": "#C = 1", "shards 2": "#C = 2", "shards 3": "#C = 3", "iid": "IID",
    "quantity": "sizes Dir(0.5)", "noise": "noise 0.1",
}  # fmt: skip
ALGORITHMS = {"fedavg": "FedAvg", "fedprox": "FedProx", "scaffold": "SCAFFOLD", "fednova": "FedNova"}
_ORDER = ("dataset", "partition", "algorithm", "prox_weight", "seed")
Row = dict[str, Any]


def partition_of(scenario: Scenario) -> str:
    """Return the row of the table that a run belongs to."""
    name = scenario.data.partition
    return f"{name} {scenario.data.options('partition').classes_per_user}" if name == "shards" else name


def rows(store: Path) -> list[Row]:
    """Return the results of each run."""
    found = []
    for run in load_runs(store):
        scenario, accuracy = run.scenario, run.history.column("accuracy")
        algorithm = scenario.training.algorithm
        weight = scenario.training.options("algorithm").prox_weight if algorithm == "fedprox" else None
        noisy = run.history.column("noisy_accuracy")[-1]
        found.append(
            {
                "dataset": scenario.data.dataset, "partition": partition_of(scenario), "algorithm": algorithm,
                "prox_weight": weight, "seed": scenario.seed, "rounds": len(accuracy) - 1,
                "accuracy": round(float(accuracy[-1]), 4), "best_accuracy": round(float(max(accuracy)), 4),
                **({} if noisy is None else {"noisy_accuracy": round(float(noisy), 4)}),
            }
        )  # fmt: skip
    return sorted(found, key=lambda row: [str(row[key]) for key in _ORDER])


def cell(found: Sequence[Row], dataset: str, partition: str, algorithm: str) -> str:
    """Return our accuracy in percent, mean ± standard deviation over trials; of FedProx that of the best weight."""
    groups: dict[object, list[float]] = {}
    for row in found:
        if (row["dataset"], row["partition"], row["algorithm"]) == (dataset, partition, algorithm):
            groups.setdefault(row["prox_weight"], []).append(100 * row.get("noisy_accuracy", row["accuracy"]))
    if not groups:
        return "–"
    most = max(map(len, groups.values()))
    best = max((weight for weight in groups if len(groups[weight]) == most), key=lambda weight: np.mean(groups[weight]))
    values = groups[best]
    spread = f" ± {np.std(values):.1f}" if len(values) > 1 else ""
    trials = "" if len(values) == 3 else f" ({len(values)})"
    return f"{np.mean(values):.1f}{spread}{trials}" + (f", μ = {best:g}" if len(groups) > 1 else "")


def table(found: Sequence[Row], published: Row) -> str:
    """Return the table in Markdown: for each row and algorithm our accuracy and those that others published."""
    lines = ["| | partition | " + " | ".join(ALGORITHMS.values()) + " |", "|---|---|" + "---|" * len(ALGORITHMS)]
    for dataset, name in DATASETS.items():
        for partition, shown in PARTITIONS.items():
            cells = []
            for algorithm in ALGORITHMS:
                theirs = (published[source].get(dataset, {}).get(partition, {}).get(algorithm) for source in SOURCES)
                others = " / ".join("–" if value is None else f"{value:.1f}" for value in theirs)
                cells.append(f"**{cell(found, dataset, partition, algorithm)}** / {others}")
            if not all(text.startswith("**–") for text in cells):
                lines.append(f"| {name} | {shown} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


SOURCES = ("niid_bench", "flower")

if __name__ == "__main__":
    results = HERE / "results.json"
    if len(sys.argv) > 1:
        base = Path(sys.argv[1])
        unpack(Path(sys.argv[2]), base / "store")
        results.write_text(json.dumps(rows(base / "store"), indent=1) + "\n", encoding="utf-8")
    found = json.loads(results.read_text(encoding="utf-8"))
    made = table(found, json.loads((HERE / "published.json").read_text(encoding="utf-8")))
    if PAGE.exists():
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
        PAGE.write_text(f"{before}{START}\n\n{made}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    print(made)
