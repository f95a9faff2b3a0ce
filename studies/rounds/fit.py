"""Fits of the rounds study from its stored runs.

    python studies/rounds/fit.py studies/rounds/mnist mnist 0.95

reads runs.csv and accuracy.json, writes table.csv and the shipped fit src/fedcast/allocation/fits/mnist-0.95.json.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

from fedcast.allocation import save_fit
from fedcast.study.rounds import RoundsRun, fit_runs, save_runs

FITS = Path(__file__).parents[2] / "src" / "fedcast" / "allocation" / "fits"


def read(folder: Path, target: float) -> list[RoundsRun]:
    """The stored runs; final accuracy is that after the last round of each."""
    accuracies = json.loads((folder / "accuracy.json").read_text())
    runs = []
    with (folder / "runs.csv").open() as stream:
        for row in csv.DictReader(stream):
            course = accuracies[row["name"]]
            met = next((number for number, accuracy in enumerate(course) if accuracy >= target), -1)
            runs.append(
                RoundsRun(
                    float(row["single_class_share"]), row["rule"], float(row["sharing_ratio"]), int(row["seed"]),
                    float(row["emd_b"]), float(row["js"]), float(row["shift"]), met, course[-1],
                )
            )  # fmt: skip
    return runs


def main(folder: Path, dataset: str, target: float) -> None:
    runs = read(folder, target)
    name = f"{dataset}-{target}"
    save_runs(runs, folder / f"table-{target}.csv")
    fit = fit_runs(runs, target, name, source=f"{len(runs)} runs of {dataset}, studies/rounds")
    save_fit(fit, FITS / f"{name}.json")
    for form, model in fit.models.items():
        print(
            name,
            form,
            f"NMSE {model.nmse:.3f}",
            [round(float(value), 4) for value in model.beta],
            "rejected",
            model.rejected,
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
