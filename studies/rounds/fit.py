"""Fit the law of rounds to the stored runs, for every target of the ladder.

    python studies/rounds/fit.py mnist

writes the shipped fit src/fedcast/rounds/fits/mnist.json.
"""

from __future__ import annotations

import sys
from pathlib import Path

from design import LADDERS
from forms import BATCH, Runs, read

from fedcast.rounds import Conditions, FitDomain, RoundsFit, fit_law, save_fit

FITS = Path(__file__).parents[2] / "src" / "fedcast" / "rounds" / "fits"
BOOTSTRAP = 100
USERS = 100
MODELS = {"mnist": "cnn", "digits": "small_cnn", "cifar10": "lenet5"}


def domain_of(dataset: str, runs: Runs) -> FitDomain:
    """Return where the fit holds."""
    varied = {
        name: tuple(sorted({run[key] for run in runs.settings}))
        for name, key in (
            ("data.partition", "partition"), ("training.learning_rate", "step"), ("training.local_epochs", "epochs"),
        )
    }  # fmt: skip
    fixed = {"data.dataset": dataset, "data.num_users": USERS, "training.model": MODELS[dataset]}
    values = {name: (value,) for name, value in (fixed | {"training.batch_size": BATCH}).items()} | varied
    skew = runs.measures["emd_b"]
    return FitDomain(values, (float(skew.min()), float(skew.max())))


def main(dataset: str) -> None:
    runs = read(dataset)
    at = Conditions(*(runs.measures[name] for name in ("emd_b", "steps", "step", "shift")))
    laws = []
    for target in LADDERS[dataset]:
        rounds, met = runs.rounds_to(target)
        laws.append(fit_law(at, rounds, met, target_accuracy=target, bootstrap=BOOTSTRAP))
        values = ", ".join(f"{value:.3f}" for value in laws[-1].theta)
        print(f"{target}: {int(met.sum())} of {len(met)} runs met it, NMSE {laws[-1].nmse:.3f}, {values}", flush=True)
    source = f"{len(runs.settings)} runs of {dataset}, studies/rounds"
    fit = RoundsFit(dataset, {}, {}, dataset, tuple(laws), source, domain_of(dataset, runs))
    save_fit(fit, FITS / f"{dataset}.json")


if __name__ == "__main__":
    main(sys.argv[1])
