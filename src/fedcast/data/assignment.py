"""Assignment of samples to users: by class counts, at random, or by `flwr-datasets`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedcast.data.dataset import Dataset
from fedcast.errors import DataError
from fedcast.typing import Bools, Ints

if TYPE_CHECKING:
    from flwr_datasets.partitioner import Partitioner

_FLWR_COLUMN = "fedcast_sample"


@dataclass(frozen=True, eq=False)
class Assignment:
    """The samples of each user; user k has ``samples[offsets[k]:offsets[k + 1]]``."""

    samples: Ints  #: int64[n_assigned], indices into the dataset
    offsets: Ints  #: int64[K + 1]

    @property
    def num_users(self) -> int:
        """Number of users K."""
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Ints:
        """Number of samples of each user, int64[K]."""
        return np.diff(self.offsets)

    def of(self, user: int) -> Ints:
        """Return the samples of one user (a view)."""
        return self.samples[self.offsets[user] : self.offsets[user + 1]]

    def only(self, users: Bools) -> Assignment:
        """Return the same with no samples for users outside the mask bool[K]."""
        kept = users[self.owners]
        return assignment_from_owners(self.owners[kept], self.samples[kept], self.num_users)

    @property
    def owners(self) -> Ints:
        """The user of each entry of `samples`, int64[n_assigned]."""
        return np.repeat(np.arange(self.num_users), self.sizes)


def assignment_from_owners(owners: Ints, samples: Ints, num_users: int) -> Assignment:
    """Group samples by their owner, keeping the order within each user."""
    order = np.argsort(owners, kind="stable")
    sizes = np.bincount(owners, minlength=num_users)
    return Assignment(samples[order], np.concatenate([[0], np.cumsum(sizes)]))


def assignment_from_flwr(dataset: Dataset, partitioner: Partitioner, label_column: str = "label") -> Assignment:
    """Return the assignment that a `flwr-datasets` partitioner makes of a dataset (extra ``fedcast[flwr-datasets]``).

    The partitioner must have no dataset yet. It gets the labels as `label_column`, the natural owners as ``group`` and
    the number of each training sample, but no inputs.
    """
    try:
        import datasets
    except ImportError:
        raise DataError('flwr-datasets is not installed: pip install "fedcast[flwr-datasets]"') from None
    columns = {label_column: dataset.labels, _FLWR_COLUMN: np.arange(len(dataset))}
    if dataset.groups is not None:
        columns["group"] = dataset.groups
    partitioner.dataset = datasets.Dataset.from_dict(columns)
    parts = [
        np.asarray(partitioner.load_partition(user)[_FLWR_COLUMN], dtype=np.int64)
        for user in range(partitioner.num_partitions)
    ]
    owners = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    return assignment_from_owners(owners, np.concatenate(parts), len(parts))


def class_counts(assignment: Assignment, labels: Ints, num_classes: int) -> Ints:
    """Return the number of samples of each user and class, int64[K, Y].

    Example:
        >>> held = Assignment(samples=np.array([2, 0, 1]), offsets=np.array([0, 2, 2, 3]))
        >>> class_counts(held, labels=np.array([1, 0, 1]), num_classes=2).tolist()
        [[0, 2], [0, 0], [1, 0]]
    """
    cells = assignment.owners * num_classes + labels[assignment.samples]
    shape = assignment.num_users, num_classes
    return np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)


def deal(labels: Ints, counts: Ints, rng: np.random.Generator) -> Assignment:
    """Assign random samples so that user k gets ``counts[k, y]`` of class y; every class must have enough samples."""
    users, samples = [], []
    everyone, by_class = np.arange(len(counts)), np.argsort(labels, kind="stable")
    ends = np.cumsum(np.bincount(labels, minlength=counts.shape[1]))
    for label, held in enumerate(np.split(by_class, ends[:-1])):
        shuffled = rng.permutation(held)
        wanted = counts[:, label]
        samples.append(shuffled[: wanted.sum()])
        users.append(np.repeat(everyone, wanted))
    return assignment_from_owners(np.concatenate(users), np.concatenate(samples), len(counts))


def random_deal(class_sizes: Ints, sizes: Ints, rng: np.random.Generator) -> Ints:
    """Draw the class counts, int64[K, Y], of users who draw `sizes`[K] samples from one pool without replacement.

    Exact in distribution without touching a sample: the pool is split recursively between two halves of the users, with
    the classes of each half drawn from the hypergeometric distribution. O(K·Y) draws.

    Example:
        >>> counts = random_deal(np.array([5, 3]), np.array([2, 2, 4]), np.random.default_rng(0))
        >>> counts.sum(axis=1).tolist(), counts.sum(axis=0).tolist()
        ([2, 2, 4], [5, 3])
    """
    left_over = class_sizes.sum() - sizes.sum()
    edges = np.concatenate([[0], np.cumsum(np.append(sizes, left_over))])
    low, high = np.array([0]), np.array([len(sizes) + 1])
    pools = np.asarray(class_sizes, dtype=np.int64)[None, :]
    counts = np.zeros((len(sizes) + 1, len(class_sizes)), dtype=np.int64)
    while len(low):
        single = high - low == 1
        counts[low[single]] = pools[single]
        low, high, pools = low[~single], high[~single], pools[~single]
        middle = (low + high) // 2
        first = draw_from(pools, edges[middle] - edges[low], rng)
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
        pools = np.concatenate([first, pools - first])
    return counts[:-1]


def draw_from(pools: Ints, sizes: Ints, rng: np.random.Generator) -> Ints:
    """Draw ``sizes[i]`` samples from pool i without replacement; return class counts int64[N, Y]."""
    drawn = np.zeros_like(pools)
    left_in_pool = pools.sum(axis=1)
    left_to_draw = sizes.copy()
    for label in range(pools.shape[1]):
        of_class = pools[:, label]
        left_in_pool = left_in_pool - of_class
        drawn[:, label] = rng.hypergeometric(of_class, left_in_pool, left_to_draw)
        left_to_draw = left_to_draw - drawn[:, label]
    return drawn


def split_by_shares(total: int, shares: NDArray[np.float64]) -> Ints:
    """Return integers that sum to `total`, proportional to `shares`, each within one of the exact value.

    Example:
        >>> split_by_shares(10, np.array([0.25, 0.25, 0.5])).tolist()
        [3, 2, 5]
    """
    edges = np.floor(np.cumsum(shares) / shares.sum() * total + 0.5).astype(np.int64)
    edges[-1] = total
    parts: Ints = np.diff(edges, prepend=0)
    return parts


def dirichlet_shares(alpha: float, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw shares along axis 0 from a symmetric Dirichlet distribution, also for tiny alpha.

    Gamma variates underflow to 0 for small alpha, which would give 0/0; their logarithms do not underflow:
    ln G(alpha) = ln G(alpha + 1) + ln(U)/alpha (Marsaglia and Tsang 2000, §6).
    """
    logs = np.log(rng.standard_gamma(alpha + 1, shape)) + np.log1p(-rng.random(shape)) / alpha
    shares = np.exp(logs - logs.max(axis=0))
    normalised: NDArray[np.float64] = shares / shares.sum(axis=0)
    return normalised


def ensure_minimum(counts: Ints, minimum: int, rng: np.random.Generator) -> Ints:
    """Move as few samples as possible from the largest users so that every user has at least `minimum`.

    Redrawing the partition until it fits, as other tools do, may never terminate.
    """
    sizes = counts.sum(axis=1)
    if sizes.sum() < minimum * len(sizes):
        raise DataError(
            f"invalid value {minimum} for min_samples: {len(sizes)} users need {minimum * len(sizes)} samples, "
            f"there are {sizes.sum()}; decrease it or data.num_users"
        )
    missing = np.maximum(minimum - sizes, 0)
    given = _surplus_of_largest(sizes, int(missing.sum()), minimum)
    moved = draw_from(counts, given, rng)
    return counts - moved + random_deal(moved.sum(axis=0), missing, rng)


def _surplus_of_largest(sizes: Ints, needed: int, minimum: int) -> Ints:
    """Return how many samples each user gives if the largest are reduced to a common level to yield `needed`."""
    low, high = minimum, int(sizes.max(initial=minimum)) + 1
    while high - low > 1:
        level = (low + high) // 2
        enough = np.maximum(sizes - level, 0).sum() >= needed
        low, high = (level, high) if enough else (low, level)
    given = np.maximum(sizes - low, 0)
    too_many = given.sum() - needed
    given[np.flatnonzero(given)[:too_many]] -= 1
    return given
