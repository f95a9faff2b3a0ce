"""The two files by which the owner of a device decides: whom it trusts, and what it consents to."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from fedcast.errors import FedcastError
from fedcast.federation.device.keys import PublicKeys
from fedcast.sharing import DEFAULT_DELTA
from fedcast.text_files import read_text

TRUST_FILE, CONSENT_FILE = "trust.toml", "consent.toml"


def _digits(value: str) -> str:
    digits = "".join(value.split()).lower()
    if len(digits) != 64 or not set(digits) <= set("0123456789abcdef"):
        raise ValueError("expected 64 hexadecimal digits; blanks between them are allowed")
    return digits


class _Table(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """A table of a file; unknown keys are errors."""


class Peer(_Table):
    """A device that the owner of this one trusts."""

    fingerprint: Annotated[str, AfterValidator(_digits)]
    rate_bps: float | None = Field(None, gt=0, description="rate of the link to it; unset: measured")


class Consent(_Table):
    """Limits that the owner of a device agrees to, whatever a server asks for."""

    kinds: tuple[str, ...] = Field((), description="kinds of sharing that may send data of this device")
    max_ratio: float = Field(0.0, ge=0, le=1, description="share of its samples that others may receive, in all runs")
    max_received: int = Field(100_000, ge=0, description="samples that it takes from one head")
    counts_epsilon: float | None = Field(
        None, ge=1e-6, description="class counts are sent with noise, ε-differentially private; unset: exact"
    )
    epsilon_budget: float | None = Field(
        None, gt=0, description="ε of everything that it ever releases together; unset: no limit"
    )
    delta: float = Field(DEFAULT_DELTA, gt=0, lt=1, description="δ that belongs to the budget")
    min_batch_size: int = Field(1, ge=1, description="a run with smaller batches does not train here")


class TrustedPeers:
    """The devices that this one exchanges samples with; the list itself is never sent."""

    def __init__(self, peers: Mapping[str, Peer]) -> None:
        self._peers = dict(peers)

    def accepts(self, name: str, keys: PublicKeys) -> bool:
        """Return whether a device of that name is trusted with exactly these keys."""
        peer = self._peers.get(name)
        return peer is not None and peer.fingerprint == keys.fingerprint

    def rate_bps(self, name: str) -> float | None:
        """Return the configured rate of the link to a device; None: it must be measured."""
        peer = self._peers.get(name)
        return None if peer is None else peer.rate_bps


def load_trust(path: str | Path) -> TrustedPeers:
    """Read a trust file: a table for each trusted device, ``[name]`` with its ``fingerprint``."""
    content = _read(Path(path))
    return TrustedPeers({name: _checked(Peer, table, f"{path}: [{name}]") for name, table in content.items()})


def load_consent(path: str | Path) -> Consent:
    """Read a consent file; every key is optional, and without any the device sends no samples."""
    return _checked(Consent, _read(Path(path)), str(path))


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(path))
    except FileNotFoundError:
        raise FedcastError(f"{path}: no such file; `fedcast federation init` writes one for each device") from None
    except (ValueError, RecursionError) as error:
        raise FedcastError(f"{path}: not a TOML file: {error}") from None


_AnyTable = TypeVar("_AnyTable", bound=_Table)


def _checked(model: type[_AnyTable], content: Any, where: str) -> _AnyTable:
    try:
        return model.model_validate(content)
    except ValidationError as error:
        faults = []
        for fault in error.errors(include_url=False):
            key = ".".join(str(part) for part in fault["loc"])
            if fault["type"] == "missing":
                faults.append(f"{where}: {key} is missing")
            elif fault["type"] == "extra_forbidden":
                known = ", ".join(model.model_fields)
                faults.append(f"{where}: unknown key {key!r}; expected {known}")
            else:
                expected = fault["msg"].removeprefix("Value error, ").removeprefix("expected ")
                faults.append(
                    f"{where}: invalid value {fault['input']!r} for {key or 'the table'}: expected {expected}"
                )
        raise FedcastError("\n".join(faults)) from None
