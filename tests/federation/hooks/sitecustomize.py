"""Servers and devices that are not to be trusted.

FEDCAST_SNOOP: every message that the server forwards or receives is appended to that file, as it is.
FEDCAST_SWAP: a JSON file of names and public keys; heads are asked to share with these names under these keys.
FEDCAST_PEEK: a device asks another one to describe itself, as if it were the server, and notes who answered.
"""

import importlib.abc
import importlib.machinery
import json
import os
import sys
import threading
from pathlib import Path


def snoop(module):
    forward, process = module.CoreCell._forward, module.CoreCell.process_message

    def note(message):
        payload = message.payload
        if isinstance(payload, bytes | bytearray | memoryview):
            with Path(os.environ["FEDCAST_SNOOP"]).open("ab") as stream:
                stream.write(bytes(payload))

    def noted_forward(self, endpoint, origin, destination, msg_type, message):
        note(message)
        return forward(self, endpoint, origin, destination, msg_type, message)

    def noted_process(self, endpoint, connection, app_id, message):
        note(message)
        return process(self, endpoint, connection, app_id, message)

    module.CoreCell._forward, module.CoreCell.process_message = noted_forward, noted_process


def swap(module):
    packed = module.packed
    keys = {
        name: bytes.fromhex(text) for name, text in json.loads(Path(os.environ["FEDCAST_SWAP"]).read_text()).items()
    }

    def swapped(message):
        if message["call"] == "share":
            # In place: such a server does not refuse answers that name them.
            message["request"]["members"].update(keys)
        return packed(message)

    module.packed = swapped


def peek(module):
    on_call = module.DeviceExecutor._on_call

    def ask(fl_ctx, name, run):
        message = module.Shareable()
        message[module.MESSAGE] = module.encode({"call": "describe", "request": {"run": run}})
        engine = fl_ctx.get_engine()
        with engine.new_context() as context:
            replies = engine.send_aux_request([name], module.CALL_TOPIC, message, 10.0, context)
        Path(os.environ["FEDCAST_PEEK"]).write_text(
            json.dumps({"asked": name, "answered": repr(module.replies_of(replies))})
        )

    def peeking(self, topic, request, fl_ctx):
        asked = module.decode(request.get(module.MESSAGE))
        if asked["call"] == "describe" and asked["request"].get("peers"):
            victim = sorted(asked["request"]["peers"])[0]
            threading.Thread(target=ask, args=(fl_ctx, victim, asked["request"]["run"]), daemon=True).start()
        return on_call(self, topic, request, fl_ctx)

    module.DeviceExecutor._on_call = peeking


class Finder(importlib.abc.MetaPathFinder):
    """Change a module when it is imported."""

    def __init__(self, name, change):
        self.name, self.change = name, change

    def find_spec(self, name, path, target=None):
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module

        def changed(module):
            execute(module)
            self.change(module)

        spec.loader.exec_module = changed
        return spec


if os.environ.get("FEDCAST_SNOOP"):
    sys.meta_path.insert(0, Finder("nvflare.fuel.f3.cellnet.core_cell", snoop))
if os.environ.get("FEDCAST_SWAP"):
    sys.meta_path.insert(0, Finder("fedcast.federation.flare.controller", swap))
if os.environ.get("FEDCAST_PEEK"):
    sys.meta_path.insert(0, Finder("fedcast.federation.flare.executor", peek))
