"""Read and write tables as CSV or Parquet, by the suffix of the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcast.errors import DataError, FedcastError
from fedcast.io import csv_file, parquet_file
from fedcast.io.atomic import atomic_write
from fedcast.io.table import Column, Table

Columns = Mapping[str, Sequence[Any] | NDArray[Any]]


# Modules with the same functions: read, names, first and write.
_FORMATS = {".csv": csv_file, ".parquet": parquet_file}


def read_table(path: str | Path, columns: Sequence[Column], *, may_be_empty: bool = False) -> Table:
    r"""Read the declared columns of a ``.csv`` or ``.parquet`` file; raise `DataError` at the first invalid value.

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


def first_value(path: str | Path, column: str) -> str | None:
    """Return the value of a column in the first row as text, or None if there is none."""
    with _format_of(Path(path)) as module:
        value: str | None = module.first(Path(path), column)
    return value


@contextmanager
def _format_of(path: Path) -> Iterator[ModuleType]:
    """Yield the module that reads a file, and say in the error why the file cannot be read."""
    if path.suffix.lower() not in _FORMATS:
        raise DataError(f"{path}: unknown file format, expected .csv or .parquet")
    try:
        yield _FORMATS[path.suffix.lower()]
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise DataError(f"{path}: is a folder, expected a .csv or .parquet file") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None


def save_table(columns: Columns, path: str | Path) -> Path:
    """Write columns of equal length atomically, one row per entry; None becomes an empty cell.

    Example:
        >>> import tempfile
        >>> path = save_table({"user": [0, 1], "head": [None, 0]}, Path(tempfile.mkdtemp()) / "users.csv")
        >>> path.read_text().split()
        ['user,head', '0,', '1,0']
    """
    path = Path(path)
    if path.suffix not in _FORMATS:
        raise FedcastError(f"{path}: unknown file format {path.suffix!r}; expected {', '.join(_FORMATS)}")
    plain = {
        name: values.tolist() if isinstance(values, np.ndarray) else list(values) for name, values in columns.items()
    }
    with atomic_write(path) as temporary:
        _FORMATS[path.suffix].write(plain, temporary)
    return path
