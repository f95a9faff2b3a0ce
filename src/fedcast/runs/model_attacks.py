"""Attack the trained model of a run: does it reveal whether a given sample was among the training data?

Shadow runs train the same task without a random half of the samples that are looked for, each with its own seed. The
test is that of LiRA (Carlini et al. 2022): the model's confidence in a sample's label is compared with those of shadow
runs that had it and of those that had not, each run in turn being the one that is attacked. What heads send is made
anew in every shadow run, so that a sample also acts through what was shared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from fedcast.data import Dataset, assignment_from_owners, class_counts, scaled
from fedcast.errors import FedcastError
from fedcast.random import generator
from fedcast.runs.attacks import AttackResult, attack_result, stored_scenario
from fedcast.runs.prepare import PreparedRun, prepare_run, share, train_prepared
from fedcast.runs.shadow_heads import confidence
from fedcast.scenario import with_overrides
from fedcast.sharing import Scores
from fedcast.typing import Bools, Floats, Ints

_LEAST_SHADOWS = 4
_LEAST_SIGMA = 1e-6


def attack_model(
    folder: str | Path,
    *,
    targets: int = 200,
    shadows: int = 16,
    data_dir: Path | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[AttackResult]:
    """Attack the trained model of a run, and of the same run without sharing.

    Args:
        folder: a run folder; its scenario is prepared again.
        targets: samples that are looked for, of all users that train.
        shadows: runs to train, of the scenario and, if anything is shared, as many without sharing.
        data_dir: where dataset files are looked for first.
        progress: called with the number of shadow runs that are done.
    """
    if targets < 1 or shadows < _LEAST_SHADOWS or shadows % 2:
        raise FedcastError(f"invalid value {shadows} for shadows: expected an even number of {_LEAST_SHADOWS} or more")
    scenario = stored_scenario(folder)
    runs = {"trained model": prepare_run(scenario, data_dir=data_dir)}
    if len(runs["trained model"].shared.ledger):
        alone = with_overrides(scenario, {"clustering.rule": "none", "sharing.kind": "raw"})
        runs["the same without sharing"] = prepare_run(alone, data_dir=data_dir)
    found, done = [], 0
    for name, run in runs.items():
        chosen = _targets(run, targets)
        # Runs 2j and 2j + 1 hold opposite halves of the targets.
        first = generator(run.world.scenario.seed, "attack/shadows").random((shadows // 2, targets)) < 0.5
        inside = np.stack([first, ~first], axis=1).reshape(shadows, targets)
        confidences = np.zeros(inside.shape)
        for shadow in range(shadows):
            trained = train_prepared(_shadow(run, chosen[~inside[shadow]], shadow))
            confidences[shadow] = label_logits(trained.model, run.dataset, chosen)
            done += 1
            if progress is not None:
                progress(done)
        found.append(attack_result(name, shadow_scores(confidences, inside), None))
    return found


def shadow_scores(confidences: Floats, inside: Bools) -> Scores:
    """Return log likelihood ratios of all games, from confidences and who was inside, [shadows, targets] each.

    Runs 2j and 2j + 1 hold opposite halves of the targets. In each run a target's confidence is compared with normal
    distributions around its means over the other pairs, with and without it; their spread is pooled over targets, as
    LiRA does where there are few shadow runs.
    """
    pairs = len(confidences) // 2
    first = inside[0::2]
    sides = [np.where(first == has, confidences[0::2], confidences[1::2]) for has in (True, False)]
    means = [(side.sum(axis=0) - side) / (pairs - 1) for side in sides]
    sigmas = [max(float((side - mean).std()), _LEAST_SIGMA) for side, mean in zip(sides, means, strict=True)]

    def ratio(values: Floats) -> Floats:
        logs = [
            -(((values - mean) / sigma) ** 2) / 2 - np.log(sigma) for mean, sigma in zip(means, sigmas, strict=True)
        ]
        return np.ravel(logs[0] - logs[1])

    return Scores(ratio(sides[0]), ratio(sides[1]))


def _targets(run: PreparedRun, count: int) -> Ints:
    """Return the samples that are looked for: numbers in the dataset, of users that train."""
    held = run.own.samples[run.trained[run.own.owners]]
    if len(held) < 2 * count:
        raise FedcastError(f"invalid value {count} for targets: expected at most half of the {len(held):,} samples")
    return generator(run.world.scenario.seed, "attack/targets").choice(held, count, replace=False)


def _shadow(run: PreparedRun, left_out: Ints, number: int) -> PreparedRun:
    """Return the run without some samples, with a seed of its own."""
    world, population, own = run.world, run.world.population, run.own
    kept = ~np.isin(own.samples, left_out)
    assignment = assignment_from_owners(own.owners[kept], own.samples[kept], own.num_users)
    counts = class_counts(assignment, run.dataset.labels, run.dataset.num_classes)
    smaller = replace(population, assignment=assignment, counts=counts)
    volumes = np.minimum(run.clustering.problem.volumes, assignment.sizes)
    clustering = run.clustering.with_volumes(volumes) if run.clustering.broadcast is None else run.clustering
    scenario = with_overrides(world.scenario, {"seed": world.scenario.seed + 1 + number})
    shared = share(scenario, run.plan, smaller, clustering)
    trained = run.trained & (shared.assignment.sizes > 0)
    world = replace(world, scenario=scenario, population=smaller)
    return replace(run, world=world, clustering=clustering, shared=shared.of(trained))


def label_logits(model: nn.Module, dataset: Dataset, samples: Ints) -> Floats:
    """Return log p/(1 − p) of the probabilities p that a model gives to the labels of samples, float64[N]."""
    if dataset.is_text:
        raise FedcastError("the model is one of text; expected samples with one label each")
    inputs = torch.from_numpy(scaled(np.asarray(dataset.inputs[samples]), dataset.scale).astype(np.float32))
    device = next(model.parameters()).device
    model.eval()
    with torch.no_grad():
        scores = model(inputs.to(device)).double().cpu()
    return confidence(scores, dataset.labels[samples])
