"""Where a command writes what it found: places are checked before any work is done."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from fedcast.errors import FedcastError
from fedcast.io import atomic_write, check_writable

if TYPE_CHECKING:
    from rich.console import Console

_STANDARD_OUTPUT = Path("-")
_TABLES = (".csv", ".parquet")


def screen(json: Path | None = None) -> Console:
    """Where words for a person go: standard output, unless JSON goes there; names and paths are shown as they are."""
    from rich.console import Console

    return Console(stderr=json == _STANDARD_OUTPUT, markup=False, emoji=False, highlight=False)


def check_json(path: Path | None, inputs: Iterable[Path | None]) -> None:
    """Refuse a name of a table, and all that `check_file` refuses."""
    if path is None or path == _STANDARD_OUTPUT:
        return
    if path.suffix.lower() in _TABLES:
        raise FedcastError(
            f"--json {path}: JSON is no table; name it {path.with_suffix('.json')} "
            f"(`fedcast plan --table` writes a table)"
        )
    check_file("--json", path, inputs)


def check_table(path: Path | None, inputs: Iterable[Path | None], option: str = "--table") -> None:
    """Refuse what is no name of a table, and all that `check_file` refuses."""
    if path is None:
        return
    if path.suffix not in _TABLES:
        raise FedcastError(f"{option} {path}: unknown kind of table {path.suffix!r}; expected {', '.join(_TABLES)}")
    check_file(option, path, inputs)


def check_file(option: str, path: Path, inputs: Iterable[Path | None]) -> None:
    """Refuse a path where no file can be, and one that would overwrite what the command reads."""
    check_writable(path)
    read = [file for file in inputs if file is not None and file.exists()]
    if path.exists() and any(path.samefile(file) for file in read):
        raise FedcastError(f"{option} {path}: this command reads that file, and would overwrite it; choose another")


def write_json(path: Path, text: str) -> None:
    """Write to a file, or to standard output for -."""
    if path == _STANDARD_OUTPUT:
        typer.echo(text, nl=False)
        return
    with atomic_write(path) as aside:
        aside.write_text(text, encoding="utf-8")
