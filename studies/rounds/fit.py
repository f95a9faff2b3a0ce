"""Fit the law of rounds to the stored runs, for every target of the ladder.

    python studies/rounds/fit.py mnist

writes the shipped fit src/fedcast/rounds/fits/mnist.json.
"""

from __future__ import annotations

import sys
from pathlib import Path

from design import LADDERS
from forms import read

from fedcast.rounds import Conditions, RoundsFit, fit_law, save_fit

FITS = Path(__file__).parents[2] / "src" / "fedcast" / "rounds" / "fits"
BOOTSTRAP = 100


def main(dataset: str) -> None:
    runs = read(dataset)
    at = Conditions(runs.measures["emd_b"], runs.measures["steps"], runs.measures["step"])
    laws = []
    for target in LADDERS[dataset]:
        rounds, met = runs.rounds_to(target)
        laws.append(fit_law(at, rounds, met, target_accuracy=target, bootstrap=BOOTSTRAP))
        values = ", ".join(f"{value:.3f}" for value in laws[-1].theta)
        print(f"{target}: {int(met.sum())} of {len(met)} runs met it, NMSE {laws[-1].nmse:.3f}, {values}", flush=True)
    source = f"{len(runs.settings)} runs of {dataset}, studies/rounds"
    save_fit(RoundsFit(dataset, {}, {}, dataset, tuple(laws), source), FITS / f"{dataset}.json")


if __name__ == "__main__":
    main(sys.argv[1])
