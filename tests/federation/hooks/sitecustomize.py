"""Servers of operators that are not to be trusted.

FEDCAST_SNOOP: every message that the server forwards or receives is appended to that file, as it is.
FEDCAST_SWAP: a JSON file of names and public keys; heads are asked to share with these names under these keys.
"""

import importlib.abc
import importlib.machinery
import json
import os
import sys
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
    message = module._message
    keys = {
        name: bytes.fromhex(text) for name, text in json.loads(Path(os.environ["FEDCAST_SWAP"]).read_text()).items()
    }

    def swapped(call, request):
        if call == "share":
            request = {**request, "members": {**request["members"], **keys}}
        return message(call, request)

    module._message = swapped


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
