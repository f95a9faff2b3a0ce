"""Parquet, by pyarrow, which is imported only when such a file is read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedcast.errors import DataError
from fedcast.io.checks import EXPECTED, first_refused, parse, present_columns
from fedcast.io.table import Column, Fault, Table, Values

if TYPE_CHECKING:
    import pyarrow


def read(path: Path, columns: Sequence[Column]) -> Table:
    """The declared columns of a Parquet file."""
    file = _open(path)
    present = present_columns(path, list(file.schema_arrow.names), columns)
    data = file.read(columns=[column.name for column in present])
    values, faults = {}, []
    for column in present:
        values[column.name], fault = _values(path, column, data.column(column.name))
        faults += [fault] if fault else []
    if faults:
        row, name, reason = min(faults)
        raise DataError(f"{path}, row {row + 1}, column {name}: {reason}")
    return Table(path, values, np.arange(1, data.num_rows + 1), "row")


def names(path: Path) -> list[str]:
    """The columns of a Parquet file."""
    return list(_open(path).schema_arrow.names)


def first(path: Path, name: str) -> str | None:
    """The value of a column in the first row, as text; None: there is none."""
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


def _values(path: Path, column: Column, chunks: pyarrow.ChunkedArray) -> tuple[Values, Fault | None]:
    """The values of a column, and its first fault; the values end before a gap."""
    if not len(chunks):
        return parse(column, [])
    if chunks.null_count:
        row = int(np.argmax(chunks.is_null().to_numpy()))
        values, fault = _values(path, column, chunks.slice(0, row))
        return values, fault or Fault(row, column.name, f"is blank, expected {EXPECTED[column.kind]}")
    holds = _holds(chunks.type)
    if holds == "text" or (holds == "int" and column.kind == "bool"):
        return parse(column, [str(value) for value in chunks.to_pylist()])
    if holds == column.kind == "bool":
        return chunks.to_numpy(), None
    if holds not in ("int", "float") or column.kind not in ("int", "float"):
        raise DataError(
            f"{path}, column {column.name}: holds {chunks.type}, expected {EXPECTED[column.kind]}{column.otherwise}"
        )
    values = chunks.to_numpy() if holds == "int" else chunks.cast("float64").to_numpy()
    if refused := first_refused(column, values):
        return values, Fault(refused[0], column.name, f"{values[refused[0]]} {refused[1]}")
    return values.astype(np.int64 if column.kind == "int" else np.float64), None


def _holds(kind: pyarrow.DataType) -> str:
    from pyarrow import types

    if types.is_dictionary(kind):
        return _holds(kind.value_type)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "text"
    if types.is_boolean(kind):
        return "bool"
    if types.is_floating(kind) or types.is_decimal(kind):
        return "float"
    return "int" if types.is_integer(kind) else "other"
