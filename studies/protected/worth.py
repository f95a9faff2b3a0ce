"""Fit what generated samples are worth, for the shipped fits of rounds.

    python studies/protected/worth.py digits out/protected/digits/store      # trains runs on this machine, then fits
    python studies/protected/worth.py mnist                                  # fits the runs of results.json

adds the worth of every kind that has runs to the laws of the shipped fit of that name, for each target accuracy.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import prepare

from fedcast.plan import make_plan
from fedcast.rounds import LEAST_RUNS, GeneratedRun, RoundsFit, Worth, fit_worth, load_fit, save_fit
from fedcast.runs import fit_worths, generated_run, load_runs, run_scenario
from fedcast.scenario import Scenario, load_scenario

RESULTS = Path(__file__).with_name("results.json")
SOURCE = "studies/protected"
EPSILONS: dict[str, tuple[float | None, ...]] = {
    "raw": (None,), "synthetic": (2, 8, 32), "prototypes": (2, 8, 32), "mixed": (None,),
}  # fmt: skip
USERS, VOLUMES, SHARES = (20, 50), (0.5, 1.0), (1.0, 0.8)
# No run of MNIST with generated samples reached it.
NOT_REACHED = 0.97


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


def fit_results(fit: RoundsFit, dataset: str) -> RoundsFit:
    """Return a fit with the worth of samples in the stored results, which know the rounds to a few targets.

    Worths for targets in between are interpolated.
    """
    rows = json.loads(RESULTS.read_text(encoding="utf-8"))
    by_kind: dict[str, list[tuple[GeneratedRun, dict[str, Any]]]] = defaultdict(list)
    for row in rows:
        if row["dataset"] == dataset and row["rule"] != "none" and row["kind"] != "raw":
            scenario = _scenario_of(row)
            run = generated_run(scenario, make_plan(scenario, with_curve=False))
            by_kind[row["kind"]].append((run, row))
    worths: dict[float, dict[str, Worth]] = defaultdict(dict)
    for kind, runs in by_kind.items():
        targets = [] if len(runs) < LEAST_RUNS else [*map(float, runs[0][1]["rounds_to"]), NOT_REACHED]
        for target in targets:
            worths[target][kind] = fit_worth(fit.law(target), [_trained(*run, target) for run in runs], SOURCE)
    laws = [replace(law, worth=_interpolated(worths, law.target_accuracy)) for law in fit.laws]
    return replace(fit, laws=tuple(laws))


def _scenario_of(row: Mapping[str, Any]) -> Scenario:
    rate = (f"training.learning_rate={row['learning_rate']}",)
    setting = prepare.Setting(row["kind"], row["epsilon"], row["volume"], row["seed"], rate)
    return prepare.scenario_of(row["dataset"], Path(), row["single_class_share"], row["rounds"], setting)


def _trained(run: GeneratedRun, row: Mapping[str, Any], target: float) -> GeneratedRun:
    rounds = row["rounds_to"].get(f"{target:g}")
    return replace(run, rounds=row["rounds"] if rounds is None else max(rounds, 1), met=rounds is not None)


def _interpolated(worths: Mapping[float, dict[str, Worth]], target: float) -> dict[str, Worth]:
    below, above = max(t for t in worths if t <= target), min(t for t in worths if t >= target)
    part = 0.0 if below == above else (target - below) / (above - below)
    return {kind: one.mixed(worths[above][kind], part) for kind, one in worths[below].items()}


if __name__ == "__main__":
    name = sys.argv[1]
    if name == "digits":
        store = Path(sys.argv[2])
        train_digits(store)
        fit = fit_worths(load_fit(name), load_runs(store), SOURCE)
    else:
        fit = fit_results(load_fit(name), name)
    save_fit(fit, Path(str(files("fedcast.rounds") / "fits" / f"{name}.json")))
    for law in fit.laws:
        for kind, worth in law.worth.items():
            shown = [f"{v:g}: {worth.at(v):.2f} {worth.interval(v)}" for v in (10, 50, 250, 500)]
            print(
                law.target_accuracy, kind, f"top {worth.top:.2f}, half {worth.half:.3g}, {worth.num_runs} runs", *shown
            )
