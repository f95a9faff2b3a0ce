"""Requests of a server to a head, validated: they may come from another host, with any content."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from fedcast import registry
from fedcast.errors import FedcastError
from fedcast.federation.device.envelope import RejectedError
from fedcast.federation.device.keys import PublicKeys, public_keys
from fedcast.federation.device.valid_names import NAME_RULE, is_name
from fedcast.scenario import SharingSettings
from fedcast.sharing import find_sharing, gaussian_mu

RAW = "raw"


@dataclass(frozen=True)
class ShareRequest:
    """A validated request to share: how many samples, with whom, and the draw."""

    count: int
    members: dict[str, PublicKeys]
    away: frozenset[str]  #: members that the server does not reach now; they get their samples when sharing is resumed
    kind: str
    options: Any  #: of the kind
    balanced: bool
    seed: int
    user: int

    @property
    def mu(self) -> float | None:
        """μ of what the kind of sharing releases; None: it has no differential privacy."""
        return None if self.kind == RAW else gaussian_mu(self.options.epsilon, self.options.delta)


def offered_keys(peers: object) -> dict[str, PublicKeys]:
    """Return the keys of the devices that a server names."""
    if not isinstance(peers, Mapping):
        raise RejectedError("invalid peers: expected the keys of each by name")
    if not all(is_name(name) for name in peers):
        raise RejectedError(f"invalid name of a device: {NAME_RULE}")
    try:
        return {str(name): public_keys(keys) for name, keys in peers.items()}
    except FedcastError as error:
        raise RejectedError(f"invalid peers: {error}") from None


def share_request(request: Mapping[str, Any]) -> ShareRequest:
    """Return a request to share; raise an error if it is invalid."""
    members = offered_keys(request.get("members", {}))
    try:
        count, seed, user = (int(request[name]) for name in ("count", "seed", "user"))
        kind, balanced = str(request["kind"]), bool(request["balanced"])
        away = frozenset(map(str, request.get("away", ())))
    except (KeyError, TypeError, ValueError) as error:
        raise RejectedError(f"invalid request to share: {error!r}") from None
    if count < 0:
        raise RejectedError(f"invalid value {count} for count: expected a number ≥ 0")
    return ShareRequest(count, members, away, kind, _options(kind, request.get("options", {})), balanced, seed, user)


def _options(kind: str, given: object) -> Any:
    """Return the options of a kind of sharing that devices offer; they may come from another host."""
    if kind != RAW and (kind not in registry.names("sharing") or not find_sharing(kind).private):
        offered = [name for name in registry.names("sharing") if name == RAW or find_sharing(name).private]
        raise RejectedError(f"invalid value {kind!r} for kind: devices share {', '.join(offered)}")
    try:
        options = SharingSettings.model_validate({"kind": kind, kind: given}).options("sharing")
    except ValidationError as error:
        raise RejectedError(f"invalid options of {kind}: {error.errors(include_url=False)[0]['msg']}") from None
    # A server must not choose which files of a device are read.
    if named := [name for name, value in vars(options).items() if name.endswith("_file") and value is not None]:
        raise RejectedError(f"invalid options of {kind}: {named[0]} names a file, which devices do not read")
    return options
