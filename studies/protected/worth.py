"""Train runs of digits with generated samples, and fit what these are worth, for fits of rounds.

    python studies/protected/worth.py digits out/protected/digits/store          # trains on this machine, then fits
    python studies/protected/worth.py mnist out/protected/mnist/store            # fits trained runs of prepare.py

adds the worth of every kind that has runs to the laws of the shipped fit of that name, for each target accuracy.
"""

from __future__ import annotations

import itertools
import sys
from importlib.resources import files
from pathlib import Path

from fedcast.rounds import load_fit, save_fit
from fedcast.runs import fit_worths, load_runs, run_scenario
from fedcast.scenario import Scenario, load_scenario

EPSILONS: dict[str, tuple[float | None, ...]] = {
    "raw": (None,), "synthetic": (2, 8, 32), "prototypes": (2, 8, 32), "mixed": (None,),
}  # fmt: skip
USERS, VOLUMES, SHARES = (20, 50), (0.5, 1.0), (1.0, 0.8)


def scenario_of(kind: str, epsilon: float | None, users: int, volume: float, share: float) -> Scenario:
    """Return the scenario of one run of digits."""
    values = {
        "data.num_users": users, "data.label_skew.single_class_share": share, "clustering.rule": "daca",
        "clustering.sharing_ratio": volume, "allocation.method": "fixed", "allocation.fixed.ratio": volume,
        "allocation.max_sharing_ratio": 1.0, "sharing.kind": kind, "training.rounds": 80, "training.local_epochs": 2,
        "training.learning_rate": 0.2, "training.compile": "never",
    }  # fmt: skip
    if epsilon is not None:
        values[f"sharing.{kind}.epsilon"] = epsilon
    return load_scenario(base="digits", overrides=[f"{key}={value}" for key, value in values.items()])


def train_digits(store: Path) -> None:
    """Train every run that the store does not hold."""
    for users, share, volume in itertools.product(USERS, SHARES, VOLUMES):
        for kind, epsilon in ((kind, one) for kind, several in EPSILONS.items() for one in several):
            run_scenario(scenario_of(kind, epsilon, users, volume, share), store)


if __name__ == "__main__":
    name, store = sys.argv[1], Path(sys.argv[2])
    if name == "digits":
        train_digits(store)
    fit = fit_worths(load_fit(name), load_runs(store), "studies/protected")
    save_fit(fit, Path(str(files("fedcast.rounds") / "fits" / f"{name}.json")))
    for law in fit.laws:
        for kind, worth in law.worth.items():
            shown = [f"{v:g}: {worth.at(v):.2f} {worth.interval(v)}" for v in (10, 50, 250, 500)]
            print(
                law.target_accuracy, kind, f"top {worth.top:.2f}, half {worth.half:.3g}, {worth.num_runs} runs", *shown
            )
