"""Fits of the rounds study from its stored runs.

    python studies/rounds/first/fit.py studies/rounds/first/mnist mnist 0.95

reads runs.csv and accuracy.json, writes table.csv and the shipped fit src/fedcast/rounds/fits/mnist-0.95.json. It
prints how well each form fits rounds and their logarithms, and the same for `extended` if that were fitted to rounds
themselves instead of logarithms.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

from fedcast.rounds import FORMS, FormName, RoundsFit, nmse, save_fit
from fedcast.runs import RoundsRun, fit_runs, save_rounds_runs

FITS = Path(__file__).parents[3] / "src" / "fedcast" / "rounds" / "fits"


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


def on_rounds(fit: RoundsFit, runs: list[RoundsRun]) -> np.ndarray:
    """Parameters of `extended` by robust least squares on rounds themselves, from the shipped fit on."""
    rounds = np.array([run.rounds for run in runs])
    terms = np.array([(1.0, run.emd, run.shift) for run in runs])
    scale = 0.1 * np.median(rounds)
    start = fit.models["extended"].beta
    return least_squares(lambda beta: (np.exp(terms @ beta) - rounds) / scale, start, loss="soft_l1", x_scale="jac").x


def describe(name: str, form: FormName, beta: np.ndarray, runs: list[RoundsRun]) -> str:
    """A line with the errors of a fit."""
    rounds = np.array([run.rounds for run in runs])
    fitted = np.array([FORMS[form].curve(beta[None], run.emd, run.shift).rounds[0] for run in runs])
    errors = f"NMSE {nmse(rounds, fitted):.3f}, of logarithms {nmse(np.log(rounds), np.log(fitted)):.3f}"
    return f"{name}: {errors}, {[round(float(value), 4) for value in beta]}"


def main(folder: Path, dataset: str, target: float) -> None:
    runs = read(folder, target)
    name = f"{dataset}-{target}"
    save_rounds_runs(runs, folder / f"table-{target}.csv")
    fit = fit_runs(runs, target, name, dataset=dataset, source=f"{len(runs)} runs of {dataset}, studies/rounds")
    save_fit(fit, FITS / f"{name}.json")
    met = [run for run in runs if run.rounds > 0]
    for form, model in fit.models.items():
        print(describe(f"{name} {form}", form, model.beta, met), "rejected", model.rejected)
    print(describe(f"{name} extended, fitted to rounds", "extended", on_rounds(fit, met), met))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
