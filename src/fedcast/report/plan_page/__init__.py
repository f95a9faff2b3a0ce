"""The report page of a plan; it needs no PyTorch."""

from __future__ import annotations

from pathlib import Path

from fedcast.io import write_file
from fedcast.plan import SharingPlan, World
from fedcast.report.plan_page import overview, tables
from fedcast.report.plan_page.bottleneck_section import bottleneck_section
from fedcast.report.plan_page.plan_content import PlanContent, gather_plan
from fedcast.report.shell import check_report_path, document

_SECTIONS = {
    "map": ("Map", overview.map_section),
    "time": ("Time", overview.time_section),
    "bottleneck": ("Bottleneck", bottleneck_section),
    "users": ("Users", tables.users_section),
    "rules": ("Rules", tables.rules_section),
    "left-out": ("Left out", tables.left_out_section),
    "assumed": ("Assumed", tables.assumed_section),
    "reproduce": ("Reproduce", tables.reproduce_section),
}


def plan_page(content: PlanContent) -> str:
    """Return the report of a plan as an HTML document."""
    found = {name: (title, section(content)) for name, (title, section) in _SECTIONS.items()}
    shown = {name: entry for name, entry in found.items() if entry[1]}
    sections = [overview.headline_section(content), *(markup for _, markup in shown.values())]
    return document(overview.headline(content), {name: title for name, (title, _) in shown.items()}, sections)


def write_plan_report(plan: SharingPlan, world: World, path: str | Path) -> Path:
    """Write a plan as one self-contained HTML file.

    Args:
        plan: made for this world.
        world: that it was made for; see `fedcast.plan.world_of_plan` for a plan that was read from a file.
        path: of an .html file.

    Example:
        >>> import tempfile
        >>> from fedcast import load_scenario, make_plan, make_world
        >>> world = make_world(load_scenario(overrides=["clustering.rule=gain", "training.local_epochs=1"]))
        >>> plan = make_plan(world.scenario, world=world)
        >>> page = write_plan_report(plan, world, Path(tempfile.mkdtemp()) / "plan.html")
        >>> "Who shares with whom" in page.read_text(encoding="utf-8")
        True
    """
    path = Path(path)
    check_report_path(path)
    return write_file(path, plan_page(gather_plan(plan, world)))
