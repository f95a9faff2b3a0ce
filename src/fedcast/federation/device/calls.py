"""The calls of a server to a device, by name, with every failure as an answer."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from fedcast.errors import FedcastError
from fedcast.federation.device.device import Device
from fedcast.federation.device.exchange import Message, Send


def answer(device: Device, call: object, request: Mapping[str, Any], send: Send) -> Message:
    """Return a device's answer to a server; ``{"error": reason}`` if it refuses or fails."""
    try:
        if call == "alive":
            return device.alive(request)
        if call == "describe":
            return device.describe(request, send)
        if call == "share":
            return device.share(request, send)
        if call == "train_round":
            return device.train_round(request)
    except (FedcastError, OSError) as error:
        return {"error": str(error)}
    except Exception as error:  # a server that hears nothing would wait for its time-out
        logging.getLogger(__name__).exception("call %s failed", call)
        return {"error": f"{type(error).__name__}: {error}"}
    return {"error": f"unknown call {call!r}"}
