"""Run loops in the interpreter or compiled by numba, whichever is faster for their size.

A kernel is a plain function of numbers and arrays (alone or in named tuples) that writes into the arrays of its last
arguments; it may call other plain functions of its module. Below `INTERPRETED_STEPS` it runs in the interpreter on
lists, which are several times faster than arrays there and need neither the import of numba nor a compilation.
Once all its calls in a process are above that, the same source is compiled once and cached on disk.
Both do the same arithmetic in the same order, so results are identical.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from types import ModuleType
from typing import Any, TypeVar, cast

import numpy as np

# About 0.1 s in the interpreter, less than importing numba and loading a compiled kernel takes.
INTERPRETED_STEPS = 1_000_000
# With numba imported already, loading a kernel takes a tenth of that time.
_WITH_NUMBA = 0.1

Kernel = Callable[..., Any]
Function = TypeVar("Function", bound=Callable[..., Any])
_spent: defaultdict[Kernel, float] = defaultdict(float)  # steps of all calls of each kernel in this process


def run_kernel(kernel: Kernel, inputs: Sequence[Any], outputs: Sequence[Any], *, steps: float) -> None:
    """Call ``kernel(*inputs, *outputs)``, which fills the arrays of `outputs` in place.

    Both are arrays and named tuples of them, `inputs` also numbers. `steps` is the approximate number of innermost
    steps, which determines how the kernel runs.

    Example:
        >>> def double(values, out):
        ...     for i in range(len(values)):
        ...         out[i] = 2 * values[i]
        >>> out = np.zeros(3)
        >>> run_kernel(double, [np.arange(3.0)], [out], steps=3)
        >>> out.tolist()
        [0.0, 2.0, 4.0]
    """
    # A kernel that is called again and again is worth its import too.
    _spent[kernel] += steps
    if _spent[kernel] > INTERPRETED_STEPS * (_WITH_NUMBA if "numba" in sys.modules else 1.0):
        compiled(kernel)(*inputs, *outputs)
        return
    results = [_as_lists(output) for output in outputs]
    kernel(*map(_as_lists, inputs), *results)
    for output, result in zip(outputs, results, strict=True):
        _copy_back(output, result)


def compiled(kernel: Kernel) -> Kernel:
    """Return the kernel compiled by numba: on first use, later from the cache on disk."""
    function: Kernel = getattr(_compiled_module(kernel.__module__), kernel.__name__)
    return function


@cache
def _compiled_module(name: str) -> ModuleType:
    """Return a second copy of a module with compiled functions, so that kernels call each other compiled."""
    original = sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, original.__file__)
    assert spec is not None
    assert spec.loader is not None
    copy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copy)
    for function_name, function in inspect.getmembers(copy, inspect.isfunction):
        if function.__module__ == name:
            setattr(copy, function_name, njit(function))
    return copy


def njit(function: Function) -> Function:
    """Return the function compiled by `numba.njit`, cached on disk if possible; numba is imported on first use."""
    import numba

    try:
        return cast("Function", numba.njit(cache=True)(function))
    except RuntimeError:
        # Neither the folder of the package nor the cache folder is writable: compile in every process.
        return cast("Function", numba.njit(function))


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
