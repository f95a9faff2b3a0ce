"""FLARE executor, which runs on a device: it hands messages to the device core and back."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from fedcast.errors import FedcastError
from fedcast.federation.device.device import Device
from fedcast.federation.device.exchange import Message
from fedcast.federation.flare.names import CALL_TOPIC, DEVICE_FOLDER, MESSAGE, PEER_TOPIC
from fedcast.federation.wire import decode, encode

_MESSAGE_S = 30.0


class DeviceExecutor(Executor):  # type: ignore[misc]
    """Carries calls of the server and messages of other devices; it takes no arguments from a job."""

    def __init__(self) -> None:
        super().__init__()
        self._device: Device | None = None
        self._broken = "the device has not been started"
        # A round that outlived its time-out must not compete with the next one.
        self._one_call = threading.Lock()
        self._loading = threading.Thread(target=import_module, args=("fedcast.training.remote",), daemon=True)

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Load the device and take messages as soon as the job starts."""
        if event_type == EventType.START_RUN:
            try:
                self._device = Device(fl_ctx.get_identity_name(), os.environ[DEVICE_FOLDER])
            except FedcastError as error:  # told to the server, which would otherwise wait for an answer
                self._broken = str(error)
            engine = fl_ctx.get_engine()
            engine.register_aux_message_handler(CALL_TOPIC, self._on_call)
            engine.register_aux_message_handler(PEER_TOPIC, self._on_peer)
            self._loading.start()

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        """Refuse tasks: everything is asked by messages, which do not wait for a poll."""
        del task_name, shareable, fl_ctx, abort_signal
        return make_reply(ReturnCode.TASK_UNKNOWN)

    def _on_call(self, topic: str, request: Shareable, fl_ctx: FLContext) -> Shareable:
        del topic
        if self._device is None:
            return _reply({"error": self._broken})
        # Importing PyTorch takes seconds and would slow down the messages of a transfer tenfold.
        self._loading.join()
        try:
            asked = decode(request.get(MESSAGE))
        except FedcastError as error:
            return _reply({"error": str(error)})
        with self._one_call:
            return _reply(self._device.answer(asked.get("call"), asked.get("request") or {}, partial(_send, fl_ctx)))

    def _on_peer(self, topic: str, request: Shareable, fl_ctx: FLContext) -> Shareable:
        del topic
        if self._device is None:
            return _reply({"rejected": self._broken})
        peer = fl_ctx.get_peer_context()
        name = peer.get_identity_name() if peer else ""
        try:
            return _reply(self._device.receive(decode(request.get(MESSAGE)), str(name)))
        except FedcastError as error:
            return _reply({"rejected": str(error)})


def _send(fl_ctx: FLContext, targets: Sequence[str], message: Message) -> dict[str, Message]:
    engine = fl_ctx.get_engine()
    with engine.new_context() as context:  # several threads send
        return replies_of(engine.send_aux_request(list(targets), PEER_TOPIC, packed(message), _MESSAGE_S, context))


def replies_of(replies: Any) -> dict[str, Message]:
    """Return the messages of those that answered."""
    found = {}
    for name, reply in (replies or {}).items():
        if reply is not None and reply.get_return_code() == ReturnCode.OK:
            try:
                found[str(name)] = decode(reply.get(MESSAGE))
            except FedcastError:  # as good as no answer
                continue
    return found


def packed(message: Message, into: Shareable | None = None) -> Shareable:
    """Return a message as FLARE carries it."""
    carried = Shareable() if into is None else into
    carried[MESSAGE] = encode(message)
    return carried


def _reply(message: Message) -> Shareable:
    return packed(message, make_reply(ReturnCode.OK))
