"""Tables written for other programs: CSV or Parquet, by the suffix of the file."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcast.errors import FedcastError
from fedcast.io.atomic import written_aside

Columns = Mapping[str, Sequence[Any] | NDArray[Any]]


def save_table(columns: Columns, path: str | Path) -> Path:
    """Write columns of equal length, one row per entry; None is an empty cell. Written aside and then renamed.

    Args:
        columns: values by name, plain values or arrays.
        path: of a .csv or .parquet file.

    Example:
        >>> import tempfile
        >>> path = save_table({"user": [0, 1], "head": [None, 0]}, Path(tempfile.mkdtemp()) / "users.csv")
        >>> path.read_text().split()
        ['user,head', '0,', '1,0']
    """
    path = Path(path)
    writers = {".csv": _write_csv, ".parquet": _write_parquet}
    if path.suffix not in writers:
        raise FedcastError(f"{path}: unknown kind of table {path.suffix!r}; expected {', '.join(writers)}")
    plain = {
        name: values.tolist() if isinstance(values, np.ndarray) else list(values) for name, values in columns.items()
    }
    with written_aside(path) as aside:
        writers[path.suffix](plain, aside)
    return path


def _write_csv(columns: Mapping[str, list[Any]], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def _write_parquet(columns: Mapping[str, list[Any]], path: Path) -> None:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise FedcastError('Parquet needs pyarrow: pip install "fedcast[parquet]"') from None
    pyarrow.parquet.write_table(pyarrow.table(dict(columns)), path)
