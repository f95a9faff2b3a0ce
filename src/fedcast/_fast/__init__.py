"""Compiled kernels, and the choice between them and the interpreter.

Modules of kernels are imported by name (``from fedcast._fast import graph``), since `graph` imports numba.
"""

from __future__ import annotations

from fedcast._fast.kernels import compiled, run_kernel

__all__ = ["compiled", "run_kernel"]
