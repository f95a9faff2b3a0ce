"""Code shared by the conformance kits: checks of arguments and options of any kind of plug-in."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from fedcast import registry


@contextmanager
def unchanged(arrays: Iterable[Any], message: str = "an argument was changed in place") -> Iterator[None]:
    """Fail if an array has changed at the end of the block."""
    held = list(arrays)
    copies = [np.array(array) for array in held]
    yield
    assert all(map(np.array_equal, held, copies)), message


def check_declaration(value: registry.Plugin, options: Any) -> None:
    """Check that a plug-in has a summary, and that options are of the class that it declares."""
    assert value.summary, "the summary is empty"
    assert isinstance(options, value.options), f"options are {options!r}; expected {value.options.__name__}"
    check_options(value.options)


def check_options(options: type[Any]) -> None:
    """Check that options are a frozen dataclass of described fields with defaults within their limits."""
    assert dataclasses.is_dataclass(options), f"options are {options!r}; expected a frozen dataclass"
    defaults = options()
    for name, field in registry.option_fields(options).items():
        assert field.metadata.get("description"), f"option {name!r} has no description; declare it by registry.option"
        value = getattr(defaults, name)
        for limit, bound in field.metadata["limits"].items():
            kept = {"ge": value >= bound, "gt": value > bound, "le": value <= bound, "lt": value < bound}[limit]
            assert kept, f"option {name!r}: default {value!r} breaks its limit {limit}={bound}"
        try:
            setattr(defaults, name, value)
        except dataclasses.FrozenInstanceError:
            continue
        raise AssertionError("options can be changed; expected a frozen dataclass")
