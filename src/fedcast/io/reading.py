"""Reading a table: which kind of file it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from fedcast.errors import DataError
from fedcast.io import csv_file, parquet_file
from fedcast.io.table import Column, Reader, Table

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


def first_value(path: str | Path, column: str) -> str | None:
    """What a column holds in the first row, as text; None: nothing."""
    return _by_kind(Path(path), lambda kind: kind.first(Path(path), column))


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
