"""Read text and JSON files whose content nobody has checked: bounded memory, and one clear error for each fault."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedcast.errors import DataError

# A plan of ten million users is smaller.
_MOST_BYTES = 2**31
_BLOCK_BYTES = 2**20


def is_file(path: str | Path) -> bool:
    """Return whether a path is a file; one that is too long for the file system is none.

    Example:
        >>> is_file("x" * 5000)
        False
    """
    try:
        return Path(path).is_file()
    except OSError:
        return False


def read_bytes(path: str | Path, most_bytes: int = _MOST_BYTES) -> bytes:
    """Return the content of a text file as bytes; stop at a NUL byte, which no text has, and at a size limit.

    A device such as /dev/zero never ends, and its size is not known before it is read.
    """
    content = bytearray()
    with Path(path).open("rb") as stream:
        while block := stream.read(_BLOCK_BYTES):
            content += block
            if b"\0" in block:
                raise DataError(f"{path}: not UTF-8 text: it contains a NUL byte")
            if len(content) > most_bytes:
                raise DataError(f"{path}: larger than {most_bytes:,} bytes, expected a smaller text file")
    return bytes(content)


def read_text(path: str | Path, most_bytes: int = _MOST_BYTES) -> str:
    r"""Return the content of a UTF-8 text file, without the byte-order mark that some editors write.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "scenario.toml")
        >>> _ = file.write_bytes(b"\xef\xbb\xbfseed = 3")
        >>> read_text(file)
        'seed = 3'
    """
    try:
        return read_bytes(path, most_bytes).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text (byte {error.start}); save the file as UTF-8") from None


def parse_json(text: str, where: str, not_finite: Callable[[str], Any] | None = None) -> Any:
    """Return the value of a JSON text; `where` names it in errors, `not_finite` is called for NaN and infinity.

    Example:
        >>> parse_json("[1, 2]", "plan.json")
        [1, 2]
    """
    try:
        return json.loads(text, parse_constant=not_finite or _not_finite)
    except RecursionError:
        raise DataError(f"{where}: not valid JSON: nested too deeply") from None
    except ValueError as error:  # also a whole number with thousands of digits
        raise DataError(f"{where}: not valid JSON: {str(error).partition(';')[0]}") from None


def _not_finite(value: str) -> None:
    raise ValueError(f"{value} is not a number in JSON")
