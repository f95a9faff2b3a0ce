"""CSV: streamed in blocks of rows, so that memory stays flat and the first bad line is named at once."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TextIO

import numpy as np

from fedcast.errors import DataError
from fedcast.io.checks import parse, present_columns
from fedcast.io.table import Column, Table, Values
from fedcast.typing import Ints

_BLOCK_ROWS = 65_536
Rows = list[list[str]]

# Gives the columns of a file without rows their types.
_NO_ROWS: tuple[Rows, Ints] = ([], np.empty(0, np.int64))


def read(path: Path, columns: Sequence[Column]) -> Table:
    """The declared columns of a CSV file."""
    with _open(path) as file:
        blocks = _blocks(path, file)
        header = _header(path, blocks)
        present = present_columns(path, header, columns)
        parsed = [(_parse_rows(path, header, present, rows, lines), lines) for rows, lines in chain([_NO_ROWS], blocks)]
    values = {column.name: np.concatenate([block[column.name] for block, _ in parsed]) for column in present}
    return Table(path, values, np.concatenate([lines for _, lines in parsed]))


def names(path: Path) -> list[str]:
    """The header of a CSV file."""
    with _open(path) as file:
        return _header(path, _blocks(path, file))


def first(path: Path, name: str) -> str | None:
    """The value of a column in the first row; None: there is none."""
    with _open(path) as file:
        blocks = _blocks(path, file)
        header = _header(path, blocks)
        rows, _ = next(blocks, _NO_ROWS)
    found = dict(zip(header, rows[0], strict=False)) if rows else {}
    return found.get(name)


def _open(path: Path) -> TextIO:
    # utf-8-sig drops the byte-order mark that spreadsheets write; csv wants line ends untouched.
    return path.open(encoding="utf-8-sig", newline="")


def _blocks(path: Path, file: TextIO) -> Iterator[tuple[Rows, Ints]]:
    """The header alone, then blocks of rows, each with the line on which every row ends; blank lines are left out."""
    reader = csv.reader(file, strict=True)
    size, done = 1, 0
    while True:
        rows: Rows = []
        try:
            rows.extend(islice(reader, size))
        except csv.Error as error:
            raise DataError(f"{path}, line {done + len(rows) + 1}: not valid CSV: {error}") from None
        except UnicodeDecodeError:
            raise _not_utf8(path) from None
        if not rows:
            return
        lines = _line_numbers(rows, done, reader.line_num)
        done = reader.line_num
        if not all(rows):
            lines = lines[[bool(row) for row in rows]]
            rows = [row for row in rows if row]
        if rows:
            yield rows, lines
            size = _BLOCK_ROWS


def _line_numbers(rows: Rows, done: int, last: int) -> Ints:
    if last - done == len(rows):
        return np.arange(done + 1, last + 1)
    # Only quoted fields that hold line breaks come here.
    return done + np.cumsum([1 + sum(field.count("\n") for field in row) for row in rows])


def _not_utf8(path: Path) -> DataError:
    content = path.read_bytes()
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = content[error.start]
        return DataError(f"{path}, line {line}: not UTF-8 text (byte 0x{byte:02x}); save the file as CSV in UTF-8")
    return DataError(f"{path}: changed while it was read")


def _header(path: Path, blocks: Iterator[tuple[Rows, Ints]]) -> list[str]:
    first = next(blocks, None)
    if first is None:
        raise DataError(f"{path}: is empty, expected a header and rows")
    return [name.strip() for name in first[0][0]]


def _parse_rows(path: Path, header: list[str], columns: Sequence[Column], rows: Rows, lines: Ints) -> dict[str, Values]:
    """The values of each column; the fault on the earliest line is raised, whichever column it is in."""
    ragged = next((row for row, fields in enumerate(rows) if len(fields) != len(header)), None)
    values, faults = {}, []
    for column in columns:
        place = header.index(column.name)
        values[column.name], fault = parse(column, [fields[place] for fields in rows[:ragged]])
        faults += [fault] if fault else []
    if faults:
        row, name, reason = min(faults)
        raise DataError(f"{path}, line {lines[row]}, column {name}: {reason}")
    if ragged is not None:
        fields = len(rows[ragged])
        raise DataError(f"{path}, line {lines[ragged]}: the header has {len(header)} fields, this line has {fields}")
    return values
