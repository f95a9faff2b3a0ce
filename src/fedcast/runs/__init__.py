"""Runs: from a scenario to a finished run in a folder of its own, packs for other machines, and paired tests.

Most names are imported when first used, since they need PyTorch. `fedcast.sweep` and `fedcast.compare` do many runs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedcast.runs.versions import versions

if TYPE_CHECKING:
    from fedcast.runs.comparison import PairedTest, interval, paired_test
    from fedcast.runs.packing import pack, unpack
    from fedcast.runs.store import StoredRun, do_run, is_done, load_run, load_runs, run_folder

_MODULE_OF = {
    "PairedTest": "comparison",
    "StoredRun": "store",
    "do_run": "store",
    "interval": "comparison",
    "is_done": "store",
    "load_run": "store",
    "load_runs": "store",
    "pack": "packing",
    "paired_test": "comparison",
    "run_folder": "store",
    "unpack": "packing",
}

__all__ = [
    "PairedTest",
    "StoredRun",
    "do_run",
    "interval",
    "is_done",
    "load_run",
    "load_runs",
    "pack",
    "paired_test",
    "run_folder",
    "unpack",
    "versions",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'fedcast.runs' has no attribute {name!r}")
    return getattr(import_module(f"fedcast.runs.{_MODULE_OF[name]}"), name)
