"""fedcast: federated learning on skewed data, made faster by planned data sharing.

Names are imported when first used, so that ``import fedcast`` costs next to nothing.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from fedcast import _deprecated
from fedcast._lazy import lazy_names

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
    from fedcast.runs import (
        compare,
        export_run,
        facets,
        gains,
        grid,
        load_run,
        load_runs,
        load_study,
        run_scenario,
        sweep,
        sweep_study,
        train_scenario,
    )
    from fedcast.scenario import Scenario, load_scenario, preset, to_toml, with_overrides

__version__ = "0.1.0"

# Old names of functions, which work for one release.
_RENAMED = {"changed": "with_overrides", "do_run": "run_scenario", "share": "mix_distributions"}

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
    "compare",
    "dataset_from_arrays",
    "describe",
    "export_run",
    "facets",
    "gains",
    "grid",
    "load_dataset",
    "load_plan",
    "load_run",
    "load_runs",
    "load_scenario",
    "load_study",
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
    "sweep_study",
    "to_toml",
    "train_scenario",
    "with_overrides",
    "write_report",
]

_deprecated.install()
_lazy_name = lazy_names(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        new = _RENAMED[name]
        message = f"fedcast.{name} was renamed; use fedcast.{new}. The old name will be removed in the next release"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        name = new
    return _lazy_name(name)


def __dir__() -> list[str]:
    return __all__
