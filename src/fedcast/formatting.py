"""Words for people that many rooms say."""

from __future__ import annotations

from fedcast.typing import Names


def called(user: int, names: Names | None) -> str:
    """What a person calls a user: by its name, if users have names.

    Example:
        >>> import numpy as np
        >>> called(1, None), called(1, np.array(["lobby", "gate"]))
        ('user 1', 'user gate')
    """
    return f"user {user if names is None else names[user]}"


def counted(count: int, one: str, many: str | None = None) -> str:
    """A number of things.

    Example:
        >>> counted(1, "user"), counted(2000, "user"), counted(2, "class", "classes")
        ('1 user', '2,000 users', '2 classes')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"
