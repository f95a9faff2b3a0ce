"""Run a loop where it is fastest: little work in the interpreter, much work compiled by numba.

A kernel is a plain function of numbers and arrays (alone or in named tuples) that writes into its last argument's
arrays; it may call other plain functions of its module. Below `INTERPRETED_STEPS` it runs as it is written, on
lists, which are several times faster than arrays there and need neither the import of numba nor a compilation.
Above, the same source is compiled once and kept on disk. Both ways do the same arithmetic in the same order, so a
rule has one text and one meaning.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Sequence
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from fedcast._fast.machine_code import machine_code

# About a tenth of a second in the interpreter: less than importing numba and loading a compiled kernel.
INTERPRETED_STEPS = 1_000_000

Kernel = Callable[..., Any]


def run(kernel: Kernel, inputs: Sequence[Any], outputs: Sequence[Any], *, steps: float) -> None:
    """Call ``kernel(*inputs, *outputs)``, which fills the arrays of `outputs` in place.

    Args:
        kernel: a plain function, see above.
        inputs: arrays, numbers and named tuples of them that it only reads.
        outputs: arrays and named tuples of them that it reads and writes.
        steps: rough number of innermost steps, which decides how it runs.

    Example:
        >>> def double(values, out):
        ...     for i in range(len(values)):
        ...         out[i] = 2 * values[i]
        >>> out = np.zeros(3)
        >>> run(double, [np.arange(3.0)], [out], steps=3)
        >>> out.tolist()
        [0.0, 2.0, 4.0]
    """
    if steps > INTERPRETED_STEPS:
        compiled(kernel)(*inputs, *outputs)
        return
    results = [_as_lists(output) for output in outputs]
    kernel(*map(_as_lists, inputs), *results)
    for output, result in zip(outputs, results, strict=True):
        _copy_back(output, result)


def compiled(kernel: Kernel) -> Kernel:
    """The kernel as machine code, compiled on first use and read from numba's cache on disk after that."""
    function: Kernel = getattr(_compiled_module(kernel.__module__), kernel.__name__)
    return function


@cache
def _compiled_module(name: str) -> ModuleType:
    """A second copy of a module whose functions are numba's, so that kernels find each other compiled."""
    original = sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, original.__file__)
    assert spec is not None
    assert spec.loader is not None
    copy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copy)
    for function_name, function in inspect.getmembers(copy, inspect.isfunction):
        if function.__module__ == name:
            setattr(copy, function_name, machine_code(function))
    return copy


def _as_lists(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple):
        return type(value)(*map(_as_lists, value))
    return value


def _copy_back(output: Any, result: Any) -> None:
    if isinstance(output, np.ndarray):
        output[...] = result
    elif isinstance(output, tuple):
        for part, new in zip(output, result, strict=True):
            _copy_back(part, new)
