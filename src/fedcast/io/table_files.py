"""Read and write tables as CSV, Parquet or Excel files, by the suffix; users are whole numbers 0 … K − 1, or names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedcast.errors import DataError, FedcastError
from fedcast.formatting import similar_name
from fedcast.io import csv_file, parquet_file, xlsx_file
from fedcast.io.atomic import atomic_write
from fedcast.io.table import Column, Table, is_number
from fedcast.typing import Ints, Names

if TYPE_CHECKING:
    import pandas

Columns = Mapping[str, Sequence[Any] | NDArray[Any]]

# Modules with the same functions: read, names, first and write.
_FORMATS = {".csv": csv_file, ".parquet": parquet_file, ".xlsx": xlsx_file}
TABLE_FORMATS = tuple(_FORMATS)
_EXPECTED = "expected .csv, .parquet or .xlsx"

# Number of names listed in a message, and searched for a similar one.
_LISTED_NAMES, _COMPARED_NAMES = 3, 10_000

_NO_DIGITS = str.maketrans("", "", "0123456789")
_NAMES_OR_NUMBERS = "; number all users from 0, or give all of them names that are not numbers, such as n7"
_NAMED_BY_COUNTS = "; users have names only if the table of label counts names them"


def read_table(path: str | Path, columns: Sequence[Column], *, may_be_empty: bool = False) -> Table:
    r"""Read the declared columns of a .csv, .parquet or .xlsx file; raise `DataError` at the first invalid value.

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
    with _format_of(Path(path)) as module:
        table: Table = module.read(Path(path), columns)
    if not table.num_rows and not may_be_empty:
        raise DataError(f"{path}: has column names but no rows")
    return table


def column_names(path: str | Path) -> list[str]:
    """Return the names of all columns, for tables whose columns are not known in advance (such as one per class)."""
    with _format_of(Path(path)) as module:
        names: list[str] = module.names(Path(path))
    return names


@contextmanager
def _format_of(path: Path) -> Iterator[ModuleType]:
    """Yield the module that reads a file, and say in the error why the file cannot be read."""
    if path.suffix.lower() not in _FORMATS:
        raise DataError(f"{path}: unknown file format, {_EXPECTED}")
    try:
        yield _FORMATS[path.suffix.lower()]
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise DataError(f"{path}: is a folder, {_EXPECTED}") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None


def save_table(columns: Columns, path: str | Path, *, bom: bool = False) -> Path:
    """Write columns of equal length atomically, one row per entry; None becomes an empty cell.

    In .csv and .xlsx, text that a spreadsheet program would run as a formula gets an apostrophe in front, which
    `read_table` removes. `bom` starts a .csv with a byte-order mark, by which Excel recognises UTF-8.

    Example:
        >>> import tempfile
        >>> path = save_table({"user": [0, 1], "head": [None, 0]}, Path(tempfile.mkdtemp()) / "users.csv")
        >>> path.read_text().split()
        ['user,head', '0,', '1,0']
    """
    path = Path(path)
    if path.suffix not in _FORMATS:
        raise FedcastError(f"{path}: unknown file format {path.suffix!r}; {_EXPECTED}")
    if bom and path.suffix != ".csv":
        raise FedcastError(f"{path}: only a .csv file has a byte-order mark")
    plain = {
        name: values.tolist() if isinstance(values, np.ndarray) else list(values) for name, values in columns.items()
    }
    with atomic_write(path) as temporary:
        if bom:
            csv_file.write(plain, temporary, bom=True)
        else:
            _FORMATS[path.suffix].write(plain, temporary)
    return path


def read_with_users(
    path: str | Path,
    users: Sequence[Column],
    columns: Sequence[Column],
    names: Names | None = None,
    *,
    own_users: bool = False,
    may_be_empty: bool = False,
) -> Table:
    r"""Read a file with columns that refer to users; names of users become indices into all names.

    Args:
        path: a ``.csv``, ``.parquet`` or ``.xlsx`` file.
        users: columns that refer to users; whole numbers if users have no names.
        columns: the other columns.
        names: names of all users, if they have names.
        own_users: whether the file defines the users: if the first one is not a number, all have names, in the order of
            the file.
        may_be_empty: as in `read_table`.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "links.csv")
        >>> _ = file.write_text("user_a,user_b\ngate,lobby\n")
        >>> table = read_with_users(file, [Column("user_b", "int")], [], np.array(["lobby", "gate"]))
        >>> table["user_b"].tolist(), table.who(0)
        ([0], 'user lobby')
    """
    named = names is not None or (own_users and _has_names(path, users[0].name))
    if named:
        users = [Column(column.name, "text", otherwise="; users have names") for column in users]
    else:
        users = [replace(column, otherwise=_NAMES_OR_NUMBERS if own_users else _NAMED_BY_COUNTS) for column in users]
    table = read_table(path, [*users, *columns], may_be_empty=may_be_empty)
    if not named:
        return table
    everyone = _own_names(table, users[0].name) if names is None else names
    return _replace_names(table, [column.name for column in users], everyone)


def read_user_table(
    path: str | Path, columns: Sequence[Column], num_users: int | None = None, names: Names | None = None
) -> Table:
    r"""Read a file with one row per user, in any order; row k of the result is user k.

    The column ``user`` is added to the declared ones and must contain each of 0 … K − 1, or each name, exactly once.
    Without `num_users` and `names`, the file defines the number of users, and may define their names.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "sizes.csv")
        >>> _ = file.write_text("user,samples\n1,600\n0,500\n")
        >>> read_user_table(file, [Column("samples", "int", minimum=0)])["samples"].tolist()
        [500, 600]
    """
    own_users = num_users is None and names is None
    table = read_with_users(path, [Column("user", "int")], columns, names, own_users=own_users)
    expected = table.num_rows if num_users is None else num_users
    return table.take(_rows_by_user(table, expected if table.names is None else len(table.names)))


def find_user(text: str, num_users: int, names: Names | None = None) -> int:
    """Return the id of a user that is called by its name, or by its id if users have no names.

    Example:
        >>> find_user("gate", 2, np.array(["lobby", "gate"])), find_user("1", 2)
        (1, 1)
    """
    if names is not None:
        found = np.flatnonzero(names == text)
        if not len(found):
            raise DataError(_no_such_name(text, names))
        return int(found[0])
    if not (text.isascii() and text.isdigit() and len(text) < 19 and int(text) < num_users):
        raise DataError(f"unknown user {text!r}; expected a number from 0 to {num_users - 1:,}, users have no names")
    return int(text)


def _has_names(path: str | Path, column: str) -> bool:
    with _format_of(Path(path)) as module:
        first = module.first(Path(path), column)
    return first is not None and bool(first.strip()) and not is_number(first)


def _own_names(table: Table, column: str) -> Names:
    """Return the distinct names of a column in order of appearance."""
    _, rows = np.unique(table[column], return_index=True)
    rows.sort()
    names: Names = table[column][rows]
    for row, name in zip(rows, names.tolist(), strict=True):
        if is_number(name):
            raise table.fail(
                int(row), f"{name!r} is a number, but {str(names[0])!r} is a name{_NAMES_OR_NUMBERS}", column
            )
        if not name or not name.isprintable():
            raise table.fail(int(row), f"{name!r} contains unprintable characters; rename the user", column)
    return names


def _replace_names(table: Table, columns: Sequence[str], names: Names) -> Table:
    """Return the table with indices into `names` instead of names."""
    order = np.argsort(names, kind="stable")
    found, unknown = {}, []
    for column in columns:
        found[column] = order[np.minimum(np.searchsorted(names, table[column], sorter=order), len(names) - 1)]
        unknown += [(int(row), column) for row in np.flatnonzero(names[found[column]] != table[column])[:1]]
    if unknown:
        row, column = min(unknown)
        raise table.fail(row, _no_such_name(str(table[column][row]), names), column)
    return replace(table, columns={**table.columns, **found}, names=names)


def _no_such_name(name: str, names: Names) -> str:
    # Names that differ in their number only, as n9 and n99, are different users rather than typing errors.
    word = name.translate(_NO_DIGITS)
    others = [other for other in names[:_COMPARED_NAMES].tolist() if other.translate(_NO_DIGITS) != word]
    near = similar_name(name, others)
    question = f"; did you mean {near!r}?" if near else ""
    few = ", ".join(names[:_LISTED_NAMES]) + (", …" if len(names) > _LISTED_NAMES else "")
    everyone = "the only user is" if len(names) == 1 else f"the {len(names):,} users are"
    return f"unknown user {name!r}; {everyone} {few}{question}"


def _rows_by_user(table: Table, num_users: int) -> Ints:
    """Return the row of each user, int64[K]."""
    users = table["user"]
    outside = np.flatnonzero((users < 0) | (users >= num_users))
    if len(outside):
        raise table.fail(int(outside[0]), _no_such_user(users, int(outside[0]), num_users), "user")
    rows = np.argsort(users, kind="stable")
    again = rows[1:][users[rows[1:]] == users[rows[:-1]]]
    if len(again):
        row = int(again.min())
        earlier = int(np.flatnonzero(users == users[row])[0])
        raise table.fail(row, f"{table.who(users[row])} is already on {table.word} {table.lines[earlier]}", "user")
    if len(users) < num_users:
        absent = np.setdiff1d(np.arange(num_users), users)
        more = f" and {len(absent) - 1:,} more" if len(absent) > 1 else ""
        among = f"users 0 to {num_users - 1}" if table.names is None else f"{num_users:,} users"
        raise DataError(f"{table.path}: missing row for {table.who(absent[0])}{more} of {among}")
    return rows


def _no_such_user(users: Ints, row: int, num_users: int) -> str:
    counted_from_one = users.min() == 1 and users.max() == num_users
    hint = "; users are numbered from 0: subtract 1 from every id" if counted_from_one else ""
    if users.min() >= num_users:
        hint = f"; to use codes such as {users[row]} as names, begin them with a letter in all tables, as s{users[row]}"
    return f"user {users[row]} does not exist, expected 0 to {num_users - 1}{hint}"


def data_frame(columns: Mapping[str, Any]) -> pandas.DataFrame:
    """Return columns as a data frame."""
    try:
        import pandas
    except ImportError:
        raise FedcastError("a data frame needs pandas: pip install pandas") from None
    return pandas.DataFrame(columns)
