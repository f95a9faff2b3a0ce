"""The simplest engine: devices in this process, messages as function calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fedcast.federation.device.device import Device
from fedcast.federation.device.exchange import Message, Messages

#: (sender, receiver, message) → what arrives, or None if nothing does
Carry = Callable[[str, str, Message], Message | None]


class Loopback:
    """Carries requests and messages between a server and devices in one process.

    A device that is not in `devices` does not answer; `carry` may change or lose messages between devices.
    """

    def __init__(self, devices: Mapping[str, Device], carry: Carry | None = None) -> None:
        self.devices, self.carry = dict(devices), carry or (lambda _, __, message: message)

    def names(self) -> list[str]:
        """Return the names of all devices."""
        return list(self.devices)

    def ask(self, call: str, requests: Messages, timeout_s: float) -> Messages:
        """Call one device after the other."""
        del timeout_s
        return {name: self._call(name, call, request) for name, request in requests.items() if name in self.devices}

    def _call(self, name: str, call: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        return self.devices[name].answer(call, request, lambda targets, message: self._send(name, targets, message))

    def _send(self, sender: str, targets: Sequence[str], message: Message) -> dict[str, Message]:
        arrived = {name: self.carry(sender, name, dict(message)) for name in targets if name in self.devices}
        return {name: self.devices[name].receive(each, sender) for name, each in arrived.items() if each is not None}
