"""Work controls: users repeat samples of their own instead of receiving others, so that only the work grows.

Sharing lowers the skew, and it makes members train on more samples a round. A control trains on as many samples a round
as the plan that it is compared with, but nothing leaves a device and the distributions of users stay as they are: what
the plan gains over the control it gains by less skew. A user without samples of its own has nothing to repeat and does
not train in a control; what it would receive is left out of the total.
"""

from __future__ import annotations

import numpy as np

from fedcast.clustering import Clustering
from fedcast.data import Assignment, Population, assignment_from_owners, split_by_shares
from fedcast.random import generator
from fedcast.registry import NoOptions
from fedcast.sharing.ledger import Ledger, Shared, Sharing, own_samples
from fedcast.typing import Ints


def repeat_received(
    population: Population, clustering: Clustering, seed: int = 0, options: NoOptions | None = None
) -> Shared:
    """Let every user repeat as many of its own samples as it would receive: ñ_k samples a round, as in the plan."""
    del options
    own = own_samples(population, clustering)
    return _repeat(own, _received(own, clustering), seed)


def repeat_evenly(
    population: Population, clustering: Clustering, seed: int = 0, options: NoOptions | None = None
) -> Shared:
    """Let every user train on the same multiple Σñ/Σn of its own samples, rounded such that the total is Σñ.

    Small users that receive many samples would repeat their few ones often; here all users repeat theirs equally often.
    """
    del options
    own = own_samples(population, clustering)
    total = int(own.sizes.sum() + _received(own, clustering).sum())
    return _repeat(own, split_by_shares(total, own.sizes.astype(np.float64)) - own.sizes, seed)


WORK = Sharing(
    repeat_received, "control: members repeat own samples, as many as they would receive; nothing is sent", sends=False
)
EPOCHS = Sharing(
    repeat_evenly,
    "control: all users repeat own samples equally often, as many in total as received; nothing is sent",
    sends=False,
    weights="own",
)


def _received(own: Assignment, clustering: Clustering) -> Ints:
    """Return the whole samples that each user with samples of its own would receive, int64[K]."""
    return np.where(own.sizes > 0, clustering.received, 0.0).astype(np.int64)


def _repeat(own: Assignment, times: Ints, seed: int) -> Shared:
    """Repeat so many samples of each user: all in a random order, then again in that order."""
    users = np.flatnonzero(times)
    orders = [generator(seed, "repeat", user=user).permutation(own.of(user)) for user in users.tolist()]
    repeated = [np.resize(order, count) for order, count in zip(orders, times[users], strict=True)]
    owners = np.concatenate([own.owners, np.repeat(users, times[users])])
    samples = np.concatenate([own.samples, *repeated])
    nothing = np.zeros((3, 0), dtype=np.int64)
    return Shared(assignment_from_owners(owners, samples, own.num_users), Ledger(*nothing))
