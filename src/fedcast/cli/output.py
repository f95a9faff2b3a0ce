"""Output of commands: tables and progress on the screen, and files that are checked before any work is done."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import typer

from fedcast.errors import FedcastError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

_STANDARD_OUTPUT = Path("-")
_TABLES = (".csv", ".parquet", ".xlsx")


def screen(json: Path | None = None, *, stderr: bool = False) -> Console:
    """Return the console for messages: standard output, unless JSON goes there; text is shown without markup."""
    from rich.console import Console

    return Console(stderr=stderr or json == _STANDARD_OUTPUT, markup=False, emoji=False, highlight=False)


def plain_table(*columns: str, numbers: bool = True, **settings: Any) -> Table:
    """Return a table without lines; columns after the first are aligned right, unless they hold text."""
    from rich.table import Table

    style = {"box": None, "header_style": "dim", "pad_edge": False, "title_style": "bold"}
    table = Table(*columns, **(style | settings), title_justify="left", caption_justify="left")
    for column in table.columns[1:] if numbers else ():
        column.justify = "right"
    return table


def progress_bars() -> Progress:
    """Return bars on standard error with description, count, state and remaining time; only a terminal shows them."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = screen(stderr=True)
    return Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[state]}"),
        TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal,
    )  # fmt: skip


class LongProgress:
    """Progress bars, and lines above them, while a context is open."""

    def __init__(self) -> None:
        self._bars = progress_bars()
        self._console = self._bars.console

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def _say(self, text: str) -> None:
        self._console.print(text, soft_wrap=True)
        self._console.file.flush()


def check_file(option: str, path: Path | None, inputs: Iterable[Path | None], *, table: bool = False) -> None:
    """Raise an error if no table, or JSON, can be written there, or if the command reads that file."""
    from fedcast.io import check_writable

    if path is None or (path == _STANDARD_OUTPUT and not table):
        return
    if table and path.suffix not in _TABLES:
        raise FedcastError(f"{option} {path}: unknown kind of table {path.suffix!r}; expected {', '.join(_TABLES)}")
    if not table and path.suffix.lower() in _TABLES:
        name = path.with_suffix(".json")
        raise FedcastError(f"{option} {path}: JSON is no table; name it {name} (`fedcast plan --table` writes a table)")
    check_writable(path)
    if not path.parent.is_dir():
        raise FedcastError(f"{option} {path}: there is no folder {path.parent}; create it first")
    read = [file for file in inputs if file is not None and file.exists()]
    if path.exists() and any(path.samefile(file) for file in read):
        raise FedcastError(f"{option} {path}: this command reads that file, and would overwrite it; choose another")


def write_text(path: Path, text: str) -> None:
    """Write to a file, or to standard output for -."""
    from fedcast.io import write_file

    if path == _STANDARD_OUTPUT:
        typer.echo(text, nl=False)
    else:
        write_file(path, text)
