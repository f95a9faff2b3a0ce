"""Attack a run: what a curious member learns from what its head sent, by membership tests on samples of heads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedcast.data import scaled
from fedcast.errors import FedcastError
from fedcast.random import generator
from fedcast.runs.prepare import PreparedRun, prepare_run
from fedcast.scenario import BEST_KIND, Scenario, read_stored_scenario
from fedcast.sharing import DEFAULT_DELTA, Held, Scores, Target, calibrated, find_sharing, joined, make_raw, play


@dataclass(frozen=True)
class AttackResult:
    """Success of one membership test, and the ε that it proves beside the one that is claimed."""

    test: str  #: ``nearest sample``, ``likelihood ratio``, or which model was attacked
    games: int  #: with the target, and as many without
    auc: float  #: 0.5: it guesses
    tpr_at_1_percent: float  #: rate of right guesses "inside" at 1 % wrong ones
    tpr_at_01_percent: float  #: the same at 0.1 %
    proven_epsilon: float  #: at least, with 99.9 % confidence
    claimed_epsilon: float | None  #: None: no claim


def attack_run(
    folder: str | Path,
    *,
    targets: int = 10,
    draws: int = 100,
    data_dir: str | Path | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[AttackResult]:
    """Play membership games on what the heads of a run send.

    Args:
        folder: a run folder; its scenario is prepared again.
        targets: samples that are looked for, each of a random head.
        draws: games with each target, and as many with another sample in its place.
        data_dir: where dataset files are looked for first.
        progress: called with the number of targets that are done.
    """
    scenario = stored_scenario(folder)
    if targets < 1 or draws < 2:
        raise FedcastError(f"invalid value {targets} × {draws}: expected at least one target and two draws")
    run = prepare_run(scenario, data_dir=data_dir)
    settings = run.world.scenario.sharing
    if settings.kind == BEST_KIND:
        raise FedcastError(f"{folder}: its heads send different kinds; attack runs that name one (sharing.kind)")
    sharing = find_sharing(settings.kind)
    if not sharing.sends or run.clustering.broadcast is not None or not len(run.clustering.heads):
        raise FedcastError(f"{folder}: no head sent samples to members in this run; nothing to attack")
    make, options, seed = sharing.make or make_raw, settings.options("sharing"), run.world.scenario.seed
    near, ratios = [], []
    for number, target in enumerate(_targets(run, targets)):
        nearest, exact = play(make, target, options, draws, seed + number, sharing.private)
        near.append(calibrated(nearest))
        ratios += [] if exact is None else [exact]
        if progress is not None:
            progress(number + 1)
    tests = {"nearest sample": near} | ({"likelihood ratio": ratios} if ratios else {})
    return [attack_result(name, joined(scores), options if sharing.private else None) for name, scores in tests.items()]


def stored_scenario(folder: str | Path) -> Scenario:
    """Return the scenario of a run folder."""
    path = Path(folder) / "scenario.toml"
    if not path.exists():
        raise FedcastError(f"{folder}: no run in this folder; expected one made by `fedcast train` or `fedcast run`")
    return read_stored_scenario(path)


def attack_result(test: str, scores: Scores, claim: Any) -> AttackResult:
    """Return the rates of a test's scores, and the ε that they prove beside the claimed one."""
    delta = DEFAULT_DELTA if claim is None else claim.delta
    return AttackResult(
        test,
        len(scores.inside),
        scores.auc,
        scores.true_positives(0.01),
        scores.true_positives(0.001),
        scores.proven_epsilon(delta),
        None if claim is None else claim.epsilon,
    )


def _targets(run: PreparedRun, count: int) -> list[Target]:
    """Draw samples of heads, and test samples to replace them."""
    population, clustering, rng = run.world.population, run.clustering, generator(run.world.scenario.seed, "attack")
    dataset, own = population.dataset, population.assignment
    assert dataset is not None
    assert own is not None
    balanced = clustering.problem.settings.composition == "balanced"
    found = []
    for head in rng.choice(clustering.heads, count):
        samples, other = own.of(int(head)), int(rng.integers(len(dataset.test_labels)))
        held = Held(dataset.features(samples), dataset.labels[samples], dataset.num_classes)
        replacement = scaled(np.asarray(dataset.test_inputs[[other]]), dataset.scale)[0]
        position, label = int(rng.integers(len(samples))), int(dataset.test_labels[other])
        found.append(Target(held, int(clustering.shared[head]), balanced, position, replacement, label))
    return found
