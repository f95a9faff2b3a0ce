"""CSV files: read in blocks of rows, so that memory use is bounded and the first invalid line is reported early."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from fedcast.errors import DataError
from fedcast.io.formula_cells import neutralized, original
from fedcast.io.table import Column, Table, Values, parse, present_columns
from fedcast.typing import Ints

_BLOCK_ROWS = 65_536
_LONGEST_LINE = 2**24
Rows = list[list[str]]

# An empty block, so that the columns of a file without rows have their types.
_NO_ROWS: tuple[Rows, Ints] = ([], np.empty(0, np.int64))


def read(path: Path, columns: Sequence[Column]) -> Table:
    """Read the declared columns of a CSV file."""
    with _open(path) as file:
        blocks = _blocks(path, file)
        header = _header(path, blocks)
        present = present_columns(path, header, columns)
        parsed = [(_parse_rows(path, header, present, rows, lines), lines) for rows, lines in chain([_NO_ROWS], blocks)]
    values = {column.name: np.concatenate([block[column.name] for block, _ in parsed]) for column in present}
    return Table(path, values, np.concatenate([lines for _, lines in parsed]))


def names(path: Path) -> list[str]:
    """Return the header of a CSV file."""
    with _open(path) as file:
        return _header(path, _blocks(path, file))


def first(path: Path, name: str) -> str | None:
    """Return the value of a column in the first row, or None if there is none."""
    with _open(path) as file:
        blocks = _blocks(path, file)
        header = _header(path, blocks)
        rows, _ = next(blocks, _NO_ROWS)
    found = dict(zip(header, rows[0], strict=False)) if rows else {}
    return found.get(name)


def _open(path: Path) -> TextIO:
    # utf-8-sig drops the byte-order mark that spreadsheets write; the csv module needs newline="".
    return path.open(encoding="utf-8-sig", newline="")


def _blocks(path: Path, file: TextIO) -> Iterator[tuple[Rows, Ints]]:
    """Yield the header alone, then blocks of rows with the line on which each row ends; blank lines are skipped."""
    reader = csv.reader(chain([_first_line(path, file)], file), strict=True)
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


def _first_line(path: Path, file: TextIO) -> str:
    """Return the first line, of bounded length: files that are not text, and devices, may have no line end at all."""
    try:
        line = file.readline(_LONGEST_LINE)
    except UnicodeDecodeError:
        raise _not_utf8(path) from None
    if "\0" in line or len(line) == _LONGEST_LINE:
        what = "contains a NUL byte" if "\0" in line else f"has more than {_LONGEST_LINE:,} characters"
        raise DataError(f"{path}, line 1: {what}, expected a header; save the file as CSV in UTF-8")
    return line


def _line_numbers(rows: Rows, done: int, last: int) -> Ints:
    if last - done == len(rows):
        return np.arange(done + 1, last + 1)
    # Some quoted field contains a line break.
    return done + np.cumsum([1 + sum(field.count("\n") for field in row) for row in rows])


def _not_utf8(path: Path) -> DataError:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                byte = f"byte 0x{line[error.start]:02x}"
                return DataError(f"{path}, line {number}: not UTF-8 text ({byte}); save the file as CSV in UTF-8")
    return DataError(f"{path}: changed while it was being read")


def _header(path: Path, blocks: Iterator[tuple[Rows, Ints]]) -> list[str]:
    first = next(blocks, None)
    if first is None:
        raise DataError(f"{path}: the file is empty, expected a header and rows")
    return [original(name.strip()) for name in first[0][0]]


def _parse_rows(path: Path, header: list[str], columns: Sequence[Column], rows: Rows, lines: Ints) -> dict[str, Values]:
    """Return the values of each column, or raise the fault on the earliest line of all columns."""
    ragged = None
    if not set(map(len, rows)) <= {len(header)}:
        ragged = next(row for row, fields in enumerate(rows) if len(fields) != len(header))
    values, faults, positions = {}, [], {name: position for position, name in enumerate(header)}
    for column in columns:
        position = positions[column.name]
        values[column.name], fault = parse(column, [fields[position] for fields in rows[:ragged]])
        faults += [fault] if fault else []
    Table(path, values, lines).check(faults)
    if ragged is not None:
        fields = len(rows[ragged])
        raise DataError(f"{path}, line {lines[ragged]}: the header has {len(header)} fields, this line has {fields}")
    return values


def write(columns: Mapping[str, list[Any]], path: Path, *, bom: bool = False) -> None:
    """Write columns of equal length as a CSV file, with a byte-order mark if asked, by which Excel recognises UTF-8."""
    safe = [[neutralized(value) for value in values] for values in columns.values()]
    with path.open("w", newline="", encoding="utf-8-sig" if bom else "utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(map(neutralized, columns))
        writer.writerows(zip(*safe, strict=True))
