"""Print the mean test accuracy of ten rounds up to a few rounds, for every stored run of the study.

    python studies/cifar10_step/table.py

Learning rate 0.005 without momentum is that of the paper's table: its runs of 100 rounds are in results/full/runs.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
PAPER_RUNS = HERE.parents[1] / "results" / "full" / "runs"
OF_PAPER = {0: "none-fixed-fedavg-0-723b28b08379", 1: "none-fixed-fedavg-1-904666cf94af"}
MEAN_OF, AT = 10, (25, 40, 50, 60, 70, 77, 85, 100)


def courses() -> dict[str, list[float]]:
    """Return the accuracy after every round, by momentum, learning rate and seed."""
    stored: dict[str, list[float]] = json.loads((HERE / "accuracy.json").read_text())
    for seed, run in OF_PAPER.items():
        curves = json.loads((PAPER_RUNS / f"{run}.json").read_text())["curves"]
        stored[f"momentum-0-lr-0.005-s{seed} (paper's table)"] = curves["accuracy"]
    return dict(sorted(stored.items()))


def main() -> None:
    print(f"{'mean of ten rounds up to':42s}" + "".join(f"{last:6d}" for last in AT))
    for name, course in courses().items():
        means = [f"{100 * np.mean(course[last + 1 - MEAN_OF : last + 1]):6.1f}" for last in AT if last < len(course)]
        print(f"{name:42s}" + "".join(means))


if __name__ == "__main__":
    main()
