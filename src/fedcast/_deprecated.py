"""Old names of modules and classes: using one warns and returns what replaced it, for one release."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module, util
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# New name to the names below ``fedcast`` that it replaces; submodules follow the longest old name that matches.
_REPLACED = {
    "fedcast._fast.allocation_kernels": "allocation.kernels",
    "fedcast._fast.blend_search": "clustering.search",
    "fedcast._fast.graph_kernels": "graph.kernels graph.lookup",
    "fedcast._fast.kernels": "clustering.kernels graph.machine_code",
    "fedcast.allocation.allocation_problem": "allocation.problem",
    "fedcast.allocation.average_skew": "allocation.averages allocation.offers",
    "fedcast.allocation.engine": "allocation.approximation allocation.schedules",
    "fedcast.allocation.inner": "allocation.delay allocation.minimise allocation.surrogate",
    "fedcast.allocation.methods": "allocation.result",
    "fedcast.allocation.oracle": "allocation.budget allocation.delays allocation.limited",
    "fedcast.allocation.oracle.cost_table": "allocation.tables",
    "fedcast.cli": "cli.exits",
    "fedcast.cli.arguments": "cli.options",
    "fedcast.cli.compare": "cli.comparison cli.report cli.run",
    "fedcast.cli.inspection": "cli.inspect cli.network",
    "fedcast.cli.plan": "cli.plan_shown",
    "fedcast.cli.scenarios": "cli.datasets cli.init cli.validate",
    "fedcast.cli.fitting": "cli.fit_rounds",
    "fedcast.clustering.clustering_problem": "clustering.composition clustering.problem",
    "fedcast.clustering.clustering_result": "clustering.result",
    "fedcast.clustering.explanation": "clustering.conditions clustering.explain",
    "fedcast.clustering.gain": "clustering.greedy",
    "fedcast.clustering.random_clusters": "clustering.random",
    "fedcast.clustering.rules": "clustering.compare",
    "fedcast.clustering.sample_problems": "clustering.worlds",
    "fedcast.clustering.selection": "clustering.order clustering.scan",
    "fedcast.cost.fleet": "cost.devices",
    "fedcast.cost.round": "cost.computing cost.feasibility cost.rounds",
    "fedcast.cost.task": "wireless.multicast",
    "fedcast.cost.uplink": "wireless.uplink",
    "fedcast.data.assignment": "data.flwr",
    "fedcast.data.catalogue": "data.files",
    "fedcast.data.partitions": "data.partitions.base data.partitions.sizes",
    "fedcast.data.population": "data.counts",
    "fedcast.data.skew": "heterogeneity",
    "fedcast.formatting": "report.numbers wording",
    "fedcast.io": "tables",
    "fedcast.io.atomic": "writing",
    "fedcast.io.table": "tables.checks",
    "fedcast.io.table_files": "tables.reading tables.users tables.writing",
    "fedcast.network": "graph wireless",
    "fedcast.network.build": "graph.pairs",
    "fedcast.network.graph": "graph.csr graph.links",
    "fedcast.network.link_states": "wireless.blockage wireless.states",
    "fedcast.network.propagation": "wireless.units",
    "fedcast.network.trust": "trust",
    "fedcast.plan.plan_document": "plan.document",
    "fedcast.plan.sharing_plan": "plan.result",
    "fedcast.plan.world": "world",
    "fedcast.report.colours": "figures.palette",
    "fedcast.report.content": "report.shown",
    "fedcast.report.report_files": "report.tables report.write",
    "fedcast.report.figures": "figures report.plots",
    "fedcast.report.figures.maps": "figures.cluster_map",
    "fedcast.report.figures.network_maps": "figures.network_map",
    "fedcast.report.figures.training": "figures.delay_split figures.leakage figures.learning",
    "fedcast.report.figures.users": "figures.class_change figures.class_dots figures.emd_change figures.user_energy "
    "report.plots.classes",
    "fedcast.report.html": "report.markup",
    "fedcast.report.page": "report.sections",
    "fedcast.report.save": "figures.output",
    "fedcast.rounds.fit_files": "allocation.fit_files",
    "fedcast.rounds.fitting": "allocation.fitting",
    "fedcast.rounds.forms": "allocation.forms",
    "fedcast.rounds.model": "allocation.rounds",
    "fedcast.runs": "study study.versions",
    "fedcast.runs.comparison": "study.compare",
    "fedcast.runs.executors": "study.processes study.ray_cluster",
    "fedcast.runs.prepare": "study.run",
    "fedcast.participation": "training.participation",
    "fedcast.runs.rounds_study": "study.rounds",
    "fedcast.runs.sweeps": "study.sweep",
    "fedcast.runs.trackers": "study.loggers",
    "fedcast.scenario.describe": "scenario.faults",
    "fedcast.scenario.scenario_files": "scenario.files",
    "fedcast.testing.clustering": "clustering.conformance",
    "fedcast.training.algorithms": "training.algorithm",
    "fedcast.training.device_data": "training.evaluate",
    "fedcast.training.engines.choose": "training.choose",
    "fedcast.training.engines.engine_protocol": "training.aggregate training.engine training.sizing",
    "fedcast.training.engines.forward": "training.convolution training.stack training.vmapped",
    "fedcast.training.engines.lane_buffers": "training.lane_buffers",
    "fedcast.training.engines.loop": "training.loop",
    "fedcast.training.engines.schedule": "training.batches training.lanes",
    "fedcast.training.engines.stacked": "training.stacked",
    "fedcast.training.history": "training.clock",
    "fedcast.training.trainer": "training.run",
    "fedcast_paper": "study.reproduce",
    "fedcast_paper.command": "cli.reproduce",
    "fedcast_paper.theory": "theory",
    "fedcast_paper.theory.bounds": "theory.bound theory.drift theory.errata",
    "fedcast_paper.theory.constants": "theory.checks theory.forms",
    "fedcast_paper.theory.rounds_to_target": "theory.rounds",
}
MOVED = {f"fedcast.{old}": new for new, names in _REPLACED.items() for old in names.split()}


class _Package(ModuleType):
    """A package in which the import of an old module does not hide a public name, as `fedcast.runs.sweep`."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and name in getattr(self, "__all__", ())):
            super().__setattr__(name, value)


class _OldNames:
    """A finder and loader of old names, asked last: it costs nothing until an old name is imported."""

    @classmethod
    def find_spec(cls, name: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG003
        return ModuleSpec(name, cls) if new_name(name) else None  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: ModuleSpec) -> None:
        """Let the import system create the module, which `exec_module` replaces."""

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        name = module.__name__
        new = new_name(name)
        assert new is not None
        message = f"module {name} was renamed; import {new}. The old name will be removed in the next release"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        try:
            sys.modules[name] = import_module(new)
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] != "fedcast_paper":
                raise
            hint = "which is not installed: run `pip install ./paper` in a clone of fedcast"
            raise ModuleNotFoundError(f"{name} is now {new} in the package fedcast-paper, {hint}", name=name) from None
        sys.modules[name.rpartition(".")[0]].__class__ = _Package
        # A submodule of an old package would otherwise be found on the path of the new one and loaded a second time.
        sys.meta_path.remove(_OldNames)
        sys.meta_path.insert(0, _OldNames)


def new_name(name: str) -> str | None:
    """Return the new name of a module, or None if it has none.

    Example:
        >>> new_name("fedcast.wireless.sidelink")
        'fedcast.network.sidelink'
    """
    for old in sorted(MOVED, key=len, reverse=True) if name.startswith("fedcast.") else ():
        if name == old or name.startswith(f"{old}."):
            new = MOVED[old] + name.removeprefix(old)
            return new if name == old or util.find_spec(new) else None
    return None


def install() -> None:
    """Make old module names importable."""
    if _OldNames not in sys.meta_path:
        sys.meta_path.append(_OldNames)


def renamed(package: str, classes: Mapping[str, type]) -> Callable[[str], Any]:
    """Return a package's `__getattr__` that warns of old names of classes."""

    def get_attribute(name: str) -> Any:
        if name not in classes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        warnings.warn(f"{package}.{name} is now {classes[name].__name__}", DeprecationWarning, stacklevel=2)
        return classes[name]

    return get_attribute
