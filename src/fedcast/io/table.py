"""What a column may hold, and the value that a file becomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fedcast.errors import DataError
from fedcast.formatting import called
from fedcast.typing import Ints, Names

Kind = Literal["int", "float", "text", "bool"]
Values = NDArray[Any]


@dataclass(frozen=True)
class Column:
    """A column that a table must (or may) have, and the values it may hold; a present column has no gaps.

    Attributes:
        name: as in the header, its unit at the end.
        kind: ``int`` takes 3 and 3.0; ``float`` takes finite numbers; ``bool`` takes true/false, yes/no, 1/0.
        required: False: the column may be absent as a whole.
        minimum: smallest value accepted.
        maximum: largest value accepted.
        above: values must be greater than this.
        otherwise: what to say about a value that is of another kind altogether.
    """

    name: str
    kind: Kind
    required: bool = True
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    otherwise: str = ""


@dataclass(frozen=True)
class Table:
    """The declared columns of a file.

    Attributes:
        path: the file.
        columns: the values of each column that is present.
        lines: int64[N], where each row stands in the file, counted from 1 (the header is line 1 of a CSV).
        word: what such a place is called: ``line`` in a CSV, ``row`` in Parquet.
        names: of the users, where columns of users held names and now hold places among these.
    """

    path: Path
    columns: Mapping[str, Values]
    lines: Ints
    word: str = "line"
    names: Names | None = None

    @property
    def num_rows(self) -> int:
        """Rows N, the header not counted."""
        return len(self.lines)

    def __getitem__(self, name: str) -> Values:
        return self.columns[name]

    def fail(self, row: int, reason: str, column: str | None = None) -> DataError:
        """The error to raise about a row (counted from 0); it names the file and the line."""
        place = f"{self.path}, {self.word} {self.lines[row]}"
        return DataError(f"{place}{f', column {column}' if column else ''}: {reason}")

    def take(self, rows: NDArray[np.int64]) -> Table:
        """The table with its rows in another order."""
        columns = {name: values[rows] for name, values in self.columns.items()}
        return replace(self, columns=columns, lines=self.lines[rows])

    def who(self, user: int) -> str:
        """What messages call a user."""
        return called(user, self.names)


class Fault(NamedTuple):
    """The first thing that is wrong with a column, in a block of rows."""

    row: int
    column: str
    reason: str


class Reader(Protocol):
    """A kind of file: what a module such as `csv_file` offers."""

    def read(self, path: Path, columns: Sequence[Column], /) -> Table:
        """The declared columns."""
        ...

    def names(self, path: Path, /) -> list[str]:
        """The header."""
        ...

    def first(self, path: Path, name: str, /) -> str | None:
        """The value of a column in the first row, as text; None: there is none."""
        ...
