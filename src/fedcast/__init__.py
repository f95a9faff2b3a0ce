"""fedcast: federated learning on skewed data, made faster by planned data sharing.

Names are imported when first used, so that ``import fedcast`` costs next to nothing.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedcast import _deprecated

if TYPE_CHECKING:
    from fedcast.data import (
        Dataset,
        Population,
        Skew,
        average_emd,
        dataset_from_arrays,
        describe,
        load_dataset,
        make_population,
        mix_distributions,
        populate,
        read_counts,
        skew_of,
    )
    from fedcast.errors import FedcastError
    from fedcast.plan import SharingPlan, World, load_plan, make_plan, make_world, save_plan
    from fedcast.report import write_report
    from fedcast.runs import compare, grid, load_run, load_runs, run_scenario, sweep, train_scenario
    from fedcast.scenario import Scenario, changed, load_scenario, preset, to_toml

__version__ = "0.1.0"

_HOME_OF = {
    "Dataset": "data",
    "Population": "data",
    "dataset_from_arrays": "data",
    "describe": "data",
    "load_dataset": "data",
    "make_population": "data",
    "populate": "data",
    "read_counts": "data",
    "FedcastError": "errors",
    "Skew": "data",
    "average_emd": "data",
    "mix_distributions": "data",
    "skew_of": "data",
    "SharingPlan": "plan",
    "load_plan": "plan",
    "make_plan": "plan",
    "save_plan": "plan",
    "write_report": "report",
    "Scenario": "scenario",
    "changed": "scenario",
    "load_scenario": "scenario",
    "preset": "scenario",
    "to_toml": "scenario",
    "compare": "runs.comparison",
    "train_scenario": "runs.prepare",
    "load_run": "runs.store",
    "load_runs": "runs.store",
    "run_scenario": "runs.store",
    "grid": "runs.sweeps",
    "sweep": "runs.sweeps",
    "World": "plan.world",
    "make_world": "plan.world",
}

# Old names of functions, which work for one release.
_RENAMED = {"do_run": "run_scenario", "share": "mix_distributions"}

__all__ = [
    "Dataset",
    "FedcastError",
    "Population",
    "Scenario",
    "SharingPlan",
    "Skew",
    "World",
    "__version__",
    "average_emd",
    "changed",
    "compare",
    "dataset_from_arrays",
    "describe",
    "grid",
    "load_dataset",
    "load_plan",
    "load_run",
    "load_runs",
    "load_scenario",
    "make_plan",
    "make_population",
    "make_world",
    "mix_distributions",
    "populate",
    "preset",
    "read_counts",
    "run_scenario",
    "save_plan",
    "skew_of",
    "sweep",
    "to_toml",
    "train_scenario",
    "write_report",
]


_deprecated.install()


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        new = _RENAMED[name]
        message = f"fedcast.{name} was renamed; use fedcast.{new}. The old name will be removed in the next release"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        name = new
    if name not in _HOME_OF:
        raise AttributeError(f"module 'fedcast' has no attribute {name!r}")
    return getattr(import_module(f"fedcast.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
