"""Parquet files, through pyarrow, which is imported only when such a file is read or written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedcast.errors import DataError, FedcastError
from fedcast.io.table import EXPECTED, Column, InvalidCell, Table, Values, first_invalid, parse, present_columns

if TYPE_CHECKING:
    import pyarrow


def read(path: Path, columns: Sequence[Column]) -> Table:
    """Read the declared columns of a Parquet file."""
    file = _open(path)
    present = present_columns(path, list(file.schema_arrow.names), columns)
    data = file.read(columns=[column.name for column in present])
    values, faults = {}, []
    for column in present:
        values[column.name], fault = _values(path, column, data.column(column.name))
        faults += [fault] if fault else []
    table = Table(path, values, np.arange(1, data.num_rows + 1), "row")
    table.check(faults)
    return table


def names(path: Path) -> list[str]:
    """Return the names of the columns of a Parquet file."""
    return list(_open(path).schema_arrow.names)


def first(path: Path, name: str) -> str | None:
    """Return the value of a column in the first row as text, or None if there is none."""
    file = _open(path)
    if name not in file.schema_arrow.names:
        return None
    rows = next(file.iter_batches(1, columns=[name]), None)
    value = None if rows is None else rows.column(0)[0].as_py()
    return None if value is None else str(value)


def _open(path: Path) -> pyarrow.parquet.ParquetFile:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise DataError(f'{path}: reading Parquet needs pyarrow: pip install "fedcast[parquet]"') from None
    if path.is_dir():
        raise IsADirectoryError
    try:
        return pyarrow.parquet.ParquetFile(path)
    except pyarrow.ArrowInvalid as error:
        raise DataError(f"{path}: not a Parquet file: {str(error).splitlines()[0]}") from None


def _values(path: Path, column: Column, chunks: pyarrow.ChunkedArray) -> tuple[Values, InvalidCell | None]:
    """Return the values of a column and its first fault; values end before a missing value."""
    if not len(chunks):
        return parse(column, [])
    if chunks.null_count:
        row = int(np.argmax(chunks.is_null().to_numpy()))
        values, fault = _values(path, column, chunks.slice(0, row))
        return values, fault or (row, column.name, f"missing value, expected {EXPECTED[column.kind]}")
    kind = _kind(chunks.type)
    if kind == "text" or (kind == "int" and column.kind == "bool"):
        return parse(column, [str(value) for value in chunks.to_pylist()])
    if kind == column.kind == "bool":
        return chunks.to_numpy(), None
    if kind not in ("int", "float") or column.kind not in ("int", "float"):
        raise DataError(
            f"{path}, column {column.name}: has type {chunks.type}, expected {EXPECTED[column.kind]}{column.otherwise}"
        )
    values = chunks.to_numpy() if kind == "int" else chunks.cast("float64").to_numpy()
    if invalid := first_invalid(column, values):
        return values, (invalid[0], column.name, f"{values[invalid[0]]} {invalid[1]}")
    return values.astype(np.int64 if column.kind == "int" else np.float64), None


def _kind(type_: pyarrow.DataType) -> str:
    from pyarrow import types

    if types.is_dictionary(type_):
        return _kind(type_.value_type)
    if types.is_string(type_) or types.is_large_string(type_) or types.is_string_view(type_):
        return "text"
    if types.is_boolean(type_):
        return "bool"
    if types.is_floating(type_) or types.is_decimal(type_):
        return "float"
    return "int" if types.is_integer(type_) else "other"


def write(columns: Mapping[str, list[Any]], path: Path) -> None:
    """Write columns of equal length as a Parquet file."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise FedcastError('writing Parquet needs pyarrow: pip install "fedcast[parquet]"') from None
    pyarrow.parquet.write_table(pyarrow.table(dict(columns)), path)
