"""Excel files (.xlsx), through openpyxl, which is imported only when such a file is read or written.

The first sheet is read: its first row has the names of the columns. Cells with formulas have the value that the
spreadsheet program stored.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from fedcast.errors import DataError, FedcastError
from fedcast.io.formula_cells import neutralized, original
from fedcast.io.table import Column, Table, parse, present_columns

_MOST_ROWS, _MOST_COLUMNS = 1_048_576, 16_384
# A larger sheet is refused before it is unpacked: zeros compress well.
_MOST_BYTES = 2**31


def read(path: Path, columns: Sequence[Column]) -> Table:
    """Read the declared columns of the first sheet."""
    with _rows(path) as rows:
        header = _header(path, rows)
        present = present_columns(path, header, columns)
        cells, lines = [], []
        for line, row in enumerate(rows, start=2):
            texts = [_text(value) for value in row]
            if any(texts):
                cells.append(texts + [""] * (len(header) - len(texts)))
                lines.append(line)
    places = {name: place for place, name in enumerate(header)}
    values, faults = {}, []
    for column in present:
        values[column.name], fault = parse(column, [texts[places[column.name]] for texts in cells])
        faults += [fault] if fault else []
    table = Table(path, values, np.array(lines, dtype=np.int64), "row")
    table.check(faults)
    return table


def names(path: Path) -> list[str]:
    """Return the names of the columns."""
    with _rows(path) as rows:
        return _header(path, rows)


def first(path: Path, name: str) -> str | None:
    """Return the value of a column in the first row as text, or None if there is none."""
    with _rows(path) as rows:
        header = _header(path, rows)
        row = next(rows, ())
        return dict(zip(header, map(_text, row), strict=False)).get(name)


@contextmanager
def _rows(path: Path) -> Iterator[Iterator[tuple[Any, ...]]]:
    try:
        import openpyxl
    except ImportError:
        raise DataError(f'{path}: reading Excel files needs openpyxl: pip install "fedcast[xlsx]"') from None
    if path.is_dir():
        raise IsADirectoryError
    if not path.is_file():
        raise FileNotFoundError if not path.exists() else DataError(f"{path}: not a plain file")
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(member.file_size for member in archive.infolist()) > _MOST_BYTES:
                raise DataError(f"{path}: larger than {_MOST_BYTES:,} bytes unpacked; save it as .csv")
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        try:
            if not book.worksheets:
                raise DataError(f"{path}: has no sheet")
            yield book.worksheets[0].iter_rows(values_only=True)
        finally:
            book.close()
    except FedcastError:
        raise
    # openpyxl checks little: a damaged file may end in almost any error.
    except Exception as error:
        raise DataError(f"{path}: not a readable .xlsx file ({type(error).__name__}: {error})") from None


def _header(path: Path, rows: Iterator[tuple[Any, ...]]) -> list[str]:
    header = [original(_text(value).strip()) for value in next(rows, ())]
    while header and not header[-1]:
        header.pop()
    if not header:
        raise DataError(f"{path}: the first sheet is empty, expected a header and rows")
    return header


def _text(value: Any) -> str:
    """Return a cell as a CSV file would have it; whole numbers without a fraction, which Excel does not tell apart."""
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)


def write(columns: Mapping[str, list[Any]], path: Path) -> None:
    """Write columns of equal length as the only sheet of a file."""
    try:
        import openpyxl
    except ImportError:
        raise FedcastError('writing Excel files needs openpyxl: pip install "fedcast[xlsx]"') from None
    rows = list(zip(*columns.values(), strict=True))
    if len(rows) >= _MOST_ROWS or len(columns) > _MOST_COLUMNS:
        most = f"at most {_MOST_ROWS - 1:,} rows and {_MOST_COLUMNS:,} columns"
        raise FedcastError(f"{len(rows):,} rows and {len(columns):,} columns: an .xlsx file holds {most}")
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("table")
    sheet.append([neutralized(name) for name in columns])
    for row in rows:
        sheet.append([neutralized(value) for value in row])
    with path.open("wb") as stream:
        book.save(stream)
