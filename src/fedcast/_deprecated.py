"""Old module names: an import of one warns and returns the module that replaced it, for one release."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module, util
from importlib.machinery import ModuleSpec
from types import ModuleType

# Old name to new name; submodules follow the longest old name that matches.
MOVED = {
    "fedcast.allocation.allocation_result": "fedcast.allocation.methods",
    "fedcast.allocation.approximation": "fedcast.allocation.engine",
    "fedcast.allocation.averages": "fedcast.allocation.average_skew",
    "fedcast.allocation.budget": "fedcast.allocation.oracle",
    "fedcast.allocation.delay": "fedcast.allocation.inner",
    "fedcast.allocation.delays": "fedcast.allocation.oracle",
    "fedcast.allocation.fit_files": "fedcast.rounds.fit_files",
    "fedcast.allocation.fitting": "fedcast.rounds.fitting",
    "fedcast.allocation.forms": "fedcast.rounds.forms",
    "fedcast.allocation.kernels": "fedcast._fast.allocation_kernels",
    "fedcast.allocation.limited": "fedcast.allocation.oracle",
    "fedcast.allocation.minimise": "fedcast.allocation.inner",
    "fedcast.allocation.offers": "fedcast.allocation.average_skew",
    "fedcast.allocation.oracle.delay_grid": "fedcast.allocation.oracle",
    "fedcast.allocation.oracle.limited": "fedcast.allocation.oracle",
    "fedcast.allocation.problem": "fedcast.allocation.allocation_problem",
    "fedcast.allocation.result": "fedcast.allocation.methods",
    "fedcast.allocation.round_delay": "fedcast.allocation.inner",
    "fedcast.allocation.rounds": "fedcast.rounds.model",
    "fedcast.allocation.schedules": "fedcast.allocation.engine",
    "fedcast.allocation.surrogate": "fedcast.allocation.inner",
    "fedcast.allocation.tables": "fedcast.allocation.oracle.cost_table",
    "fedcast.cli.compared_runs": "fedcast.cli.compare",
    "fedcast.cli.datasets": "fedcast.cli.scenarios",
    "fedcast.cli.exits": "fedcast.cli",
    "fedcast.cli.init": "fedcast.cli.scenarios",
    "fedcast.cli.inspect": "fedcast.cli.inspection",
    "fedcast.cli.network": "fedcast.cli.inspection",
    "fedcast.cli.plan_shown": "fedcast.cli.plan",
    "fedcast.cli.plugins": "fedcast.cli.scenarios",
    "fedcast.cli.report": "fedcast.cli.compare",
    "fedcast.cli.reproduce": "fedcast_paper.command",
    "fedcast.cli.run": "fedcast.cli.compare",
    "fedcast.cli.validate": "fedcast.cli.scenarios",
    "fedcast.clustering.compare": "fedcast.clustering.rules",
    "fedcast.clustering.composition": "fedcast.clustering.clustering_problem",
    "fedcast.clustering.conditions": "fedcast.clustering.explanation",
    "fedcast.clustering.conformance": "fedcast.testing.clustering",
    "fedcast.clustering.explain": "fedcast.clustering.explanation",
    "fedcast.clustering.greedy": "fedcast.clustering.gain",
    "fedcast.clustering.kernels": "fedcast._fast.kernels",
    "fedcast.clustering.order": "fedcast.clustering.selection",
    "fedcast.clustering.problem": "fedcast.clustering.clustering_problem",
    "fedcast.clustering.random": "fedcast.clustering.random_clusters",
    "fedcast.clustering.result": "fedcast.clustering.clustering_result",
    "fedcast.clustering.scan": "fedcast.clustering.selection",
    "fedcast.clustering.search": "fedcast._fast.blend_search",
    "fedcast.clustering.worlds": "fedcast.clustering.sample_problems",
    "fedcast.cost.computing": "fedcast.cost.round",
    "fedcast.cost.devices": "fedcast.cost.fleet",
    "fedcast.cost.energy_feasibility": "fedcast.cost.round",
    "fedcast.cost.feasibility": "fedcast.cost.round",
    "fedcast.cost.multicast": "fedcast.cost.task",
    "fedcast.cost.rounds": "fedcast.cost.round",
    "fedcast.data.counts": "fedcast.data.population",
    "fedcast.data.dataset_files": "fedcast.data.catalogue",
    "fedcast.data.files": "fedcast.data.catalogue",
    "fedcast.data.flwr": "fedcast.data.assignment",
    "fedcast.data.partitions.partition": "fedcast.data.partitions",
    "fedcast.data.partitions.sizes": "fedcast.data.partitions",
    "fedcast.data.synthetic": "fedcast.data.population",
    "fedcast.figures": "fedcast.report.figures",
    "fedcast.figures.class_change": "fedcast.report.figures.users",
    "fedcast.figures.class_dots": "fedcast.report.figures.users",
    "fedcast.figures.cluster_map": "fedcast.report.figures.maps",
    "fedcast.figures.delay_split": "fedcast.report.figures.training",
    "fedcast.figures.emd_change": "fedcast.report.figures.users",
    "fedcast.figures.leakage": "fedcast.report.figures.training",
    "fedcast.figures.learning": "fedcast.report.figures.training",
    "fedcast.figures.network_map": "fedcast.report.figures.maps",
    "fedcast.figures.output": "fedcast.report.save",
    "fedcast.figures.palette": "fedcast.report.colours",
    "fedcast.figures.user_energy": "fedcast.report.figures.users",
    "fedcast.graph": "fedcast.network",
    "fedcast.graph.csr": "fedcast.network.graph",
    "fedcast.graph.kernels": "fedcast._fast.graph_kernels",
    "fedcast.graph.links": "fedcast.network.graph",
    "fedcast.graph.lookup": "fedcast._fast.graph_kernels",
    "fedcast.graph.machine_code": "fedcast._fast.kernels",
    "fedcast.graph.pairs": "fedcast.network.build",
    "fedcast.heterogeneity": "fedcast.data.skew",
    "fedcast.io.user_tables": "fedcast.io.table_files",
    "fedcast.network.links_table": "fedcast.network.graph",
    "fedcast.network.pair_values": "fedcast.network.build",
    "fedcast.network.units": "fedcast.network.propagation",
    "fedcast.plan.document": "fedcast.plan.sharing_plan",
    "fedcast.plan.plan_json": "fedcast.plan.sharing_plan",
    "fedcast.plan.result": "fedcast.plan.sharing_plan",
    "fedcast.report.figures.classes": "fedcast.report.figures.users",
    "fedcast.report.markup": "fedcast.report.html",
    "fedcast.report.matplotlib_backend": "fedcast.report.save",
    "fedcast.report.numbers": "fedcast.formatting",
    "fedcast.report.page.html_page": "fedcast.report.page",
    "fedcast.report.page.summary_sections": "fedcast.report.page.result_sections",
    "fedcast.report.page.training_sections": "fedcast.report.page.result_sections",
    "fedcast.report.plots": "fedcast.report.figures",
    "fedcast.report.sections": "fedcast.report.page",
    "fedcast.report.shown": "fedcast.report.content",
    "fedcast.report.tables": "fedcast.report.export",
    "fedcast.report.write": "fedcast.report.export",
    "fedcast.runs.jobs": "fedcast.runs.executors",
    "fedcast.runs.processes": "fedcast.runs.executors",
    "fedcast.runs.ray_cluster": "fedcast.runs.executors",
    "fedcast.scenario.faults": "fedcast.scenario.describe",
    "fedcast.scenario.files": "fedcast.scenario.scenario_files",
    "fedcast.scenario.section": "fedcast.scenario.option_tables",
    "fedcast.sharing.kinds": "fedcast.sharing.ledger",
    "fedcast.study": "fedcast.runs",
    "fedcast.study.compare": "fedcast.runs.comparison",
    "fedcast.study.loggers": "fedcast.runs.trackers",
    "fedcast.study.reproduce": "fedcast_paper",
    "fedcast.study.rounds": "fedcast.runs.rounds_study",
    "fedcast.study.run": "fedcast.runs.prepare",
    "fedcast.study.sweep": "fedcast.runs.sweeps",
    "fedcast.study.versions": "fedcast.runs.package_versions",
    "fedcast.tables": "fedcast.io",
    "fedcast.tables.checks": "fedcast.io.table",
    "fedcast.tables.reading": "fedcast.io.table_files",
    "fedcast.tables.users": "fedcast.io.table_files",
    "fedcast.tables.writing": "fedcast.io.table_files",
    "fedcast.theory": "fedcast_paper.theory",
    "fedcast.theory.bound": "fedcast_paper.theory.bounds",
    "fedcast.theory.checks": "fedcast_paper.theory.constants",
    "fedcast.theory.drift": "fedcast_paper.theory.bounds",
    "fedcast.theory.errata": "fedcast_paper.theory.bounds",
    "fedcast.theory.forms": "fedcast_paper.theory.constants",
    "fedcast.theory.rounds": "fedcast_paper.theory.rounds_to_target",
    "fedcast.training.aggregate": "fedcast.training.engines.engine_protocol",
    "fedcast.training.algorithm": "fedcast.training.algorithms",
    "fedcast.training.batches": "fedcast.training.engines.schedule",
    "fedcast.training.choose": "fedcast.training.engines.choose",
    "fedcast.training.clock": "fedcast.training.history",
    "fedcast.training.convolution": "fedcast.training.engines.forward",
    "fedcast.training.engine": "fedcast.training.engines.engine_protocol",
    "fedcast.training.engines.sizing": "fedcast.training.engines.engine_protocol",
    "fedcast.training.engines.vmapped": "fedcast.training.engines.forward",
    "fedcast.training.evaluate": "fedcast.training.device_data",
    "fedcast.training.lane_buffers": "fedcast.training.engines.lane_buffers",
    "fedcast.training.lanes": "fedcast.training.engines.schedule",
    "fedcast.training.loop": "fedcast.training.engines.loop",
    "fedcast.training.participation": "fedcast.training.engines.schedule",
    "fedcast.training.run": "fedcast.training.trainer",
    "fedcast.training.sizing": "fedcast.training.engines.engine_protocol",
    "fedcast.training.stack": "fedcast.training.engines.forward",
    "fedcast.training.stacked": "fedcast.training.engines.stacked",
    "fedcast.training.vmapped": "fedcast.training.engines.forward",
    "fedcast.trust": "fedcast.network.trust",
    "fedcast.wireless": "fedcast.network",
    "fedcast.wireless.blockage": "fedcast.network.link_states",
    "fedcast.wireless.multicast": "fedcast.cost.task",
    "fedcast.wireless.states": "fedcast.network.link_states",
    "fedcast.wireless.uplink": "fedcast.cost.uplink",
    "fedcast.wording": "fedcast.formatting",
    "fedcast.world": "fedcast.plan.world",
    "fedcast.writing": "fedcast.io.atomic",
}


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
