"""Python functions as machine code, by numba, which is imported only when one is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])


def machine_code(function: Function) -> Function:
    """`numba.njit`, kept on disk where there is a place for it, so that only its first use waits for the compiler."""
    import numba

    try:
        return cast("Function", numba.njit(cache=True)(function))
    except RuntimeError:
        # Neither the package's folder nor the user's cache can be written: compile anew in every process.
        return cast("Function", numba.njit(function))
