"""Samples by user, as other tools store them, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcast.errors import DataError
from fedcast.formatting import shown_value
from fedcast.typing import Ints


class Samples(NamedTuple):
    """Inputs [n, ...] and labels [n]."""

    inputs: NDArray[Any]
    labels: Ints


@dataclass(frozen=True, eq=False)
class UserSamples:
    """Samples of all users and, if the tool stored any, those of the test set."""

    names: list[str]  #: of the users, as the tool calls them
    users: list[Samples]
    test: Samples | None = None
    class_names: tuple[str, ...] = ()


def checked(where: str, inputs: Any, labels: Any) -> Samples:
    """Return inputs as float32 or bytes, and labels as whole numbers; `where` names file and user in errors."""
    try:
        numbers, classes = np.asarray(inputs), np.asarray(labels)
    except ValueError:  # lists of different lengths
        raise DataError(f"{where}: samples have different shapes") from None
    if len(classes) == 0 and len(numbers) == 0:
        return Samples(np.zeros((0,), dtype=np.uint8), np.zeros(0, dtype=np.int64))
    if numbers.dtype.kind not in "iufb":
        first = np.ravel(numbers)[:1].tolist()
        raise DataError(f"{where}: expected samples of numbers, got {shown_value(first[0])}; text cannot be imported")
    if numbers.ndim < 2 or len(numbers) != len(classes) or classes.ndim != 1:
        raise DataError(f"{where}: inputs of shape {numbers.shape} and labels of shape {classes.shape}; expected pairs")
    whole = classes.dtype.kind in "iufb" and np.isfinite(classes) & (classes == np.rint(classes)) & (classes >= 0)
    if not np.all(whole):
        wrong = int(np.argmin(np.broadcast_to(whole, classes.shape)))
        raise DataError(f"{where}: sample {wrong} has label {shown_value(classes[wrong].item())}; expected 0, 1, 2, …")
    return Samples(numbers if numbers.dtype == np.uint8 else numbers.astype(np.float32), classes.astype(np.int64))


def joined(where: str, parts: Sequence[Samples], names: Sequence[str]) -> Samples:
    """Return the samples of several users or files as one; an error names the first whose samples differ in shape."""
    filled = [(part, name) for part, name in zip(parts, names, strict=True) if len(part.labels)]
    if not filled:
        raise DataError(f"{where}: no sample in it")
    shape, kind = filled[0][0].inputs.shape[1:], filled[0][0].inputs.dtype
    for part, name in filled:
        if (part.inputs.shape[1:], part.inputs.dtype) != (shape, kind):
            found = f"{part.inputs.dtype} of shape {part.inputs.shape[1:]}"
            raise DataError(f"{where}: samples of {name} are {found}, those of {filled[0][1]} {kind} of shape {shape}")
    return Samples(*(np.concatenate(arrays) for arrays in zip(*(part for part, _ in filled), strict=True)))
