"""Reproduction of the figures and tables of arXiv 2406.09776 with fedcast: `REPRODUCTIONS` lists them.

`fedcast_paper.figures` has one module for each figure or table, `fedcast_paper.theory` the convergence bound. Names are
imported when first used: every fedcast command imports this package to find the command `reproduce`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedcast_paper.job import SCALES, Job, Reproduction, Scale
    from fedcast_paper.reproduction_result import Result, Verdict, load_result, result_path, save_result
    from fedcast_paper.reproductions import REPRODUCTIONS, draw_result, find_reproduction, make_result

_NAMES_IN = {
    "job": ("SCALES", "Job", "Reproduction", "Scale"),
    "reproductions": ("REPRODUCTIONS", "draw_result", "find_reproduction", "make_result"),
    "reproduction_result": ("Result", "Verdict", "load_result", "result_path", "save_result"),
}

__all__ = [
    "REPRODUCTIONS",
    "SCALES",
    "Job",
    "Reproduction",
    "Result",
    "Scale",
    "Verdict",
    "draw_result",
    "find_reproduction",
    "load_result",
    "make_result",
    "result_path",
    "save_result",
]


def __getattr__(name: str) -> Any:
    module = next((module for module, names in _NAMES_IN.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module 'fedcast_paper' has no attribute {name!r}")
    return getattr(import_module(f"fedcast_paper.{module}"), name)
