"""fedcast network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedcast.cli.arguments import (
    Counts,
    DataDir,
    Links,
    Overrides,
    PictureWidth,
    Preset,
    ScenarioFile,
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
    scenario, population = read_with_counts(path, preset, overrides, counts, {"trust.links_file": links})
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
    from fedcast.cli.output import QUANTILES, plain_table, quantile_row
    from fedcast.formatting import pluralize

    graph, stations = world.graph, len(world.layout.base_stations_m)
    isolated = int((graph.degrees == 0).sum())
    table = plain_table(
        "",
        *QUANTILES,
        title=f"{graph.num_users:,} users, {pluralize(stations, 'base station')}, "
        f"{graph.num_links:,} links that meet both thresholds",
        caption=f"mean degree {graph.degrees.mean():.1f}, {pluralize(isolated, 'isolated user')}",
    )
    table.add_row("links of a user", *quantile_row(graph.degrees, ",.0f"))
    if graph.num_links:
        table.add_row("rate of a link, Mbit/s", *quantile_row(graph.rate_bps / 1e6, ",.3g"))
        table.add_row("closeness", *quantile_row(graph.closeness, ".2f"))
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
