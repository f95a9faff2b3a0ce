"""Share with a kind of sharing of its own for each head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedcast.clustering import Clustering
from fedcast.data import Generated, Population
from fedcast.sharing.ledger import Ledger, Privacy, Shared, find_sharing, own_samples


def share_by_head(
    population: Population, clustering: Clustering, seed: int, kinds: Sequence[str], options: Mapping[str, Any]
) -> Shared:
    """Let every head send its kind of samples, raw or with differential privacy.

    Args:
        population: the users and their samples.
        clustering: who shares how much with whom; no broadcast.
        seed: of every draw; a head sends what it would if all sent its kind.
        kinds: kind of sharing of each user, as a plan chooses them.
        options: those of each kind.
    """
    own, head_of = own_samples(population, clustering), clustering.head_of
    of_head = np.asarray(kinds)[head_of]
    ledgers: list[Ledger] = []
    made: list[Generated] = []
    for kind in np.unique(np.asarray(kinds)[clustering.heads]).tolist():
        part = replace(clustering, head_of=np.where((head_of >= 0) & (of_head == kind), head_of, -1), proof=None)
        shared = find_sharing(kind).share(population, part, seed, options[kind])
        ledger = shared.ledger
        if shared.generated is not None:
            # Each kind numbers its samples after those of the dataset.
            ledger = replace(ledger, samples=ledger.samples + sum(map(len, made)))
            made.append(shared.generated)
        ledgers.append(ledger)
    return Shared.by_ledger(own, _joined(ledgers), _joined_samples(made))


def _joined(ledgers: Sequence[Ledger]) -> Ledger:
    nothing = np.zeros((3, 0), dtype=np.int64)
    sent = np.concatenate([nothing, *(np.stack([one.samples, one.senders, one.receivers]) for one in ledgers)], axis=1)
    sources = [np.stack([one.senders, one.samples]) if one.sources is None else one.sources for one in ledgers]
    private = [one.privacy for one in ledgers if one.privacy is not None]
    privacy = None
    if private:
        mu = np.sum([one.mu for one in private], axis=0)  # no user is a head twice
        privacy = Privacy(mu, max(one.delta for one in private), private[0].noise)
    return Ledger(sent[0], sent[1], sent[2], np.concatenate([nothing[:2], *sources], axis=1), privacy)


def _joined_samples(made: Sequence[Generated]) -> Generated | None:
    if not made:
        return None
    return Generated(np.concatenate([one.inputs for one in made]), np.concatenate([one.labels for one in made]), None)
