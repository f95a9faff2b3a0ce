"""Measure rounds against skew: train at several degrees of skew, with and without sharing, and fit the results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import product
from pathlib import Path
from typing import Any

from fedcast.data import average_emd, average_js, distribution_shift
from fedcast.errors import FedcastError
from fedcast.io import Column, read_table, save_table
from fedcast.rounds import SKEW_FORMS, RoundsFit, fit_accuracy, fit_rounds
from fedcast.runs.prepare import train_scenario
from fedcast.scenario import Scenario, with_overrides


@dataclass(frozen=True)
class RoundsRun:
    """One training run of the study."""

    single_class_share: float  #: share of users with one class
    rule: str  #: clustering rule
    sharing_ratio: float  #: shared part of each head's samples
    seed: int
    emd: float  #: average EMD after sharing, weighting B
    js: float  #: mean JS divergence after sharing, nats
    shift: float  #: shift of the overall label distribution
    rounds: int  #: first round that met the target; -1: none did
    accuracy: float  #: after the last round


def run_rounds_grid(
    scenario: Scenario,
    shares: Sequence[float],
    rules: Sequence[str],
    seeds: Iterable[int],
    *,
    data_dir: Path | None = None,
    progress: Callable[[RoundsRun], None] | None = None,
) -> list[RoundsRun]:
    """Train label-skewed populations of a scenario's dataset, one after another.

    `shares` are shares of users with one class; heads share `clustering.sharing_ratio`. `progress` is called after
    every run.
    """
    runs = []
    for share, rule, seed in product(shares, rules, seeds):
        runs.append(_run(scenario, share, rule, seed, data_dir))
        if progress is not None:
            progress(runs[-1])
    return runs


def _run(scenario: Scenario, share: float, rule: str, seed: int, data_dir: Path | None) -> RoundsRun:
    ratio = scenario.clustering.sharing_ratio
    values = {
        "seed": seed,
        "data.partition": "label_skew",
        "data.label_skew.single_class_share": share,
        "clustering.rule": rule,
        "allocation.method": "fixed",
        "allocation.fixed.ratio": ratio,
        "allocation.max_sharing_ratio": ratio,
    }
    trained = train_scenario(with_overrides(scenario, values), data_dir=data_dir)
    skew, after = trained.world.skew, trained.clustering.after
    reached = trained.history.rounds_to(scenario.rounds.target_accuracy)
    return RoundsRun(
        share,
        rule,
        ratio if rule != "none" else 0.0,
        seed,
        average_emd(skew, after),
        average_js(skew, after),
        distribution_shift(after),
        -1 if reached is None else reached,
        trained.history.records[-1].accuracy,
    )


def fit_runs(
    runs: Sequence[RoundsRun], target_accuracy: float, name: str, *, dataset: str, source: str = "", seed: int = 0
) -> RoundsFit:
    """Fit all three forms to runs on one dataset that met the target, and final accuracy to all of them."""
    met = [run for run in runs if run.rounds > 0]
    if len(met) < 4:
        best = max((run.accuracy for run in runs), default=0.0)
        raise FedcastError(
            f"invalid value {target_accuracy} for rounds.target_accuracy: {len(met)} of {len(runs)} runs met it "
            f"(best {best:.3f}), expected at least 4; lower it, or raise training.rounds"
        )
    accuracy = fit_accuracy([run.emd for run in runs], [run.accuracy for run in runs])
    models = {
        form: fit_rounds(
            [run.emd for run in met],
            [run.rounds for run in met],
            target_accuracy=target_accuracy,
            shift=[run.shift for run in met],
            form=form,
            name=name,
            source=source,
            accuracy=accuracy,
            seed=seed,
        )
        for form in SKEW_FORMS
    }
    numbers = {key: [float(value) for value in values] for key, values in _columns(runs).items() if key != "rule"}
    return RoundsFit(name, models, numbers, dataset)


def _columns(runs: Sequence[RoundsRun]) -> dict[str, list[Any]]:
    return {item.name: [getattr(run, item.name) for run in runs] for item in fields(RoundsRun)}


def save_rounds_runs(runs: Sequence[RoundsRun], path: Path) -> Path:
    """Write the runs to a .csv or .parquet file."""
    return save_table(_columns(runs), path)


def load_rounds_runs(path: Path) -> list[RoundsRun]:
    """Read a file that `save_rounds_runs` wrote."""
    kinds = {"rule": "text", "seed": "int", "rounds": "int"}
    table = read_table(path, [Column(item.name, kinds.get(item.name, "float")) for item in fields(RoundsRun)])  # type: ignore[arg-type]
    columns = [table[item.name].tolist() for item in fields(RoundsRun)]
    return [RoundsRun(*values) for values in zip(*columns, strict=True)]
