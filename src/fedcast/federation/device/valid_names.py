"""Names of runs and devices, which come from a server and are stored and printed."""

from __future__ import annotations

import re

from fedcast.formatting import printable

NAME_RULE = "expected letters, digits and . _ -, at most 100"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MOST_CHARACTERS = 300


def is_name(name: object) -> bool:
    """Return whether a value is a valid name of a run or a device.

    Example:
        >>> is_name("20260301-081500"), is_name("../x"), is_name(3)
        (True, False, False)
    """
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def shortened(text: str) -> str:
    """Return a text of somebody else for a log or a terminal: in one line, without control characters, not endless."""
    cut = text[:_MOST_CHARACTERS]
    return printable(cut if cut == text else cut + "…")
