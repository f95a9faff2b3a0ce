"""Messages as bytes: a JSON text and the bytes of its arrays.

An engine carries bytes and needs to know nothing else; a device reads plain values and never objects of an engine.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedcast.errors import FedcastError

_DTYPES = ("<f2", "<f4", "<f8", "<i8")
_BYTES, _ARRAY = "$bytes", "$array"


def encode(message: Mapping[str, Any]) -> bytes:
    """Return a message of plain values, bytes and arrays as bytes.

    Example:
        >>> decode(encode({"name": "a", "keys": b"k", "weights": [np.ones(2)]}))
        {'name': 'a', 'keys': b'k', 'weights': [array([1., 1.])]}
    """
    parts: list[bytes] = []

    def plain(value: Any) -> Any:
        if isinstance(value, bytes):
            parts.append(value)
            return {_BYTES: len(value)}
        if isinstance(value, np.ndarray):
            stored = np.ascontiguousarray(value, value.dtype.newbyteorder("<"))
            parts.append(stored.tobytes())
            return {_ARRAY: [stored.dtype.str, list(value.shape)]}
        if isinstance(value, Mapping):
            return {str(key): plain(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [plain(each) for each in value]
        return value

    text = json.dumps(plain(message), allow_nan=False).encode()
    return b"".join([len(text).to_bytes(4, "big"), text, *parts])


def decode(content: object) -> dict[str, Any]:
    """Return the message that `encode` wrote; anything else is an error."""
    if not isinstance(content, bytes | bytearray | memoryview):
        raise FedcastError("invalid message: expected bytes")
    view = memoryview(content)
    start = 4 + int.from_bytes(view[:4], "big")
    place = start

    def taken(size: int) -> memoryview:
        nonlocal place
        if size < 0 or place + size > len(view):
            raise ValueError("it is cut off")
        place += size
        return view[place - size : place]

    def restored(value: Any) -> Any:
        if isinstance(value, list):
            return [restored(each) for each in value]
        if not isinstance(value, dict):
            return value
        if value.keys() == {_BYTES}:
            return bytes(taken(operator.index(value[_BYTES])))
        if value.keys() == {_ARRAY}:
            dtype, shape = value[_ARRAY]
            if dtype not in _DTYPES or not all(isinstance(size, int) and size >= 0 for size in shape):
                raise ValueError(f"invalid array {dtype}{shape}")
            size = math.prod(shape) * np.dtype(dtype).itemsize
            return np.frombuffer(taken(size), dtype).reshape(shape).copy()
        return {key: restored(each) for key, each in value.items()}

    try:
        message = restored(json.loads(bytes(view[4:start])))
        if not isinstance(message, dict) or place != len(view):
            raise ValueError("it is not a message")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise FedcastError(f"invalid message: {error}") from None
    return message
