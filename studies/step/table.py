"""Print the mean test accuracy of ten rounds up to a few rounds, for every stored run of the study.

    python studies/step/table.py cifar10
    python studies/step/table.py shakespeare

Runs of 100 rounds of CIFAR-10 at learning rate 0.005 without momentum and 0.001 with momentum 0.9 (table2)
are in results/full/runs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
PAPER_RUNS = HERE.parents[1] / "results" / "full" / "runs"
IN_TABLES = {
    "momentum-0-lr-0.005-s0 (table2)": "none-fixed-fedavg-0-723b28b08379",
    "momentum-0-lr-0.005-s1 (table2)": "none-fixed-fedavg-1-904666cf94af",
    "momentum-0.9-lr-0.001-s0 (table2)": "none-fixed-fedavg-0-08dd037700a0",
    "momentum-0.9-lr-0.001-s1 (table2)": "none-fixed-fedavg-1-c8fa9abf3285",
}
MEAN_OF, AT = 10, (25, 40, 50, 60, 70, 77, 85, 100)


def courses(dataset: str) -> dict[str, list[float]]:
    """Return the accuracy after every round, by momentum, learning rate and seed."""
    stored: dict[str, list[float]] = json.loads((HERE / dataset / "accuracy.json").read_text())
    for name, run in IN_TABLES.items() if dataset == "cifar10" else ():
        stored[name] = json.loads((PAPER_RUNS / f"{run}.json").read_text())["curves"]["accuracy"]
    return dict(sorted(stored.items()))


def main(dataset: str) -> None:
    print(f"{'mean of ten rounds up to':42s}" + "".join(f"{last:6d}" for last in AT))
    for name, course in courses(dataset).items():
        means = [f"{100 * np.mean(course[last + 1 - MEAN_OF : last + 1]):6.1f}" for last in AT if last < len(course)]
        print(f"{name:42s}" + "".join(means))


if __name__ == "__main__":
    main(sys.argv[1])
