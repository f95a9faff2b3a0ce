"""What both kinds of file share: the header, the values of a column, their range."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedcast.errors import DataError
from fedcast.io.table import Column, Fault, Kind, Values

EXPECTED = {"int": "a whole number", "float": "a number", "text": "text", "bool": "true or false"}

_NEARLY_THE_NAME = 0.6
_PERHAPS_THE_NAME = 0.4
_TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_BEYOND_INT64 = 2.0**63


def present_columns(path: Path, header: Sequence[str], columns: Sequence[Column]) -> list[Column]:
    """The declared columns that the file has, after refusing absent required ones, near misses and doubles."""
    unknown = [name for name in header if name not in {column.name for column in columns}]
    for column in columns:
        if header.count(column.name) > 1:
            raise DataError(f"{path}: column {column.name} stands twice in the header")
        if column.name in header:
            continue
        if column.required:
            raise DataError(f"{path}: no column {column.name!r}{_way_out(column.name, header, unknown)}")
        if similar := _part_of(column.name, unknown) or _similar(column.name, unknown, _NEARLY_THE_NAME):
            way_out = "rename it if so, remove it if not"
            raise DataError(f"{path}: unknown column {similar!r}; did you mean {column.name!r}? {way_out}")
    return [column for column in columns if column.name in header]


def _way_out(name: str, header: Sequence[str], unknown: Sequence[str]) -> str:
    for separator, word in ((";", "semicolons"), ("\t", "tabs")):
        if len(header) == 1 and separator in header[0]:
            return f"; fields must be separated by commas, not {word}"
    similar = _similar(name, unknown, _PERHAPS_THE_NAME)
    question = f"; is it {similar!r}?" if similar else ""
    return f"{question}; the header has {', '.join(header)}"


def _part_of(name: str, others: Sequence[str]) -> str | None:
    """The first of the others that is made of words of the name: budget of energy_budget_j."""
    words = set(name.casefold().split("_"))
    return next((other for other in others if set(_plain(other).split("_")) <= words), None)


def _similar(name: str, others: Sequence[str], cutoff: float) -> str | None:
    plain = {_plain(other): other for other in others}
    close = difflib.get_close_matches(name.casefold(), plain, n=1, cutoff=cutoff)
    return plain[close[0]] if close else None


def _plain(name: str) -> str:
    return name.casefold().replace(" ", "_").replace("-", "_")


def parse(column: Column, texts: list[str]) -> tuple[Values, Fault | None]:
    """The values of a column, and its first fault; the values end before a text that is none."""
    fault = None
    try:
        values = _values(column.kind, texts)
    except ValueError:
        row = next(row for row, text in enumerate(texts) if not _is_value(column.kind, text))
        values = _values(column.kind, texts[:row])
        fault = Fault(row, column.name, _not_of_kind(column, texts[row]))
    if refused := first_refused(column, values):
        fault = Fault(refused[0], column.name, f"{texts[refused[0]]!r} {refused[1]}")
    return values, fault


def _values(kind: Kind, texts: list[str]) -> Values:
    if kind == "text":
        stripped = [unicodedata.normalize("NFC", text.strip()) for text in texts]
        if not all(stripped):
            raise ValueError
        return np.array(stripped, dtype=np.str_)
    if kind == "bool":
        return np.fromiter(map(_truth, texts), np.bool_, len(texts))
    if "_" in "".join(texts):  # Python reads 1_000 as a number; in a table it is a slip
        raise ValueError
    if kind == "float":
        return np.fromiter(map(float, texts), np.float64, len(texts))
    try:
        return np.fromiter(map(int, texts), np.int64, len(texts))
    except (ValueError, OverflowError):
        return np.fromiter(map(_whole, texts), np.int64, len(texts))


def is_number(text: str) -> bool:
    """Whether a text reads as a number, one that tables take or not: nan, 1_000."""
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
    """A whole number, also as other tools write it once a column had a gap: 3.0."""
    try:
        value = int(text)
    except ValueError:
        real = float(text)
        if not real.is_integer():
            raise ValueError from None
        value = int(real)
    if abs(value) >= _BEYOND_INT64:
        raise ValueError
    return value


def _truth(text: str) -> bool:
    try:
        return _TRUTHS[text.strip().lower()]
    except KeyError:
        raise ValueError from None


def _not_of_kind(column: Column, text: str) -> str:
    if not text.strip():
        return f"is blank, expected {EXPECTED[column.kind]}"
    if column.kind == "int" and _is_value("float", text) and float(text).is_integer():
        return f"{text!r} is too large"
    return f"{text!r} is not {EXPECTED[column.kind]}" + ("" if is_number(text) else column.otherwise)


def first_refused(column: Column, values: Values) -> tuple[int, str] | None:
    """The first number that a column does not take, as (row, reason)."""
    if values.dtype.kind not in "iuf":
        return None
    rules = []
    if values.dtype.kind == "f":
        rules.append((~np.isfinite(values), "is not a finite number"))
    if column.kind == "int" and values.dtype != np.int64:
        rules.append((values != np.floor(values), f"is not {EXPECTED['int']}"))
        rules.append((np.abs(values) >= _BEYOND_INT64, "is too large"))
    if column.above is not None:
        rules.append((values <= column.above, f"is not above {column.above:g}"))
    if column.minimum is not None:
        rules.append((values < column.minimum, f"is below {column.minimum:g}"))
    if column.maximum is not None:
        rules.append((values > column.maximum, f"is above {column.maximum:g}"))
    faults = [(int(np.argmax(bad)), reason) for bad, reason in rules if bad.any()]
    return min(faults, key=lambda fault: fault[0], default=None)
