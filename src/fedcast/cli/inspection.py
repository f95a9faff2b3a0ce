"""The commands `fedcast inspect` and `fedcast network`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedcast.cli import arguments
from fedcast.cli.output import plain_table, screen
from fedcast.cli.remarks import print_assumptions, print_doubts
from fedcast.formatting import pluralize, quantity

if TYPE_CHECKING:
    from rich.table import Table

    from fedcast.cost import Feasibility
    from fedcast.data import Population, Skew
    from fedcast.plan import World

_LISTED = 10
_QUANTILES = {"min": 0.0, "10 %": 0.1, "median": 0.5, "90 %": 0.9, "max": 1.0}


def inspect(
    path: arguments.ScenarioFile = None,
    preset: arguments.Preset = None,
    overrides: arguments.Overrides = None,
    data_dir: arguments.DataDir = None,
    counts: arguments.Counts = None,
    picture: Annotated[Path | None, typer.Option(help="Draw samples per class and user: .png, .svg or .pdf.")] = None,
    width: arguments.PictureWidth = "screen",
) -> None:
    """Show how data are distributed over users, and their skew."""
    from fedcast.data import describe, make_population, skew_of
    from fedcast.report import check_figure_path, class_dots, class_dots_figure, save_figure

    if picture is not None:
        check_figure_path(picture, width)
    scenario, population = arguments.read_with_counts(path, preset, overrides, counts)
    if population is None:
        population = make_population(scenario.data, scenario.seed, data_dir)
    skew = skew_of(describe(population, scenario.data, scenario.seed))
    title = f"{scenario.data.dataset}, {scenario.data.partition}" if counts is None else counts.name
    console = screen()
    console.print(_skew_table(title, population, skew))
    if picture is not None:
        dots = class_dots(population.counts, skew.emd, population.class_names, names=population.names)
        figure = class_dots_figure(dots, f"Samples per class and user: {title}")
        console.print(f"\ndrew {save_figure(figure, picture, width)}")


def _skew_table(title: str, population: Population, skew: Skew) -> Table:
    from fedcast.data import average_emd, average_js, average_kl, js_divergence, kl_divergence

    held = (population.counts > 0).sum(axis=1)
    given = int(population.sizes.sum())
    left = 0 if population.dataset is None else len(population.dataset) - given
    caption = (
        f"{pluralize(population.num_users, 'user')} hold{'s' if population.num_users == 1 else ''} "
        f"{pluralize(given, 'sample')}"
        + (f", {left:,} go{'es' if left == 1 else ''} to nobody" if left else "")
        + "; averages of D_EMD, KL and JS are weighted by size"
    )
    table = plain_table("", *_QUANTILES, "average", title=title, caption=caption)
    rows = (
        ("samples of a user", population.sizes, f"{population.sizes.mean():,.1f}", ",.0f"),
        ("classes of a user", held, f"{held.mean():.1f}", ".0f"),
        ("D_EMD (0 to 2)", skew.emd, f"{average_emd(skew):.3f}", ".3f"),
        ("KL, nats", kl_divergence(skew.distributions, skew.global_distribution), f"{average_kl(skew):.3f}", ".3f"),
        ("JS, nats", js_divergence(skew.distributions, skew.global_distribution), f"{average_js(skew):.3f}", ".3f"),
    )
    for name, values, average, form in rows:
        table.add_row(name, *_quantiles(values, form), average)
    return table


def network(
    path: arguments.ScenarioFile = None,
    preset: arguments.Preset = None,
    overrides: arguments.Overrides = None,
    data_dir: arguments.DataDir = None,
    counts: arguments.Counts = None,
    links: arguments.Links = None,
    positions: arguments.Positions = None,
    base_stations: arguments.BaseStations = None,
    devices: arguments.DeviceFile = None,
    picture: Annotated[Path | None, typer.Option(help="Draw the map of users and links: .png, .svg or .pdf.")] = None,
    width: arguments.PictureWidth = "screen",
) -> None:
    """Show who can share with whom, what a round costs, and who cannot take part."""
    from fedcast.cost import feasibility
    from fedcast.plan import make_world
    from fedcast.report import check_figure_path, network_figure, network_map, save_figure

    if picture is not None:
        check_figure_path(picture, width)
    tables = {"links": links, "positions": positions, "base_stations": base_stations, "devices": devices}
    scenario, population = arguments.read_with_counts(path, preset, overrides, counts, **tables)
    world = make_world(scenario, data_dir, population)
    print_doubts(world)
    report = feasibility(world.fleet, world.skew.sizes)
    console = screen()
    console.print(_graph_table(world))
    console.print(_round(world, report))
    for line in _infeasible(report):
        console.print(line)
    print_assumptions(console, world.assumptions)
    if picture is not None:
        figure = network_figure(network_map(world.layout, world.graph, schematic=not world.places_known))
        console.print(f"\ndrew {save_figure(figure, picture, width)}")


def _graph_table(world: World) -> Table:
    graph, stations = world.graph, len(world.layout.base_stations_m)
    isolated = int((graph.degrees == 0).sum())
    table = plain_table(
        "",
        *_QUANTILES,
        title=f"{pluralize(graph.num_users, 'user')}, {pluralize(stations, 'base station')}, "
        f"{pluralize(graph.num_links, 'link')} that meet{'s' if graph.num_links == 1 else ''} both thresholds",
        caption=f"mean degree {graph.degrees.mean():.1f}, {pluralize(isolated, 'isolated user')}",
    )
    table.add_row("links of a user", *_quantiles(graph.degrees, ",.0f"))
    if graph.num_links:
        table.add_row("rate of a link, Mbit/s", *_quantiles(graph.rate_bps / 1e6, ",.3g"))
        table.add_row("closeness", *_quantiles(graph.closeness, ".2f"))
    return table


def _round(world: World, report: Feasibility) -> str:
    from fedcast.cost import round_cost

    able = report.feasible
    if not able.any():
        return "\nno user can take part in a round"
    cost = round_cost(world.fleet.of(able), world.skew.sizes[able])
    who = "all users" if able.all() else f"the {pluralize(int(able.sum()), 'user')} that can take part"
    phases = zip(("download", "compute", "upload"), cost.phases_s, strict=True)
    parts = ", ".join(f"{name} {quantity(seconds, 's')}" for name, seconds in phases)
    energy = quantity(float(cost.energy_j.sum()), "J")
    return f"\na round of {who} takes {quantity(cost.round_s, 's')} ({parts}) and {energy}"


def _infeasible(report: Feasibility) -> list[str]:
    users = report.infeasible_users
    if not len(users):
        return ["every user can take part within its energy budget"]
    whose = "its" if len(users) == 1 else "their"
    lines = [f"{pluralize(len(users), 'user')} cannot take part within {whose} energy budget:"]
    lines += [f"  {report.explain(int(user))}" for user in users[:_LISTED]]
    if len(users) > _LISTED:
        lines.append(f"  … and {len(users) - _LISTED:,} more")
    return [
        *lines,
        f"devices.energy_budget_j = {report.enough_j:g} would do for all; where the devices table has a column "
        "energy_budget_j, change it there",
    ]


def _quantiles(values: Any, form: str) -> list[str]:
    import numpy as np

    return [format(quantile, form) for quantile in np.quantile(values, list(_QUANTILES.values()))]
