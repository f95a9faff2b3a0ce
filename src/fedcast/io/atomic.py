"""Atomic writing of files and folders."""

from __future__ import annotations

import os
import shutil
import tempfile
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


@contextmanager
def new_folder(folder: str | Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes `folder`, which must be new or empty, on success; remove it on failure.

    Example:
        >>> target = Path(tempfile.mkdtemp()) / "new"
        >>> with new_folder(target) as temporary:
        ...     _ = (temporary / "a.txt").write_text("complete")
        >>> [file.name for file in target.iterdir()], len(list(target.parent.iterdir()))
        (['a.txt'], 1)
    """
    folder = Path(folder)
    check_writable(folder / "any")
    if folder.exists() and any(folder.iterdir()):
        raise FedcastError(f"{folder}: the folder has files; expected a new or an empty one")
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        yield temporary
        temporary.chmod(0o777 & ~_umask())  # a temporary folder is closed to others
        temporary.replace(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


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
