"""Read the trained runs back, and write results.json: accuracy at the end, and rounds to target accuracies.

    python studies/protected/read.py out/protected OUT_OF_TRAINING

The accuracy is the mean of the last five rounds. Only finished runs are read.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from fedcast.runs import load_runs, unpack

TARGETS = (0.8, 0.85, 0.9, 0.95)
_ORDER = ("single_class_share", "rule", "kind", "epsilon", "seed")


def rows(store: Path) -> list[dict[str, object]]:
    """Return the results of each run."""
    found = []
    for run in load_runs(store):
        scenario, accuracy = run.scenario, run.history.column("accuracy")
        found.append(
            {
                "model": scenario.training.model,
                "single_class_share": scenario.data.options("partition").single_class_share,
                "rule": run.rule, "kind": scenario.sharing.kind,
                "epsilon": None if run.privacy is None else round(run.privacy.epsilon, 6), "seed": scenario.seed,
                "rounds": len(accuracy) - 1, "accuracy": round(float(np.mean(accuracy[-5:])), 4),
                "rounds_to": {str(target): run.history.rounds_to(target) for target in TARGETS},
            }
        )  # fmt: skip
    return sorted(found, key=lambda row: [str(row[key]) for key in _ORDER])


if __name__ == "__main__":
    base = Path(sys.argv[1])
    unpack(Path(sys.argv[2]), base / "store")
    found = rows(base / "store")
    Path(__file__).with_name("results.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for row in found:
        print(row)
