"""fedcast network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedcast.cli.options import (
    Counts,
    DataDir,
    Links,
    Overrides,
    PictureWidth,
    Preset,
    ScenarioFile,
    as_overrides,
    read_with_counts,
)

if TYPE_CHECKING:
    from rich.table import Table

    from fedcast.cost import Feasibility
    from fedcast.plan import World

_LISTED = 10

Picture = Annotated[Path | None, typer.Option(help="Draw the map of users and links: .png, .svg or .pdf.")]


def network(
    path: ScenarioFile = None,
    preset: Preset = None,
    overrides: Overrides = None,
    data_dir: DataDir = None,
    counts: Counts = None,
    links: Links = None,
    picture: Picture = None,
    width: PictureWidth = "screen",
) -> None:
    """Show who can share with whom, what a round costs, and who cannot take part."""
    from fedcast.cli.output import screen
    from fedcast.cli.remarks import print_doubts
    from fedcast.cost import feasibility
    from fedcast.plan import make_world
    from fedcast.report import check_figure_path, network_figure, network_map, save_figure

    if picture is not None:
        check_figure_path(picture, width)
    own_links = as_overrides({"trust.links_file": links})
    scenario, population = read_with_counts(path, preset, [*own_links, *(overrides or [])], counts)
    world = make_world(scenario, data_dir, population)
    print_doubts(world)
    report = feasibility(world.fleet, world.skew.sizes)
    console = screen()
    console.print(_summary(world))
    console.print(_round(world, report))
    for line in _infeasible(report):
        console.print(line)
    if picture is not None:
        figure = network_figure(network_map(world.layout, world.graph))
        console.print(f"\ndrew {save_figure(figure, picture, width)}")


def _summary(world: World) -> Table:
    import numpy as np
    from rich.table import Table

    from fedcast.formatting import pluralize

    graph, stations = world.graph, len(world.layout.base_stations_m)
    isolated = int((graph.degrees == 0).sum())
    table = Table(
        "", "min", "10 %", "median", "90 %", "max", box=None, header_style="dim", pad_edge=False,
        title=f"{graph.num_users:,} users, {pluralize(stations, 'base station')}, "
        f"{graph.num_links:,} links that meet both thresholds",
        title_style="bold", title_justify="left",
        caption=f"mean degree {graph.degrees.mean():.1f}, {pluralize(isolated, 'isolated user')}",
        caption_justify="left",
    )  # fmt: skip
    for column in table.columns[1:]:
        column.justify = "right"
    levels = [0, 0.1, 0.5, 0.9, 1]
    rows: list[tuple[str, Any, float, str]] = [("links of a user", graph.degrees, 1.0, ",.0f")]
    if graph.num_links:
        rows += [("rate of a link, Mbit/s", graph.rate_bps, 1e6, ",.3g"), ("closeness", graph.closeness, 1.0, ".2f")]
    for name, values, unit, form in rows:
        table.add_row(name, *(format(value / unit, form) for value in np.quantile(values, levels)))
    return table


def _round(world: World, report: Feasibility) -> str:
    from fedcast.cost import round_cost

    able = report.feasible
    if not able.any():
        return "\nno user can take part in a round"
    cost = round_cost(world.fleet.of(able), world.skew.sizes[able])
    down, compute, up = cost.phases_s
    who = "all users" if able.all() else f"the {int(able.sum()):,} users that can take part"
    return (
        f"\na round of {who} takes {cost.round_s:.3g} s (download {down:.3g}, compute {compute:.3g}, upload {up:.3g}) "
        f"and {cost.energy_j.sum():.3g} J"
    )


def _infeasible(report: Feasibility) -> list[str]:
    users = report.infeasible_users
    if not len(users):
        return ["every user can take part within its energy budget"]
    lines = [f"{len(users):,} users cannot take part within their energy budget:"]
    lines += [f"  {report.explain(int(user))}" for user in users[:_LISTED]]
    if len(users) > _LISTED:
        lines.append(f"  … and {len(users) - _LISTED:,} more")
    return [*lines, f"devices.energy_budget_j = {report.enough_j:g} would do for all"]
