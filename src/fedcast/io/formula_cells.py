"""Text cells that a spreadsheet would run as formulas: neutralized when written, and read back as they were."""

from __future__ import annotations

import re
from typing import TypeVar

T = TypeVar("T")
_FORMULA = re.compile(r"'*[=+\-@]")


def neutralized(value: T) -> T | str:
    """Return a value for a cell: text that begins like a formula gets an apostrophe in front; numbers stay.

    Example:
        >>> neutralized("=1+1"), neutralized(-3), neutralized("gate")
        ("'=1+1", -3, 'gate')
    """
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


def original(text: str) -> str:
    """Return the text that `neutralized` was given.

    Example:
        >>> original("'=1+1"), original(neutralized("'=1")), original("'tis")
        ('=1+1', "'=1", "'tis")
    """
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text
