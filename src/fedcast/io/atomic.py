"""Files written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedcast.errors import FedcastError


@contextmanager
def written_aside(path: str | Path) -> Iterator[Path]:
    """A place beside `path` to write to; renamed to it if all goes well, removed if not. Folders are made.

    A link stays, and the file that it leads to is written. A pipe or a device is no file to replace: it is written to.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "new" / "a.txt"
        >>> with written_aside(target) as aside:
        ...     _ = aside.write_text("whole")
        >>> target.read_text(), [file.name for file in target.parent.iterdir()]
        ('whole', ['a.txt'])
    """
    path = Path(path)
    check_place(path)
    if path.exists() and not path.is_file():
        yield path
        return
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        yield aside
        aside.replace(target)
    except OSError as error:
        if error.filename in (None, str(aside)):
            error.filename = str(path)
        raise
    finally:
        aside.unlink(missing_ok=True)


def check_place(path: Path) -> None:
    """Refuse a path where no file can be, before any work is done for it."""
    if path.is_dir():
        raise FedcastError(f"{path}: is a folder, expected a file")
    if wrong := next((place for place in path.parents if place.exists() and not place.is_dir()), None):
        raise FedcastError(f"{wrong}: is no folder, so it cannot hold {path.name}")
