"""Runs: prepare and train a scenario, run folders, sweeps, packs for other machines, comparisons, trackers.

Most names are imported when first used, since they need PyTorch.
"""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from fedcast import __version__
from fedcast._lazy import lazy_names

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
    from fedcast.runs.gain_parts import Gain, gains, gains_table
    from fedcast.runs.packing import pack, unpack
    from fedcast.runs.prepare import PreparedRun, TrainedRun, clock_of, prepare_run, train_prepared, train_scenario
    from fedcast.runs.rounds_study import RoundsRun, fit_runs, load_rounds_runs, run_rounds_grid, save_rounds_runs
    from fedcast.runs.store import (
        StoredRun,
        is_done,
        load_run,
        load_runs,
        reset_run,
        run_folder,
        run_scenario,
        store_run,
    )
    from fedcast.runs.sweeps import combinations, grid, sweep
    from fedcast.runs.trackers import log_run, log_runs, log_targets

__all__ = [
    "Facts",
    "Gain",
    "Interval",
    "PairedTest",
    "PreparedRun",
    "RoundsRun",
    "Row",
    "Score",
    "StoredRun",
    "Strategy",
    "TrainedRun",
    "clock_of",
    "combinations",
    "compare",
    "comparison_table",
    "facts_of",
    "fit_runs",
    "gains",
    "gains_table",
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
    "store_run",
    "sweep",
    "tables_of",
    "train_prepared",
    "train_scenario",
    "unpack",
    "versions",
]

_PACKAGES = ("torch", "numpy", "scipy", "numba", "scikit-learn")
__getattr__ = lazy_names(__name__, __file__)


def versions(*more: str) -> dict[str, str]:
    """Return the versions of Python, fedcast, the packages it computes with, and more by name.

    Example:
        >>> list(versions("no-such-package"))[:2], versions("no-such-package")["no-such-package"]
        (['python', 'fedcast'], 'absent')
    """
    found = {"python": platform.python_version(), "fedcast": __version__}
    for package in (*_PACKAGES, *more):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "absent"
    return found
