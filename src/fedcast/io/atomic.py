"""Atomic writing of files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedcast.errors import FedcastError


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it to `path` on success, remove it on failure.

    Missing folders are created. If `path` is a symbolic link, its target is replaced. Pipes and devices cannot be
    replaced and are written directly.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "new" / "a.txt"
        >>> with atomic_write(target) as temporary:
        ...     _ = temporary.write_text("complete")
        >>> target.read_text(), [file.name for file in target.parent.iterdir()]
        ('complete', ['a.txt'])
    """
    path = Path(path)
    check_writable(path)
    if path.exists() and not path.is_file():
        yield path
        return
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        yield temporary
        temporary.replace(target)
    except OSError as error:
        if error.filename in (None, str(temporary)):
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def write_file(path: str | Path, content: str | bytes) -> Path:
    """Write bytes, or text as UTF-8, atomically, and return the path."""
    with atomic_write(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
    return Path(path)


def check_writable(path: Path) -> None:
    """Raise an error if no file can be written at a path, before any work is done for it."""
    if path.is_dir():
        raise FedcastError(f"{path}: is a folder, expected a file")
    if wrong := next((place for place in path.parents if place.exists() and not place.is_dir()), None):
        raise FedcastError(f"{wrong}: is not a folder, so it cannot contain {path.name}")
