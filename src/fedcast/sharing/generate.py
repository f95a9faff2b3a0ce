"""Share generated samples: every head makes some of its own samples and sends them to its members."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from fedcast.clustering import Clustering
from fedcast.data import Dataset, Generated, Population, stored
from fedcast.errors import FedcastError
from fedcast.random import generator
from fedcast.registry import option
from fedcast.sharing.gaussian_noise import seeded_noise
from fedcast.sharing.ledger import (
    SERVER,
    Held,
    Ledger,
    Made,
    Make,
    Privacy,
    Request,
    Shared,
    Sharing,
    own_samples,
    server_pool,
)
from fedcast.sharing.privacy import DEFAULT_DELTA, MOST_EPSILON
from fedcast.typing import Floats, Ints


@dataclass(frozen=True)
class PrivacyOptions:
    """Options of kinds with differential privacy."""

    epsilon: float = option(4.0, "privacy loss ε of what a head sends in a run", gt=0, le=MOST_EPSILON)
    delta: float = option(DEFAULT_DELTA, "δ that belongs to ε", gt=0, lt=1)


def generating(make: Make, summary: str, options: type[Any], *, private: bool) -> Sharing:
    """Return the kind of sharing whose heads generate samples."""
    return Sharing(partial(share_generated, make, private=private), summary, options, make=make, private=private)


def share_generated(
    make: Make, population: Population, clustering: Clustering, seed: int, options: Any, *, private: bool
) -> Shared:
    """Let every head with members, or the server, generate samples and send the same to each of its members.

    Noise repeats with the seed: this is the simulation of a release, not a release of anybody's data.
    """
    own, dataset = own_samples(population, clustering), population.dataset
    assert dataset is not None
    check_samples(dataset)
    balanced = clustering.problem.settings.composition == "balanced"
    if clustering.broadcast is not None:
        server = server_pool(own, clustering, seed)
        senders = {SERVER: (np.sort(server.samples), clustering.broadcast.volume, np.arange(population.num_users))}
        balanced = True
    else:
        heads = [int(head) for head in clustering.heads]
        senders = {head: (own.of(head), clustering.shared[head], clustering.members_of(head)) for head in heads}
    made: list[Made] = []
    entries, sources = [np.zeros((3, 0), dtype=np.int64)], [np.zeros((2, 0), dtype=np.int64)]
    mu, first = np.zeros(population.num_users), len(dataset)
    for sender, (pool, volume, receivers) in senders.items():
        if not len(receivers) or int(volume) == 0 or not len(pool):
            continue
        rngs = (generator(seed, purpose, user=sender) for purpose in ("share", "noise"))
        request = Request(int(volume), balanced, next(rngs), seeded_noise(next(rngs)))
        some = make(Held(dataset.features(pool), dataset.labels[pool], dataset.num_classes), request, options)
        made.append(some)
        numbers = first + np.arange(len(some.labels))
        first += len(numbers)
        to = np.repeat(receivers, len(numbers))
        entries.append(np.stack([np.tile(numbers, len(receivers)), np.full(len(to), sender), to]))
        if some.sources is not None:
            revealed = pool[some.sources]
            sources.append(np.stack([np.full(len(revealed), sender), revealed]))
        # What the server sends is made of samples of all users that agree.
        mu[sender if sender >= 0 else server.sizes > 0] = some.mu or 0.0
    sent = np.concatenate(entries, axis=1)
    privacy = Privacy(mu, options.delta, "seeded") if private else None
    ledger = Ledger(sent[0], sent[1], sent[2], np.concatenate(sources, axis=1), privacy)
    return Shared.by_ledger(own, ledger, _joined(made, dataset))


def check_samples(dataset: Dataset) -> None:
    """Raise an error if no samples can be generated from those of a dataset."""
    if dataset.is_text:
        raise FedcastError(
            f"invalid value for sharing.kind: data.dataset = {dataset.name} is text, and averages of characters mean "
            "nothing; expected raw"
        )


def shares_of_classes(counts: Floats, volume: int, balanced: bool) -> Ints:
    """Divide a volume among classes by (noisy) counts ≥ 0: in their proportions, or equally among those above 0."""
    weights = (counts > 0).astype(np.float64) if balanced else counts
    edges = np.floor(np.cumsum(weights) / weights.sum() * volume + 0.5).astype(np.int64)
    parts: Ints = np.diff(edges, prepend=0)
    return parts


def _joined(made: list[Made], dataset: Dataset) -> Generated | None:
    if not made:
        return None
    labels = np.concatenate([some.labels for some in made])
    soft = [some.soft_labels for some in made if some.soft_labels is not None]
    kind = np.asarray(dataset.inputs[:1]).dtype
    inputs = np.concatenate([stored(some.inputs, kind, dataset.scale) for some in made])
    return Generated(inputs, labels, np.concatenate(soft).astype(np.float32) if soft else None)
