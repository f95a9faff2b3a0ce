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
from typing import NamedTuple

import numpy as np
from scipy.optimize import least_squares

from fedcast.io import save_table
from fedcast.rounds import (
    FORMS,
    SKEW_FORMS,
    FitDomain,
    FormName,
    RoundsFit,
    fit_accuracy,
    fit_rounds,
    nmse,
    save_fit,
)

FITS = Path(__file__).parents[3] / "src" / "fedcast" / "rounds" / "fits"
# Model, local epochs and learning rate of all runs.
TRAINING = {"mnist": ("cnn", 1, 0.05), "digits": ("small_cnn", 5, 0.1)}


class Run(NamedTuple):
    """One training run."""

    single_class_share: float  # share of users with one class
    rule: str
    sharing_ratio: float  # shared part of each head's samples
    seed: int
    emd: float  # average EMD after sharing, weighting B
    js: float  # mean JS divergence after sharing, nats
    shift: float  # shift of the overall label distribution
    rounds: int  # first round that met the target; -1: none did
    accuracy: float  # after the last round


def read(folder: Path, target: float) -> list[Run]:
    """Return the stored runs; final accuracy is that after the last round of each."""
    accuracies = json.loads((folder / "accuracy.json").read_text())
    runs = []
    with (folder / "runs.csv").open() as stream:
        for row in csv.DictReader(stream):
            course = accuracies[row["name"]]
            met = next((number for number, accuracy in enumerate(course) if accuracy >= target), -1)
            runs.append(
                Run(
                    float(row["single_class_share"]), row["rule"], float(row["sharing_ratio"]), int(row["seed"]),
                    float(row["emd_b"]), float(row["js"]), float(row["shift"]), met, course[-1],
                )
            )  # fmt: skip
    return runs


def on_rounds(fit: RoundsFit, runs: list[Run]) -> np.ndarray:
    """Parameters of `extended` by robust least squares on rounds themselves, from the shipped fit on."""
    rounds = np.array([run.rounds for run in runs])
    terms = np.array([(1.0, run.emd, run.shift) for run in runs])
    scale = 0.1 * np.median(rounds)
    start = fit.models["extended"].beta
    return least_squares(lambda beta: (np.exp(terms @ beta) - rounds) / scale, start, loss="soft_l1", x_scale="jac").x


def describe(name: str, form: FormName, beta: np.ndarray, runs: list[Run]) -> str:
    """Return a line with the errors of a fit."""
    rounds = np.array([run.rounds for run in runs])
    fitted = np.array([FORMS[form].curve(beta[None], run.emd, run.shift, 1.0).rounds[0] for run in runs])
    errors = f"NMSE {nmse(rounds, fitted):.3f}, of logarithms {nmse(np.log(rounds), np.log(fitted)):.3f}"
    return f"{name}: {errors}, {[round(float(value), 4) for value in beta]}"


def fit_forms(runs: list[Run], target: float, name: str, dataset: str) -> RoundsFit:
    """Fit all three forms to runs that met the target, and final accuracy to all of them."""
    met = [run for run in runs if run.rounds > 0]
    accuracy = fit_accuracy([run.emd for run in runs], [run.accuracy for run in runs])
    models = {
        form: fit_rounds(
            [run.emd for run in met], [run.rounds for run in met], target_accuracy=target,
            shift=[run.shift for run in met], form=form, name=name,
            source=f"{len(runs)} runs of {dataset}, studies/rounds", accuracy=accuracy,
        )
        for form in SKEW_FORMS
    }  # fmt: skip
    columns = {key: list(map(float, values)) for key, values in table_of(runs).items() if key != "rule"}
    return RoundsFit(name, models, columns, dataset, domain=domain_of(runs, dataset))


def domain_of(runs: list[Run], dataset: str) -> FitDomain:
    """Return the domain of the fit."""
    model, epochs, rate = TRAINING[dataset]
    values = {
        "data.dataset": dataset, "data.num_users": 100, "training.model": model, "training.batch_size": 10,
        "data.partition": "label_skew", "training.learning_rate": rate, "training.local_epochs": epochs,
    }  # fmt: skip
    skew = [run.emd for run in runs]
    return FitDomain({name: (value,) for name, value in values.items()}, (min(skew), max(skew)))


def table_of(runs: list[Run]) -> dict[str, list]:
    """Columns of the runs."""
    return {name: [getattr(run, name) for run in runs] for name in Run._fields}


def main(folder: Path, dataset: str, target: float) -> None:
    runs = read(folder, target)
    name = f"{dataset}-{target}"
    save_table(table_of(runs), folder / f"table-{target}.csv")
    fit = fit_forms(runs, target, name, dataset)
    save_fit(fit, FITS / f"{name}.json")
    met = [run for run in runs if run.rounds > 0]
    for form, model in fit.models.items():
        print(describe(f"{name} {form}", form, model.beta, met), "rejected", model.rejected)
    print(describe(f"{name} extended, fitted to rounds", "extended", on_rounds(fit, met), met))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
