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
from fedcast.runs.prepare import PreparedRun, first_model, prepare_run
from fedcast.runs.shadow_heads import shadow_head_scores
from fedcast.scenario import Scenario, read_stored_scenario
from fedcast.sharing import DEFAULT_DELTA, Games, Held, Scores, Target, calibrated, find_sharing, joined, make_raw, play

_LEAST_DRAWS = 8
_RECOVERED = 0.05  # root mean square distance of a sample that a person takes for the same


@dataclass(frozen=True)
class AttackResult:
    """Success of one membership test, with 95 % confidence intervals, and the ε that it proves beside the claim."""

    test: str  #: ``nearest sample``, ``shadow heads``, ``likelihood ratio``, or which model was attacked
    games: int  #: with the target, and as many without
    auc: float  #: 0.5: it guesses
    tpr_at_1_percent: float  #: rate of right guesses "inside" at 1 % wrong ones
    tpr_at_01_percent: float  #: the same at 0.1 %
    proven_epsilon: float  #: at least, with 99.9 % confidence
    claimed_epsilon: float | None  #: None: no claim
    auc_interval: tuple[float, float] = (0.0, 1.0)
    tpr_at_1_percent_interval: tuple[float, float] = (0.0, 1.0)
    tpr_at_01_percent_interval: tuple[float, float] = (0.0, 1.0)
    kind: str = ""  #: kind of sharing


@dataclass(frozen=True)
class Reconstruction:
    """Distance of what a head sent from a sample of it: root mean square over coordinates, values in [0, 1].

    A member learns something only as far as it is closer with the sample among those of the head than without.
    """

    kind: str  #: kind of sharing
    distance: float  #: from a sample of the head to the nearest that it sent, median of the games
    distance_without: float  #: the same if another sample is in its place
    recovered: float  #: part of the games in which a sample came as close as 0.05
    recovered_without: float  #: the same if another sample is in its place


@dataclass(frozen=True)
class RunAttack:
    """Results of membership and reconstruction tests on what heads sent."""

    tests: list[AttackResult]
    reconstructions: list[Reconstruction]  #: one of each kind of sharing


def attack_run(
    folder: str | Path,
    *,
    targets: int = 10,
    draws: int = 100,
    data_dir: str | Path | None = None,
    progress: Callable[[int], None] | None = None,
) -> RunAttack:
    """Play membership games on what the heads of a run send.

    Args:
        folder: a run folder; its scenario is prepared again.
        targets: samples that are looked for, each of a random head.
        draws: games with each target, and as many with another sample in its place.
        data_dir: where dataset files are looked for first.
        progress: called with the number of targets that are done.
    """
    scenario = stored_scenario(folder)
    if targets < 1 or draws < _LEAST_DRAWS:
        raise FedcastError(
            f"invalid value {targets} × {draws}: expected at least one target and {_LEAST_DRAWS} draws, half of which "
            "calibrate a test"
        )
    run = prepare_run(scenario, data_dir=data_dir)
    if not run.sharing.sends or run.clustering.broadcast is not None or not len(run.clustering.heads):
        raise FedcastError(f"{folder}: no head sent samples to members in this run; nothing to attack")
    return attack_heads(run, targets, draws, progress)


def attack_heads(
    run: PreparedRun, targets: int, draws: int, progress: Callable[[int], None] | None = None
) -> RunAttack:
    """Play the games on the heads of a prepared run, each with the kind that it sends."""
    games: dict[str, dict[str, list[Scores]]] = {}
    near: dict[str, list[Scores]] = {}
    for number, (kind, target) in enumerate(_targets(run, targets)):
        played, tests = _played(run, kind, target, draws, number)
        near.setdefault(kind, []).append(played.near)
        for test, scores in tests.items():
            games.setdefault(kind, {}).setdefault(test, []).append(scores)
        if progress is not None:
            progress(number + 1)
    options = run.world.scenario.sharing.options
    claims = {kind: options("sharing", kind) if find_sharing(kind).private else None for kind in games}
    found = [
        attack_result(test, joined(scores), claims[kind], kind)
        for kind, tests in games.items()
        for test, scores in tests.items()
    ]
    return RunAttack(found, [_reconstruction(kind, joined(scores)) for kind, scores in near.items()])


def _played(run: PreparedRun, kind: str, target: Target, draws: int, number: int) -> tuple[Games, dict[str, Scores]]:
    """Play the games of one target; return them, and the scores of each test."""
    sharing, seed = find_sharing(kind), run.world.scenario.seed + number
    options = run.world.scenario.sharing.options("sharing", kind)
    played = play(sharing.make or make_raw, target, options, draws, seed, sharing.private)
    shadows = shadow_head_scores(played, target, run.dataset, first_model(run), run.training, seed)
    tests = {"nearest sample": calibrated(played.near), "shadow heads": calibrated(shadows)}
    return played, tests if played.ratios is None else tests | {"likelihood ratio": played.ratios}


def _reconstruction(kind: str, near: Scores) -> Reconstruction:
    distances = [-near.inside, -near.outside]
    medians = [float(np.median(each)) for each in distances]
    return Reconstruction(kind, *medians, *(float((each <= _RECOVERED).mean()) for each in distances))


def stored_scenario(folder: str | Path) -> Scenario:
    """Return the scenario of a run folder."""
    path = Path(folder) / "scenario.toml"
    if not path.exists():
        raise FedcastError(f"{folder}: no run in this folder; expected one made by `fedcast train` or `fedcast run`")
    return read_stored_scenario(path)


def attack_result(test: str, scores: Scores, claim: Any, kind: str = "") -> AttackResult:
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
        scores.auc_interval,
        scores.true_positives_interval(0.01),
        scores.true_positives_interval(0.001),
        kind,
    )


def _targets(run: PreparedRun, count: int) -> list[tuple[str, Target]]:
    """Draw samples of heads with the kinds that these send, and test samples to replace them."""
    dataset, clustering, rng = run.dataset, run.clustering, generator(run.world.scenario.seed, "attack")
    balanced = clustering.problem.settings.composition == "balanced"
    kinds, found = run.plan.kinds or [run.world.scenario.sharing.kind] * run.own.num_users, []
    for head in rng.choice(clustering.heads, count):
        samples, other = run.own.of(int(head)), int(rng.integers(len(dataset.test_labels)))
        held = Held(dataset.features(samples), dataset.labels[samples], dataset.num_classes)
        replacement = scaled(np.asarray(dataset.test_inputs[[other]]), dataset.scale)[0]
        position, label = int(rng.integers(len(samples))), int(dataset.test_labels[other])
        target = Target(held, int(clustering.shared[head]), balanced, position, replacement, label)
        found.append((str(kinds[int(head)]), target))
    return found
