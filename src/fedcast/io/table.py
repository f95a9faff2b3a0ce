"""Columns and tables: declaration, parsing and validation of values, whatever the kind of file."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedcast.errors import DataError
from fedcast.formatting import did_you_mean, shown_value, similar_name, user_label
from fedcast.io.formula_cells import original
from fedcast.typing import Ints, Names

Kind = Literal["int", "float", "text", "bool"]
Values = NDArray[Any]
# Row, column and reason of an invalid value.
InvalidCell = tuple[int, str, str]

EXPECTED = {"int": "a whole number", "float": "a number", "text": "text", "bool": "true or false"}

_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_INT64_LIMIT = 2.0**63


@dataclass(frozen=True)
class Column:
    """Declaration of a column: its name, type and valid range. A column that is present must have no missing values."""

    name: str  #: name in the header, ending in the unit
    kind: Kind  #: ``int`` accepts 3 and 3.0; ``float`` accepts finite numbers; ``bool`` accepts true/false, yes/no, 1/0
    required: bool = True  #: whether the column must be present
    minimum: float | None = None  #: smallest valid value
    maximum: float | None = None  #: largest valid value
    above: float | None = None  #: exclusive lower bound
    otherwise: str = ""  #: text that is added to the message about a value of another type


@dataclass(frozen=True)
class Table:
    """The declared columns of a file."""

    path: Path  #: the file
    columns: Mapping[str, Values]  #: the values of each column that is present
    lines: Ints  #: int64[N], line of each row in the file, counted from 1 (the header is line 1 of a CSV)
    word: str = "line"  #: how messages call a line: ``line`` in a CSV, ``row`` in Parquet
    #: names of the users, if the columns of users held names; these columns then hold indices into `names`
    names: Names | None = None

    @property
    def num_rows(self) -> int:
        """Number of rows N, without the header."""
        return len(self.lines)

    def __getitem__(self, name: str) -> Values:
        return self.columns[name]

    def fail(self, row: int, reason: str, column: str | None = None) -> DataError:
        """Return the error about a row (counted from 0); its message names the file and the line."""
        place = f"{self.path}, {self.word} {self.lines[row]}"
        return DataError(f"{place}{f', column {column}' if column else ''}: {reason}")

    def check(self, invalid: Sequence[InvalidCell]) -> None:
        """Raise the error about the first of the invalid values."""
        if invalid:
            row, column, reason = min(invalid)
            raise self.fail(row, reason, column)

    def take(self, rows: NDArray[np.int64]) -> Table:
        """Return the table with the given rows, in that order."""
        columns = {name: values[rows] for name, values in self.columns.items()}
        return replace(self, columns=columns, lines=self.lines[rows])

    def who(self, user: int) -> str:
        """Return the label of a user for messages."""
        return user_label(user, self.names)


def present_columns(path: Path, header: Sequence[str], columns: Sequence[Column]) -> list[Column]:
    """Return the declared columns that the file has; raise an error if one is missing, listed twice or misspelt."""
    declared, present = {column.name for column in columns}, Counter(header)
    unknown = [name for name in header if name not in declared]
    for column in columns:
        if present[column.name] > 1:
            raise DataError(f"{path}: column {column.name} is listed twice in the header")
        if column.name in present:
            continue
        if column.required:
            raise DataError(f"{path}: missing column {column.name!r}{_missing_hint(column.name, header, unknown)}")
        if similar := _partial_name(column.name, unknown) or _similar_name(column.name, unknown):
            hint = "Rename it if so, remove it if not"
            raise DataError(f"{path}: unknown column {similar!r}; did you mean {column.name!r}? {hint}")
    return [column for column in columns if column.name in present]


def _missing_hint(name: str, header: Sequence[str], unknown: Sequence[str]) -> str:
    for separator, word in ((";", "semicolons"), ("\t", "tabs")):
        if len(header) == 1 and separator in header[0]:
            return f"; fields must be separated by commas, not {word}"
    similar = _similar_name(name, unknown)
    return did_you_mean(repr(similar) if similar else None, f"the columns are {', '.join(header)}")


def _partial_name(name: str, others: Sequence[str]) -> str | None:
    """Return the first other name whose words all occur in the name, as budget in energy_budget_j."""
    words = set(name.casefold().split("_"))
    return next((other for other in others if set(_normalized(other).split("_")) <= words), None)


def _similar_name(name: str, others: Sequence[str]) -> str | None:
    plain = {_normalized(other): other for other in others}
    near = similar_name(name.casefold(), plain)
    return plain[near] if near else None


def _normalized(name: str) -> str:
    return name.casefold().replace(" ", "_").replace("-", "_")


def parse(column: Column, texts: list[str]) -> tuple[Values, InvalidCell | None]:
    """Return the values of a column and its first fault; values end before a text that cannot be parsed."""
    fault = None
    try:
        values = _values(column.kind, texts)
    except ValueError:
        row = next(row for row, text in enumerate(texts) if not _is_value(column.kind, text))
        values = _values(column.kind, texts[:row])
        fault = row, column.name, _not_of_kind(column, texts[row])
    if invalid := first_invalid(column, values):
        fault = invalid[0], column.name, f"{shown_value(texts[invalid[0]])} {invalid[1]}"
    return values, fault


def _values(kind: Kind, texts: list[str]) -> Values:
    if kind == "text":
        stripped = list(map(str.strip, texts))
        if not all(stripped):
            raise ValueError
        # Most tables have neither apostrophes nor letters with accents, and may have millions of cells.
        joined = "".join(stripped)
        if "'" in joined:
            stripped = list(map(original, stripped))
        if not joined.isascii():
            stripped = [unicodedata.normalize("NFC", text) for text in stripped]
        return np.array(stripped, dtype=np.str_)
    if kind == "bool":
        words = [text.strip().lower() for text in texts]
        if not _BOOLEANS.keys() >= set(words):
            raise ValueError
        return np.array([_BOOLEANS[word] for word in words], np.bool_)
    if "_" in "".join(texts):  # Python parses 1_000 as a number; in a table it is a mistake
        raise ValueError
    if kind == "float":
        return np.fromiter(map(float, texts), np.float64, len(texts))
    try:
        return np.fromiter(map(int, texts), np.int64, len(texts))
    except (ValueError, OverflowError):
        return np.fromiter(map(_whole, texts), np.int64, len(texts))


def is_number(text: str) -> bool:
    """Return whether Python parses a text as a number, including nan and 1_000, which tables do not accept."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_value(kind: Kind, text: str) -> bool:
    try:
        _values(kind, [text])
    except ValueError:
        return False
    return True


def _whole(text: str) -> int:
    """Return a whole number, also from 3.0, as pandas writes integers of a column with missing values."""
    try:
        value = int(text)
    except ValueError:
        real = float(text)
        if not real.is_integer():
            raise ValueError from None
        value = int(real)
    if abs(value) >= _INT64_LIMIT:
        raise ValueError
    return value


def _not_of_kind(column: Column, text: str) -> str:
    if not text.strip():
        return f"missing value, expected {EXPECTED[column.kind]}"
    if column.kind == "int" and _is_value("float", text) and float(text).is_integer():
        return f"{shown_value(text)} is too large"
    return f"{shown_value(text)} is not {EXPECTED[column.kind]}" + ("" if is_number(text) else column.otherwise)


def first_invalid(column: Column, values: Values) -> tuple[int, str] | None:
    """Return the first invalid number of a column as (row, reason), or None."""
    if values.dtype.kind not in "iuf":
        return None
    rules = []
    if values.dtype.kind == "f":
        rules.append((~np.isfinite(values), "is not a finite number"))
    if column.kind == "int" and values.dtype != np.int64:
        rules.append((values != np.floor(values), f"is not {EXPECTED['int']}"))
        rules.append((np.abs(values) >= _INT64_LIMIT, "is too large"))
    if column.above is not None:
        rules.append((values <= column.above, f"is not above {column.above:g}"))
    if column.minimum is not None:
        rules.append((values < column.minimum, f"is below {column.minimum:g}"))
    if column.maximum is not None:
        rules.append((values > column.maximum, f"is above {column.maximum:g}"))
    faults = [(int(np.argmax(bad)), reason) for bad, reason in rules if bad.any()]
    return min(faults, key=lambda fault: fault[0], default=None)
