"""The folder of a finished run as `fedcast report` and `fedcast.runs` read it.

The server has no samples: in their place stand samples with the described labels, and what heads sent is drawn from
these in the same numbers, so that sizes are exact and the classes of shared samples are those that can be expected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedcast.data import Assignment, Dataset, Population
from fedcast.plan import Planned
from fedcast.runs import PreparedRun, store_run
from fedcast.sharing import Ledger, Privacy, Shared, find_sharing, share_samples
from fedcast.training import History


def write_results(
    folder: Path, planned: Planned, shared: Mapping[str, Any], history: History, measured_s: Mapping[str, float]
) -> Path:
    """Write the results of a run; `shared` are the answers of the heads, by name."""
    population = _described(planned.world.population)
    world = replace(planned.world, population=population)
    sent = share_samples(population, planned.clustering, world.scenario.seed)
    assert population.assignment is not None
    assert population.names is not None
    names = population.names.tolist()
    ledger = _delivered(sent.ledger, shared, names)
    if find_sharing(world.scenario.sharing.kind).private:
        delta = world.scenario.sharing.options("sharing").delta
        ledger = replace(ledger, sources=np.zeros((2, 0), dtype=np.int64), privacy=_privacy(shared, names, delta))
    plan, after = replace(planned.plan, scenario=world.scenario), Shared.by_ledger(population.assignment, ledger)
    prepared = PreparedRun(world, planned.clustering, planned.cost, plan, shared=after)
    return store_run(folder, prepared, history, measured_s)


def _described(population: Population) -> Population:
    """Return users with samples of the described labels and no content."""
    counts, classes = population.counts, population.counts.shape[1]
    labels = np.concatenate([np.repeat(np.arange(classes), row) for row in counts])
    inputs = np.broadcast_to(np.uint8(0), (len(labels), 1))
    dataset = Dataset("described", inputs, labels, inputs, labels, classes, 8.0, class_names=population.class_names)
    offsets = np.concatenate([[0], np.cumsum(counts.sum(axis=1))])
    return replace(population, dataset=dataset, assignment=Assignment(np.arange(len(labels)), offsets))


def _delivered(ledger: Ledger, shared: Mapping[str, Any], names: list[str]) -> Ledger:
    """Return the entries of a planned ledger that came true: members that received, as many samples as were sent."""
    kept = np.zeros(len(ledger), dtype=bool)
    for head, answer in shared.items():
        for member in answer.get("delivered", []):
            pair = (ledger.senders == names.index(head)) & (ledger.receivers == names.index(member))
            kept[np.flatnonzero(pair)[: int(answer["count"])]] = True
    return Ledger(ledger.samples[kept], ledger.senders[kept], ledger.receivers[kept])


def _privacy(shared: Mapping[str, Any], names: list[str], delta: float) -> Privacy:
    """Return what heads spent that sent something."""
    mu = np.zeros(len(names))
    for head, answer in shared.items():
        mu[names.index(head)] = (answer.get("mu") or 0.0) if answer["count"] else 0.0
    return Privacy(mu, delta, "secure")
