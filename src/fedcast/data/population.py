"""The population: users, their samples and class counts, from a dataset, drawn (synthetic) or from a table."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedcast.data.assignment import Assignment, class_counts, deal
from fedcast.data.catalogue import DatasetEntry, load_dataset
from fedcast.data.dataset import MOST_CLASSES, Dataset, check_class_names
from fedcast.data.partitions import PARTITIONS, Partition, find_partition
from fedcast.errors import DataError
from fedcast.io import Column, Table, column_names, read_user_table, read_with_users
from fedcast.random import generator
from fedcast.registry import option
from fedcast.typing import Ints, Names

if TYPE_CHECKING:
    from fedcast.scenario import Data

SYNTHETIC = "synthetic"

# More than any device stores, and small enough that sums over users and classes are exact.
_MAX_SAMPLES = 1e12
_LISTED_USERS = 3
_FEW_USERS = 3
_TOTALS = ("total", "sum", "all", "samples", "count", "n", "size")
# NumPy's hypergeometric distribution, by which samples are dealt, takes no more.
_MOST_DEALT = 10**9
# Ten million users with ten classes: arrays of this size take 0.8 GB each.
_MOST_CELLS = 10**8

# Names that pandas gives to an unnamed index: on reading a CSV, and in Parquet. In CSV the name is empty.
_UNNAMED = ("Unnamed:", "__index_level_")


@dataclass(frozen=True, eq=False)
class Population:
    """Users and their data: a dataset, the assignment of its samples to users, and class counts."""

    counts: Ints  #: int64[K, Y], number of samples of each user and class
    class_names: tuple[str, ...]  #: one per class
    dataset: Dataset | None = None  #: None if there are only counts
    assignment: Assignment | None = None  #: None if there are only counts
    names: Names | None = None  #: str[K], names of the users, if they have names

    def __post_init__(self) -> None:
        if self.names is None:
            return
        names = np.asarray(self.names, dtype=np.str_)
        if names.shape != (len(self.counts),):
            expected = f"expected one name for each of {len(self.counts)} users"
            raise DataError(f"invalid names of shape {names.shape}: {expected}")
        if repeated := [name for name, times in Counter(names.tolist()).items() if times > 1]:
            raise DataError(f"invalid names: two users have the name {repeated[0]!r}")
        object.__setattr__(self, "names", names)

    @property
    def num_users(self) -> int:
        """Number of users K."""
        return len(self.counts)

    @property
    def sizes(self) -> Ints:
        """Number of samples of each user, int64[K]."""
        sizes: Ints = self.counts.sum(axis=1)
        return sizes


def make_population(data: Data, seed: int = 0, data_dir: str | Path | None = None) -> Population:
    """Load the scenario's dataset and divide it among the users.

    Example:
        >>> from fedcast.scenario import Data
        >>> population = make_population(Data(num_users=10, partition="iid"))
        >>> population.num_users, int(population.sizes.sum())
        (10, 1437)
    """
    partition = find_partition(data.partition)
    if data.dataset == SYNTHETIC:
        file = counts_file(data)
        return _synthetic(partition, data, seed) if file is None else read_counts(file)
    return populate(load_dataset(data, data_dir), data, seed)


def counts_file(data: Data) -> str | None:
    """Return the table of label counts that a scenario names; None: it names none."""
    return data.options("dataset").counts_file if data.dataset == SYNTHETIC else None


def population_assumptions(data: Data, seed: int) -> tuple[str, ...]:
    """Return what is assumed of who holds which samples, if no table of label counts gives it.

    Example:
        >>> from fedcast.scenario import Data
        >>> population_assumptions(Data(), seed=0)
        ('The samples of digits are divided among 100 users by partition label_skew with seed 0 (--counts).',)
    """
    if counts_file(data) is not None:
        return ()
    users = f"{data.num_users:,} users" if data.num_users > 1 else "1 user"
    divided = f"divided among {users} by partition {data.partition} with seed {seed}"
    return (f"The samples of {data.dataset} are {divided} (--counts).",)


def populate(dataset: Dataset, data: Data, seed: int = 0) -> Population:
    """Divide a loaded dataset among the users by `data.partition`."""
    return divide(dataset, find_partition(data.partition), data.num_users, data.options("partition"), seed)


def divide(dataset: Dataset, partition: Partition, num_users: int, options: Any, seed: int = 0) -> Population:
    """Divide a loaded dataset among users by a partition with its options."""
    _check_cells(num_users, dataset.num_classes)
    if partition.counts is not None:
        counts = partition.counts(dataset.class_sizes, num_users, options, seed)
        assignment = deal(dataset.labels, counts, generator(seed, "deal"))
    else:
        assert partition.assign is not None, "a partition has counts or an assignment"
        assignment = partition.assign(dataset, num_users, options, seed)
    if partition.transform is not None:
        dataset = partition.transform(dataset, assignment, options, seed)
    return population_from(dataset, assignment)


def population_from(dataset: Dataset, assignment: Assignment, data: Data | None = None, seed: int = 0) -> Population:
    """Return the population of a given assignment; the transform of `data.partition`, if any, is applied."""
    if data is not None and (transform := find_partition(data.partition).transform):
        dataset = transform(dataset, assignment, data.options("partition"), seed)
    counts = class_counts(assignment, dataset.labels, dataset.num_classes)
    return Population(counts, dataset.class_names, dataset, assignment)


def _synthetic(partition: Partition, data: Data, seed: int) -> Population:
    if partition.counts is None or partition.transform is not None:
        able = ", ".join(name for name, other in PARTITIONS.items() if other.counts and not other.transform)
        invalid = f"invalid value {data.partition!r} for data.partition"
        raise DataError(f"{invalid}: synthetic data have class counts only; use {able}")
    options: SyntheticDataOptions = data.options("dataset")
    _check_cells(data.num_users, options.num_classes)
    total = data.num_users * options.samples_per_user
    if total >= _MOST_DEALT:
        raise DataError(
            f"invalid value {options.samples_per_user} for data.synthetic.samples_per_user: {total:,} samples in all, "
            f"expected fewer than {_MOST_DEALT:,}; decrease it or data.num_users"
        )
    size, rest = divmod(total, options.num_classes)
    class_sizes = size + (np.arange(options.num_classes) < rest)
    counts = partition.counts(class_sizes, data.num_users, data.options("partition"), seed)
    return Population(counts, tuple(str(label) for label in range(len(class_sizes))))


@dataclass(frozen=True)
class SyntheticDataOptions:
    """Options of dataset ``synthetic``, whose classes have equal sizes to within one sample."""

    samples_per_user: int = option(600, "mean samples of a user", ge=1)
    num_classes: int = option(10, "number of classes", ge=1, le=MOST_CLASSES)
    counts_file: str | None = option(None, "own label counts of all users instead: .csv, .parquet or .xlsx")


def _no_samples(_options: Any, _data_dir: str | Path | None) -> Dataset:
    raise DataError("invalid value 'synthetic' for data.dataset: it has class counts, but no samples to load")


SYNTHETIC_DATASET = DatasetEntry(
    _no_samples, "class counts without samples, any number of users", "", (), SyntheticDataOptions, lambda _: None
)


def read_counts(path: str | Path) -> Population:
    """Read the number of samples of each user and class from a CSV, Parquet or Excel file.

    - wide: a column ``user`` and one column per class, one row for each user;
    - long: columns ``user``, ``class``, ``count``, one row for each user and class; a class that is not listed has
      count 0.

    Users are 0 … K − 1 without gaps, or names (not numbers) in the order of the file.
    """
    names = column_names(path)
    population = _long(path) if {"class", "count"} <= set(names) else _wide(path, names)
    if not population.counts.any():
        raise DataError(f"{path}: no user has any data: every count is 0")
    return population


def _wide(path: str | Path, names: list[str]) -> Population:
    classes = [name for name in names if name != "user"]
    if not classes:
        raise DataError(f"{path}: no class columns; expected user and one column per class, or user,class,count")
    for place, name in enumerate(names, start=1):
        if not name or name.startswith(_UNNAMED):
            hint = "name the class, or remove the column (pandas: index=False)"
            raise DataError(f"{path}: column {place} has no name, and every column except user is a class; {hint}")
    _check_classes(path, classes)
    table = read_user_table(path, [_counts(name) for name in classes])
    counts = np.stack([np.asarray(table[name], dtype=np.int64) for name in classes], axis=1)
    _check_total(path, classes, counts)
    return Population(counts, tuple(classes), names=table.names)


def _long(path: str | Path) -> Population:
    own = [Column("user", "int", minimum=0)]
    table = read_with_users(path, own, [Column("class", "text"), _counts("count")], own_users=True)
    _check_gaps(table)
    users, amounts = np.asarray(table["user"]), np.asarray(table["count"])
    classes, labels = np.unique(np.asarray(table["class"]).astype(str), return_inverse=True)
    _check_classes(path, classes.tolist())
    _check_cells(int(users.max()) + 1, len(classes))
    cells = users * len(classes) + labels
    order = np.argsort(cells, kind="stable")
    if (twice := np.flatnonzero(np.diff(cells[order]) == 0)).size:
        row = int(order[twice[0] + 1])
        raise table.fail(row, f"{table.who(users[row])} has a second count of class {classes[labels[row]]}")
    counts = np.zeros((int(users.max()) + 1, len(classes)), dtype=np.int64)
    counts[users, labels] = amounts
    return Population(counts, tuple(str(name) for name in classes), names=table.names)


def _check_classes(path: str | Path, classes: list[str]) -> None:
    """Raise an error on the classes of a table of label counts."""
    try:
        check_class_names(classes)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    if len(classes) > MOST_CLASSES:
        raise DataError(f"{path}: {len(classes):,} classes, expected at most {MOST_CLASSES:,}")


def _check_total(path: str | Path, classes: list[str], counts: Ints) -> None:
    """Raise an error if a column is the sum of the others: it is their total, not a class.

    In tables of few users that may be a coincidence, unless the name says so.
    """
    sizes = counts.sum(axis=1)
    for label in np.flatnonzero((2 * counts == sizes[:, None]).all(axis=0)).tolist():
        others = np.delete(counts, label, axis=1)
        named = classes[label].casefold() in _TOTALS
        if others.any(axis=0).sum() > 1 and (named or len(counts) >= _FEW_USERS):
            hint = "remove it, since every column except user is a class"
            raise DataError(f"{path}: column {classes[label]!r} is the sum of all other classes; {hint}")


def _check_cells(num_users: int, num_classes: int) -> None:
    """Raise an error, before memory is taken, if class counts of all users would not fit into it."""
    if num_users * num_classes > _MOST_CELLS:
        raise DataError(
            f"{num_users:,} users × {num_classes:,} classes are {num_users * num_classes:,} counts, expected at most "
            f"{_MOST_CELLS:,}; decrease the number of users (data.num_users) or of classes"
        )


def _counts(name: str) -> Column:
    return Column(name, "int", minimum=0, maximum=_MAX_SAMPLES)


def _check_gaps(table: Table) -> None:
    """Raise an error if ids have gaps: a single wrong id would otherwise create many empty users."""
    users = np.unique(table["user"])
    last = int(users[-1])
    absent = last + 1 - len(users)
    if not absent:
        return
    if absent == 1 and users[0] == 1:
        raise DataError(f"{table.path}: missing row for user 0; users are numbered from 0: subtract 1 from every id")
    first = np.setdiff1d(np.arange(min(len(users) + _LISTED_USERS, last)), users)[:_LISTED_USERS]
    named = ", ".join(str(user) for user in first) + (f" … ({absent:,} in all)" if absent > len(first) else "")
    hint = "number users from 0 without gaps (a user without data has a count of 0), or use names such as n7"
    raise table.fail(int(np.argmax(table["user"])), f"user {last}, but there is no row for {named}; {hint}", "user")
