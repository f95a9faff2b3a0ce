"""Kinds of sharing, the data of users after sharing, and the privacy ledger: what was sent, and what it reveals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcast import registry
from fedcast.clustering import Clustering
from fedcast.data import Assignment, Dataset, Generated, Population, assignment_from_owners, extend
from fedcast.errors import FedcastError
from fedcast.io import save_table
from fedcast.random import generator
from fedcast.sharing.gaussian_noise import Noise, NoiseSource
from fedcast.sharing.privacy import DEFAULT_DELTA, Release, gaussian_mu, pure_mu, total_epsilon
from fedcast.typing import Bools, Floats, Ints

# The sender of what the server broadcasts.
SERVER = -1
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Privacy:
    """Privacy that each user spent on releases; one release to several users counts once."""

    mu: Floats  #: float64[K], μ of all releases together, see `fedcast.sharing.total_mu`; 0: it released nothing
    delta: float  #: δ at which ε is reported
    noise: NoiseSource  #: where the noise comes from: who knows the seed of a simulation can subtract it
    pure: Floats | float = 0.0  #: float64[K], ε of releases with δ = 0 beside these: noisy class counts

    @property
    def epsilon(self) -> Floats:
        """Return ε of each user's releases together at δ, float64[K]."""
        return epsilon_of_users(self.mu, self.pure, self.delta)

    def save(self, path: str | Path) -> Path:
        """Write columns user, mu, epsilon, delta and noise of users that released something, as .csv or .parquet.

        Column mu holds everything, noisy counts included, as `mu_spent` of a devices table expects it.
        """
        pure = np.broadcast_to(self.pure, self.mu.shape)
        together = np.hypot(self.mu, [pure_mu(float(one)) for one in pure])
        users = np.flatnonzero(together)
        same = {"delta": np.full(len(users), self.delta), "noise": np.full(len(users), self.noise)}
        return save_table({"user": users, "mu": together[users], "epsilon": self.epsilon[users], **same}, path)


def epsilon_of_users(mu: Floats, pure: ArrayLike, delta: ArrayLike) -> Floats:
    """Return ε of each user at δ from μ of its Gaussian releases and ε of those with δ = 0 together, float64[K]."""
    rows = np.stack(np.broadcast_arrays(mu, np.asarray(pure, dtype=np.float64), np.asarray(delta)), axis=1)
    values, places = np.unique(rows, axis=0, return_inverse=True)
    found = [total_epsilon([Release("", mu=a), Release("", epsilon=b)], at) for a, b, at in values.tolist()]
    return np.array(found, dtype=np.float64)[places.ravel()]


@dataclass(frozen=True, eq=False)
class Ledger:
    """The privacy ledger: one entry for every sample that another user received."""

    samples: Ints  #: int64[T], index in the dataset; generated samples are numbered after its own
    senders: Ints  #: int64[T], user, or -1 for the server
    receivers: Ints  #: int64[T], user
    #: int64[2, S], owner and number of each sample that generated ones reveal without a guarantee; None: those sent
    sources: Ints | None = None
    privacy: Privacy | None = None  #: None: what was sent has no differential privacy

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def distinct_samples(self) -> int:
        """The number of different samples that were sent."""
        return len(np.unique(self.samples))

    def revealed_shares(self, sizes: Ints) -> Floats:
        """Return the share of each user's samples that other users received, float64[K].

        `sizes` are their numbers of samples before sharing. What the server sends counts for no user, nor do samples
        that are protected by differential privacy; of averages without such a guarantee every sample in them counts.
        """
        pairs = np.stack([self.senders, self.samples]) if self.sources is None else self.sources
        pairs = np.unique(pairs, axis=1)
        counts = np.bincount(pairs[0][pairs[0] >= 0], minlength=len(sizes))
        return np.divide(counts, sizes, out=np.zeros(len(sizes)), where=sizes > 0)

    def save(self, path: str | Path) -> Path:
        """Write columns sample, sender and receiver as .csv or .parquet."""
        return save_table({"sample": self.samples, "sender": self.senders, "receiver": self.receivers}, path)


@dataclass(frozen=True, eq=False)
class Shared:
    """Data after sharing: samples of each user, first its own, then those that it received; and the ledger."""

    assignment: Assignment
    ledger: Ledger
    generated: Generated | None = None  #: samples that are not in the dataset

    @classmethod
    def by_ledger(cls, own: Assignment, ledger: Ledger, generated: Generated | None = None) -> Shared:
        """Return the data of users that have samples of their own, and receive what the ledger lists."""
        owners = np.concatenate([own.owners, ledger.receivers])
        samples = np.concatenate([own.samples, ledger.samples])
        return cls(assignment_from_owners(owners, samples, own.num_users), ledger, generated)

    def of(self, users: Bools) -> Shared:
        """Return the same with no samples for users outside the mask, so that they do not train."""
        return replace(self, assignment=self.assignment.only(users))

    def dataset(self, dataset: Dataset) -> Dataset:
        """Return the dataset that the assignment refers to: with the generated samples after its own."""
        return extend(dataset, self.generated)

    def labels(self, dataset: Dataset) -> Ints:
        """Return the labels of that dataset."""
        return dataset.labels if self.generated is None else np.concatenate([dataset.labels, self.generated.labels])


@dataclass(frozen=True, eq=False)
class Held:
    """The samples that one user holds, as a kind that generates others of them sees them."""

    inputs: NDArray[np.float32]  #: [n, ...], in [0, 1]
    labels: Ints  #: int64[n]
    num_classes: int


@dataclass(frozen=True, eq=False)
class Request:
    """A request to a head, and the randomness for it."""

    volume: int  #: samples to generate
    balanced: bool  #: as equal over classes as the data allow; otherwise in the proportions of the data
    rng: np.random.Generator  #: for draws that need not be secret
    noise: Noise  #: adds what protects to whole numbers


@dataclass(frozen=True, eq=False)
class Made:
    """Generated samples of one user."""

    inputs: NDArray[Any]  #: [V, ...], in [0, 1]
    labels: Ints  #: int64[V]
    soft_labels: NDArray[np.float32] | None = None  #: float32[V, Y], see `Generated`
    mu: float | None = None  #: they are μ-GDP, all together; None: no guarantee
    sources: Ints | None = None  #: int64[S], positions of the samples that they reveal, where there is no guarantee


#: (samples of one user, request, options) → samples that it generates
Make = Callable[[Held, Request, Any], Made]


@dataclass(frozen=True)
class Sharing:
    """A kind of sharing: the value that `fedcast.registry` holds under its name; `fedcast.testing.sharing` checks one.

    `share` returns the data after sharing from (population, clustering, seed, options); the same arguments always give
    the same result. `options` is a frozen dataclass, see `fedcast.registry.option`.

    A kind that sends nothing (`sends` is false) is a control: users train on samples of their own as often as `share`
    lists them, so that its ledger is empty and its runs have no sharing delay, no leakage and the skew of before.
    """

    share: Callable[[Population, Clustering, int, Any], Shared]
    summary: str  #: one line that says what is sent
    options: type[Any] = registry.NoOptions
    sends: bool = True  #: whether samples leave a device
    weights: Literal["shared", "own"] = "shared"  #: of users under `training.aggregation` = shared: ñ_k, or own: n_k
    make: Make | None = None  #: generates samples; `share` then calls it for every head
    private: bool = False  #: whether options have `epsilon` and `delta`, and `make` keeps to them

    def mu(self, options: Any) -> float:
        """Return the privacy loss μ of what a head sends; ∞: no guarantee."""
        return gaussian_mu(options.epsilon, options.delta) if self.private else np.inf

    def affordable(
        self,
        options: Any,
        budgets: Floats,
        spent_mu: Floats,
        mu: float | None = None,
        delta: ArrayLike = DEFAULT_DELTA,
        pure: float = 0.0,
    ) -> Bools:
        """Return who can be a head within its privacy budget ε, float64[K], after what it spent before, bool[K].

        `mu` is the privacy loss of a release (None: that of the options), `delta` the δ of the budgets, whatever that
        of the options is, and `pure` ε of noisy counts that are released besides.
        """
        if not self.private:
            return np.ones(len(budgets), dtype=bool)
        together = np.hypot(spent_mu, self.mu(options) if mu is None else mu)
        return epsilon_of_users(together, pure, delta) <= budgets * (1 + _ROUNDING)


def own_samples(population: Population, clustering: Clustering) -> Assignment:
    """Return the samples of each user before sharing; raise an error if there are none, or of other users."""
    if population.assignment is None or population.dataset is None:
        raise FedcastError("synthetic populations have counts but no samples: nothing can be shared or trained")
    if clustering.problem.num_users != population.num_users:
        raise FedcastError(
            f"the clustering is of {clustering.problem.num_users} users, the population of {population.num_users}"
        )
    return population.assignment


def server_pool(own: Assignment, clustering: Clustering, seed: int) -> Assignment:
    """Return the samples that the server may send or generate others of: of each user as many as it consents to."""
    ratios = clustering.problem.max_ratios
    if ratios is None or (ratios >= 1).all():
        return own
    allowed = np.floor(ratios * own.sizes + _ROUNDING).astype(np.int64)
    kept = [
        own.of(user)
        if allowed[user] == own.sizes[user]
        else np.sort(generator(seed, "server pool", user=user).permutation(own.of(user))[: allowed[user]])
        for user in range(own.num_users)
    ]
    return assignment_from_owners(np.repeat(np.arange(own.num_users), allowed), np.concatenate(kept), own.num_users)


def find_sharing(name: str) -> Sharing:
    """Return the kind of sharing of that name.

    Example:
        >>> find_sharing("raw").summary
        'heads send raw samples to their members'
    """
    kind: Sharing = registry.find("sharing", name).value
    return kind
