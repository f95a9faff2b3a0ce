"""A population from a table of label counts: no dataset, no samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedcast.data.population import Population
from fedcast.errors import DataError
from fedcast.tables import Column, column_names, read_table, read_user_table


def read_counts(path: str | Path) -> Population:
    """Read who holds how many samples of which class, CSV or Parquet.

    - wide: a column ``user`` and one column per class, one row for each user 0 … K − 1;
    - long: columns ``user``, ``class``, ``count``, one row for each user and class; what is missing is 0.
    """
    names = column_names(path)
    if {"class", "count"} <= set(names):
        return _long(path)
    classes = [name for name in names if name != "user"]
    if not classes:
        raise DataError(f"{path}: no class columns; expected user and one column per class, or user,class,count")
    table = read_user_table(path, [Column(name, "int", minimum=0) for name in classes])
    counts = np.stack([np.asarray(table[name], dtype=np.int64) for name in classes], axis=1)
    return Population(counts, tuple(classes))


def _long(path: str | Path) -> Population:
    table = read_table(
        path, [Column("user", "int", minimum=0), Column("class", "text"), Column("count", "int", minimum=0)]
    )
    users, amounts = np.asarray(table["user"]), np.asarray(table["count"])
    classes, labels = np.unique(np.asarray(table["class"]).astype(str), return_inverse=True)
    cells = users * len(classes) + labels
    order = np.argsort(cells, kind="stable")
    if (twice := np.flatnonzero(np.diff(cells[order]) == 0)).size:
        row = int(order[twice[0] + 1])
        raise table.fail(row, f"user {users[row]} has a second count of class {classes[labels[row]]}")
    counts = np.zeros((int(users.max()) + 1, len(classes)), dtype=np.int64)
    counts[users, labels] = amounts
    return Population(counts, tuple(str(name) for name in classes))
