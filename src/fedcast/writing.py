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

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "new" / "a.txt"
        >>> with written_aside(target) as aside:
        ...     _ = aside.write_text("whole")
        >>> target.read_text(), [file.name for file in target.parent.iterdir()]
        ('whole', ['a.txt'])
    """
    path = Path(path)
    if path.is_dir():
        raise FedcastError(f"{path}: is a folder, expected a file")
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield aside
        aside.replace(path)
    except OSError as error:
        error.filename = error.filename or str(path)
        raise
    finally:
        aside.unlink(missing_ok=True)
