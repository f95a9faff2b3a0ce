"""Answers of devices as the server reads them: whatever a device sends, known keys with valid values, or nothing.

A device may be faulty or hostile. Its answers end no run of the others, and become no part of the state of the server
before they are validated.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, ValidationError

from fedcast.errors import FedcastError
from fedcast.federation.device.keys import public_keys
from fedcast.federation.device.samples import sample_format
from fedcast.federation.device.valid_names import shortened

_MOST_SAMPLES = 2**40

_Count = Annotated[int, Field(ge=0, le=_MOST_SAMPLES)]
_Amount = Annotated[float, Field(ge=0)]
_Text = Annotated[str, Field(max_length=300)]


class _Answer(BaseModel, frozen=True, extra="ignore", allow_inf_nan=False):
    """An answer; keys that the server does not know are left out."""


class _Description(_Answer):
    version: _Text
    format: dict[str, Any]
    counts: list[_Count]
    size: _Count
    kinds: list[_Text]
    max_ratio: float = Field(ge=0, le=1)
    epsilon_left: _Amount | None
    epsilon_budget: _Amount | None
    mu_spent: _Amount
    accepts: list[_Text]
    rates_bps: dict[_Text, Annotated[float, Field(gt=0)] | None]


class _Shared(_Answer):
    count: _Count
    untrusted: list[_Text]
    delivered: list[_Text]
    rejected: dict[_Text, str]
    silent: list[_Text]
    bytes_sent: _Count = 0
    envelope: _Text | None = None
    seconds: _Amount = 0.0
    mu: _Amount | None = None


def read_description(name: str, answer: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return how a device describes itself, under the name by which the server knows it; None if it is invalid."""
    found = _read(_Description, answer)
    try:
        if found is None or len(found.counts) != sample_format(found.format).num_classes:
            return None
        keys = public_keys(answer.get("keys"))
    except FedcastError:
        return None
    return (
        {"name": name, "keys": keys.to_bytes().hex(), **found.model_dump()} if sum(found.counts) == found.size else None
    )


def read_shared(answer: Mapping[str, Any], members: Collection[str], most: int) -> dict[str, Any] | None:
    """Return what a head says of sharing `most` samples with members; None if it is invalid."""
    found = _read(_Shared, answer)
    if found is None or found.count > most:
        return None
    named = {*found.untrusted, *found.delivered, *found.rejected, *found.silent}
    if not named <= set(members):
        return None
    return found.model_dump() | {"rejected": {name: shortened(why) for name, why in found.rejected.items()}}


def read_held(answer: Mapping[str, Any], most: int) -> int | None:
    """Return how many samples a device says that it trains on; None if it cannot be so many."""
    held = answer.get("samples")
    return held if isinstance(held, int) and 0 <= held <= most else None


def read_error(answer: Mapping[str, Any]) -> str | None:
    """Return why a device refuses; None if it does not."""
    return None if answer.get("error") is None else shortened(str(answer["error"]))


_AnyAnswer = TypeVar("_AnyAnswer", bound=_Answer)


def _read(model: type[_AnyAnswer], answer: Mapping[str, Any]) -> _AnyAnswer | None:
    try:
        return model.model_validate(answer, strict=True)
    except ValidationError:
        return None
