"""Print the tables of docs/explanation/privacy.md: what samples of each kind teach.

    python studies/protected/table.py

One table of a classifier that is trained on them alone, and of federated training one for all users of one class and
one for 80 % of them. Cells are means over seeds; in the latter with the number of seeds in brackets if there are
several. A target that a seed did not reach is `–`.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean
from typing import Any

RESULTS, CHOOSE = (Path(__file__).with_name(name) for name in ("results.json", "choose.json"))
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

# Text, kind and features of each row, and the values of ε.
FEATURES = [
    ("`pixels`: means and covariance, the default", "synthetic", "pixels", (1.0, 4.0)),
    ("`fourier`: means, and random Fourier features", "synthetic", "fourier", (1.0, 4.0)),
    ("`network`: means, and features of a random network", "synthetic", "network", (1.0, 4.0)),
    ("`network_file`: of one trained on scikit-learn's digits", "synthetic", "pretrained", (1.0, 4.0)),
    ("none: `prototypes`", "prototypes", "", (1.0, 4.0)),
    ("raw samples", "raw", "", (None,)),
]

Runs = list[dict[str, Any]]


def features_table(rows: Runs) -> list[str]:
    """Return the lines of the table of what a classifier learns from generated samples alone."""
    places = [(dataset, heads) for dataset in NAMES for heads in ("one class", "all classes")]
    heads = " | ".join(f"{NAMES[dataset]}, {held}" if held == "one class" else held for dataset, held in places)
    lines = [f"| `features` | {heads} |", "|---" * (1 + len(places)) + "|"]
    for text, kind, features, epsilons in FEATURES:
        cells = []
        for dataset, held in places:
            found = {
                row["epsilon"]: f"{100 * mean(row['accuracy']):.1f}"
                for row in rows
                if (row["dataset"], row["kind"], row["features"], row["heads"]) == (dataset, kind, features, held)
            }
            cells.append(", ".join(found[epsilon] for epsilon in epsilons if epsilon in found))
        lines.append(f"| {text} | {' | '.join(cells)} |")
    return lines


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
    results, choose = (json.loads(path.read_text(encoding="utf-8")) for path in (RESULTS, CHOOSE))
    print(*features_table(choose), "", sep="\n")
    for share in TARGETS:
        print(*table(share, results), "", sep="\n")


if __name__ == "__main__":
    main()
