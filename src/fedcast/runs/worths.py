"""Fit the worth of generated samples, by kind of sharing, to stored runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from fedcast.allocation import part_of
from fedcast.cost import privacy_mu
from fedcast.data import average_emd, distribution_shift
from fedcast.plan import SharingPlan, clustering_of, make_world
from fedcast.rounds import LEAST_RUNS, GeneratedRun, RoundsFit, Worth, fit_worth, local_steps, signal_of
from fedcast.runs.prepare import kind_of
from fedcast.runs.stored_run import StoredRun
from fedcast.scenario import Scenario
from fedcast.training import History


def fit_worths(fit: RoundsFit, runs: Sequence[StoredRun], source: str = "") -> RoundsFit:
    """Return a fit whose laws also know the worth of the samples that heads of these runs sent.

    Runs of one kind are taken together, whatever their ε and volumes. Kinds of fewer than three runs stay as they are.
    Runs must have trained the task of the fit.
    """
    by_kind: dict[str, list[tuple[History, GeneratedRun]]] = defaultdict(list)
    chosen = [run for run in runs if kind_of(run.scenario).make is not None]
    for run in chosen:
        if run.plan is not None and len(run.plan.heads):
            by_kind[run.scenario.sharing.kind].append((run.history, generated_run(run.scenario, run.plan)))
    worths: list[dict[str, Worth]] = [dict(law.worth) for law in fit.laws]
    for kind, some in by_kind.items():
        for law, found in zip(fit.laws, worths, strict=True) if len(some) >= LEAST_RUNS else ():
            trained = [_trained(described, history, law.target_accuracy) for history, described in some]
            found[kind] = fit_worth(law, trained, source)
    return replace(fit, laws=tuple(replace(law, worth=found) for law, found in zip(fit.laws, worths, strict=True)))


def _trained(run: GeneratedRun, history: History, target: float) -> GeneratedRun:
    rounds = history.rounds_to(target)
    return replace(run, rounds=len(history) - 1 if rounds is None else max(rounds, 1), met=rounds is not None)


def generated_run(scenario: Scenario, plan: SharingPlan) -> GeneratedRun:
    """Return the signals of a plan's heads, and its conditions as a function of the worth of what they send.

    What training took is not known: set `rounds` and `met`.
    """
    world = make_world(scenario)
    clustering, trained = clustering_of(world, plan), plan.trained
    before, batch = part_of(world.skew, trained), scenario.training.batch_size

    @cache
    def of_worth(worth: bytes) -> tuple[float, float, float]:
        of_users = np.zeros(world.skew.num_users)
        of_users[clustering.heads] = np.frombuffer(worth)
        counted = part_of(clustering.after_worth(of_users), trained)
        steps = local_steps(before.sizes, counted.sizes, plan.local_epochs, batch)
        return average_emd(before, counted, scenario.clustering.weighting), steps, distribution_shift(counted)

    signals = signal_of(privacy_mu(scenario, scenario.sharing.kind), world.population.counts)[clustering.heads]
    return GeneratedRun(signals, lambda worth: of_worth(worth.tobytes()), scenario.training.learning_rate, 1, met=False)
