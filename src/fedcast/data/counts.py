"""Read a population from a table of label counts, without a dataset."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedcast.data.population import Population
from fedcast.errors import DataError
from fedcast.io import Column, Table, column_names, read_user_table, read_with_users

# More than any device stores, and small enough that sums over users and classes are exact.
_MAX_SAMPLES = 1e12
_LISTED_USERS = 3

# Names that pandas gives to an unnamed index: on reading a CSV, and in Parquet. In CSV the name is empty.
_UNNAMED = ("Unnamed:", "__index_level_")


def read_counts(path: str | Path) -> Population:
    """Read the number of samples of each user and class from a CSV or Parquet file.

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
    table = read_user_table(path, [_counts(name) for name in classes])
    counts = np.stack([np.asarray(table[name], dtype=np.int64) for name in classes], axis=1)
    return Population(counts, tuple(classes), names=table.names)


def _long(path: str | Path) -> Population:
    own = [Column("user", "int", minimum=0)]
    table = read_with_users(path, own, [Column("class", "text"), _counts("count")], own_users=True)
    _check_gaps(table)
    users, amounts = np.asarray(table["user"]), np.asarray(table["count"])
    classes, labels = np.unique(np.asarray(table["class"]).astype(str), return_inverse=True)
    cells = users * len(classes) + labels
    order = np.argsort(cells, kind="stable")
    if (twice := np.flatnonzero(np.diff(cells[order]) == 0)).size:
        row = int(order[twice[0] + 1])
        raise table.fail(row, f"{table.who(users[row])} has a second count of class {classes[labels[row]]}")
    counts = np.zeros((int(users.max()) + 1, len(classes)), dtype=np.int64)
    counts[users, labels] = amounts
    return Population(counts, tuple(str(name) for name in classes), names=table.names)


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
