"""fedcast: federated learning on skewed data, made faster by planned data sharing.

Names are imported when first used, so that ``import fedcast`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedcast.data import Dataset, Population, dataset_from_arrays, describe, load_dataset, make_population, populate
    from fedcast.data.counts import read_counts
    from fedcast.errors import FedcastError
    from fedcast.heterogeneity import Skew, average_emd, share, skew_of
    from fedcast.plan import SharingPlan, load_plan, make_plan, save_plan
    from fedcast.report import write_report
    from fedcast.scenario import Scenario, changed, load_scenario, preset, to_toml
    from fedcast.study.compare import compare
    from fedcast.study.run import train_scenario
    from fedcast.study.store import do_run, load_run, load_runs
    from fedcast.study.sweep import grid, sweep
    from fedcast.world import World, make_world

__version__ = "0.1.0"

_HOME_OF = {
    "Dataset": "data",
    "Population": "data",
    "dataset_from_arrays": "data",
    "describe": "data",
    "load_dataset": "data",
    "make_population": "data",
    "populate": "data",
    "read_counts": "data.counts",
    "FedcastError": "errors",
    "Skew": "heterogeneity",
    "average_emd": "heterogeneity",
    "share": "heterogeneity",
    "skew_of": "heterogeneity",
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
    "compare": "study.compare",
    "train_scenario": "study.run",
    "do_run": "study.store",
    "load_run": "study.store",
    "load_runs": "study.store",
    "grid": "study.sweep",
    "sweep": "study.sweep",
    "World": "world",
    "make_world": "world",
}

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
    "do_run",
    "grid",
    "load_dataset",
    "load_plan",
    "load_run",
    "load_runs",
    "load_scenario",
    "make_plan",
    "make_population",
    "make_world",
    "populate",
    "preset",
    "read_counts",
    "save_plan",
    "share",
    "skew_of",
    "sweep",
    "to_toml",
    "train_scenario",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'fedcast' has no attribute {name!r}")
    return getattr(import_module(f"fedcast.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
