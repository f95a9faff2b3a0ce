"""Refusing what cannot be."""

from __future__ import annotations

from fedcast.errors import FedcastError

ROUNDING = 1e-9  # by how much a sum or a limit may be missed


def require(holds: bool, name: str, value: object, wanted: str) -> None:
    """Refuse a value, and say what is wanted, unless the condition holds."""
    if not holds:
        raise FedcastError(f"{name}: {value} is refused, it must be {wanted}")
