"""Runs: prepare and train a scenario, run folders, sweeps, packs for other machines, comparisons, trackers.

Most names are imported when first used, since they need PyTorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedcast.runs.package_versions import versions

if TYPE_CHECKING:
    from fedcast.runs.comparison import (
        Interval,
        PairedTest,
        Row,
        Score,
        Strategy,
        compare,
        comparison_table,
        interval,
        paired_test,
        score,
    )
    from fedcast.runs.facts import Facts, facts_of, tables_of
    from fedcast.runs.packing import pack, unpack
    from fedcast.runs.prepare import PreparedRun, TrainedRun, prepare_run, train_prepared, train_scenario
    from fedcast.runs.rounds_study import RoundsRun, fit_runs, load_rounds_runs, run_rounds_grid, save_rounds_runs
    from fedcast.runs.store import StoredRun, is_done, load_run, load_runs, reset_run, run_folder, run_scenario
    from fedcast.runs.sweeps import combinations, grid, sweep
    from fedcast.runs.trackers import log_run, log_runs, log_targets

_NAMES_IN = {
    "comparison": (
        "Interval", "PairedTest", "Row", "Score", "Strategy", "compare", "comparison_table", "interval", "paired_test",
        "save_rounds_runs",
    "score",
    ),
    "facts": ("Facts", "facts_of", "tables_of"),
    "packing": ("pack", "unpack"),
    "prepare": ("PreparedRun", "TrainedRun", "prepare_run", "train_prepared", "train_scenario"),
    "rounds_study": ("RoundsRun", "fit_runs", "load_rounds_runs", "run_rounds_grid", "save_rounds_runs"),
    "store": ("StoredRun", "is_done", "load_run", "load_runs", "reset_run", "run_folder", "run_scenario"),
    "sweeps": ("combinations", "grid", "sweep"),
    "trackers": ("log_run", "log_runs", "log_targets"),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _NAMES_IN.items() for name in names}

__all__ = [
    "Facts",
    "Interval",
    "PairedTest",
    "PreparedRun",
    "RoundsRun",
    "Row",
    "Score",
    "StoredRun",
    "Strategy",
    "TrainedRun",
    "combinations",
    "compare",
    "comparison_table",
    "facts_of",
    "fit_runs",
    "grid",
    "interval",
    "is_done",
    "load_rounds_runs",
    "load_run",
    "load_runs",
    "log_run",
    "log_runs",
    "log_targets",
    "pack",
    "paired_test",
    "prepare_run",
    "reset_run",
    "run_folder",
    "run_rounds_grid",
    "run_scenario",
    "save_rounds_runs",
    "score",
    "sweep",
    "tables_of",
    "train_prepared",
    "train_scenario",
    "unpack",
    "versions",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'fedcast.runs' has no attribute {name!r}")
    return getattr(import_module(f"fedcast.runs.{_MODULE_OF[name]}"), name)
