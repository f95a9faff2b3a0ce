"""Reading a table: which kind of file, and tables with one row per user."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from fedcast.errors import DataError
from fedcast.tables import csv_file, parquet_file
from fedcast.tables.table import Column, Ints, Reader, Table

Result = TypeVar("Result")


def read_table(path: str | Path, columns: Sequence[Column], *, may_be_empty: bool = False) -> Table:
    r"""Read the declared columns of a ``.csv`` or ``.parquet`` file; the first fault is raised as a `DataError`.

    Args:
        path: the file.
        columns: those to read; others are ignored.
        may_be_empty: whether a file with column names but no rows is accepted.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "positions.csv")
        >>> _ = file.write_text("user,x_m,y_m\n0,1.5,2\n1,oops,4\n")
        >>> read_table(file, [Column("user", "int"), Column("y_m", "float")])["y_m"].tolist()
        [2.0, 4.0]
        >>> try:
        ...     read_table(file, [Column("x_m", "float")])
        ... except DataError as error:
        ...     print(str(error).replace(str(file), file.name))
        positions.csv, line 3, column x_m: 'oops' is not a number
    """
    table = _by_kind(Path(path), lambda kind: kind.read(Path(path), columns))
    if not table.num_rows and not may_be_empty:
        raise DataError(f"{path}: holds column names but no rows")
    return table


def column_names(path: str | Path) -> list[str]:
    """The header of a file, for tables whose columns are not known beforehand (one per class, say)."""
    return _by_kind(Path(path), lambda kind: kind.names(Path(path)))


def read_user_table(path: str | Path, columns: Sequence[Column], num_users: int | None = None) -> Table:
    r"""Read a file with one row per user, in any order; row k of the result is user k.

    The column ``user`` is added to the declared ones and must hold each of 0 … K − 1 exactly once.

    Args:
        path: a ``.csv`` or ``.parquet`` file.
        columns: the columns beside ``user``.
        num_users: users K; None: as many as the file has rows.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "sizes.csv")
        >>> _ = file.write_text("user,samples\n1,600\n0,500\n")
        >>> read_user_table(file, [Column("samples", "int", minimum=0)])["samples"].tolist()
        [500, 600]
    """
    table = read_table(path, [Column("user", "int"), *columns])
    return table.take(_rows_by_user(table, table.num_rows if num_users is None else num_users))


def _by_kind(path: Path, action: Callable[[Reader], Result]) -> Result:
    kinds: dict[str, Reader] = {".csv": csv_file, ".parquet": parquet_file}
    if path.suffix.lower() not in kinds:
        raise DataError(f"{path}: unknown kind of file, expected .csv or .parquet")
    try:
        return action(kinds[path.suffix.lower()])
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise DataError(f"{path}: is a folder, expected a .csv or .parquet file") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None


def _rows_by_user(table: Table, num_users: int) -> Ints:
    """The row of each user, int64[K]."""
    users = table["user"]
    outside = np.flatnonzero((users < 0) | (users >= num_users))
    if len(outside):
        raise table.fail(int(outside[0]), _no_such_user(users, int(outside[0]), num_users), "user")
    rows = np.argsort(users, kind="stable")
    again = rows[1:][users[rows[1:]] == users[rows[:-1]]]
    if len(again):
        row = int(again.min())
        earlier = int(np.flatnonzero(users == users[row])[0])
        raise table.fail(row, f"user {users[row]} is already on {table.word} {table.lines[earlier]}", "user")
    if len(users) < num_users:
        absent = np.setdiff1d(np.arange(num_users), users)
        who = f"user {absent[0]}" if len(absent) == 1 else f"{len(absent)} users, the first of them {absent[0]},"
        raise DataError(f"{table.path}: no row for {who} of users 0 to {num_users - 1}")
    return rows


def _no_such_user(users: Ints, row: int, num_users: int) -> str:
    counted_from_one = users.min() == 1 and users.max() == num_users
    hint = "; users are counted from 0: subtract 1 from every id" if counted_from_one else ""
    return f"user {users[row]} does not exist, expected 0 to {num_users - 1}{hint}"
