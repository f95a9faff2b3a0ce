"""Print the tables of docs/explanation/privacy.md: what kinds of sharing reach in federated training.

    python studies/protected/table.py

One table for all users of one class and one for 80 % of them. Cells are means over seeds, with the number of seeds in
brackets if there are several; a target that a seed did not reach is `–`.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean
from typing import Any

RESULTS = Path(__file__).with_name("results.json")
LEARNING_RATE = 0.05
# Text, kind (None: nothing is shared), ε and volume of each row.
ROWS = [
    ("no sharing", None, None, 0.0), ("`raw`, a tenth", "raw", None, 0.1), ("`raw`, half", "raw", None, 0.5),
    ("`mixed`, half", "mixed", None, 0.5),
    *(("`prototypes`, half", "prototypes", epsilon, 0.5) for epsilon in (1.0, 4.0)),
    ("`prototypes`, all", "prototypes", 4.0, 1.0),
    *(("`synthetic`, half", "synthetic", epsilon, 0.5) for epsilon in (1.0, 2.0, 4.0, 8.0)),
    ("`synthetic`, all", "synthetic", 4.0, 1.0),
]  # fmt: skip
NAMES = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST", "cifar10": "CIFAR-10"}
# Accuracy to which rounds and seconds are counted, by share of one-class users.
TARGETS = {
    1.0: {"mnist": "0.9", "fashion_mnist": "0.7", "cifar10": "0.3"},
    0.8: {"mnist": "0.95", "fashion_mnist": "0.75", "cifar10": "0.35"},
}

Runs = list[dict[str, Any]]


def table(share: float, results: Runs) -> list[str]:
    """Return the lines of the table of one share of one-class users."""
    targets = TARGETS[share]
    heads = [
        f"{NAMES[dataset]}: accuracy | rounds to {100 * float(targets[dataset]):g} % | seconds" for dataset in targets
    ]
    lines = [f"| shared | ε | {' | '.join(heads)} |", "|---" * (2 + 3 * len(targets)) + "|"]
    for text, kind, epsilon, volume in ROWS:
        found = {
            dataset: [run for run in results if run["dataset"] == dataset and _is(run, share, kind, epsilon, volume)]
            for dataset in targets
        }
        if any(found.values()):
            cells = [cell for dataset, runs in found.items() for cell in _cells(runs, targets[dataset])]
            lines.append(f"| {text} | {'–' if epsilon is None else f'{epsilon:g}'} | {' | '.join(cells)} |")
    return lines


def _is(run: dict[str, Any], share: float, kind: str | None, epsilon: float | None, volume: float) -> bool:
    alike = (run["single_class_share"], run["learning_rate"]) == (share, LEARNING_RATE)
    if kind is None:
        return alike and run["rule"] == "none"
    return alike and run["rule"] != "none" and (run["kind"], run["epsilon"], run["volume"]) == (kind, epsilon, volume)


def _cells(runs: Runs, target: str) -> list[str]:
    """Return accuracy in percent, rounds and seconds."""
    if not runs:
        return [""] * 3
    seeds = f" ({len(runs)})" if len(runs) > 1 else ""
    rounds, seconds = ([run[key][target] for run in runs] for key in ("rounds_to", "seconds_to"))
    accuracy = f"{100 * mean(run['accuracy'] for run in runs):.1f}{seeds}"
    return [accuracy, *("–" if None in values else f"{mean(values):.0f}" for values in (rounds, seconds))]


def main() -> None:
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    for share in TARGETS:
        print(*table(share, results), "", sep="\n")


if __name__ == "__main__":
    main()
