"""Read the trained runs back, and write what they reached to results.json.

    python studies/protected/read.py mnist out/protected/mnist out/protected/mnist/trained

adds the runs or replaces those of the same setting: accuracy (mean of the last five rounds), and rounds and simulated
seconds to target accuracies. Only finished runs are read.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from fedcast.runs import load_runs, unpack

TARGETS = {"mnist": (0.85, 0.9, 0.95), "fashion_mnist": (0.6, 0.7, 0.75), "cifar10": (0.2, 0.3, 0.35)}
RESULTS = Path(__file__).with_name("results.json")
_ORDER = ("single_class_share", "rule", "kind", "epsilon", "volume", "learning_rate", "seed")


def rows(dataset: str, store: Path) -> list[dict[str, Any]]:
    """Return the results of each run."""
    found = []
    for run in load_runs(store):
        scenario, history = run.scenario, run.history
        accuracy, seconds = history.column("accuracy"), history.column("seconds")
        reached = {str(target): history.rounds_to(target) for target in TARGETS[dataset]}
        found.append(
            {
                "dataset": dataset, "model": scenario.training.model,
                "single_class_share": scenario.data.options("partition").single_class_share,
                "rule": run.rule, "kind": scenario.sharing.kind,
                "epsilon": None if run.privacy is None else round(run.privacy.epsilon, 6),
                "volume": scenario.allocation.options("allocation").ratio if run.rule != "none" else 0.0,
                "learning_rate": scenario.training.learning_rate, "seed": scenario.seed,
                "rounds": len(accuracy) - 1, "accuracy": round(float(np.mean(accuracy[-5:])), 4), "rounds_to": reached,
                "seconds_to": {
                    target: None if rounds is None else round(float(seconds[rounds]), 1)
                    for target, rounds in reached.items()
                },
            }
        )  # fmt: skip
    return sorted(found, key=key_of)


def key_of(row: dict[str, Any]) -> tuple[str, ...]:
    """Return the setting of a run as texts."""
    return (row["dataset"], *(str(row[key]) for key in _ORDER))


if __name__ == "__main__":
    dataset, base = sys.argv[1], Path(sys.argv[2])
    unpack(Path(sys.argv[3]), base / "store")
    found = rows(dataset, base / "store")
    again = {key_of(row) for row in found}
    kept = [row for row in json.loads(RESULTS.read_text(encoding="utf-8")) if key_of(row) not in again]
    lines = ",\n".join(json.dumps(row) for row in sorted([*kept, *found], key=key_of))
    RESULTS.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    for row in found:
        print(
            *(row[key] for key in (*_ORDER, "rounds", "accuracy")),
            *row["rounds_to"].values(),
            *row["seconds_to"].values(),
        )
