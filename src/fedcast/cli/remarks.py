"""Remarks on a world: what its tables contain, what is assumed, and which values seem to be in another unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from fedcast.formatting import pluralize

if TYPE_CHECKING:
    from rich.console import Console

    from fedcast.plan import World

_LISTED = 10
# A value below these is probably not in the unit of its name.
_DOUBTFUL = {"max_frequency_hz": (1e6, "Hz"), "up_rate_bps": (1e3, "bit/s"), "down_rate_bps": (1e3, "bit/s")}


def print_tables(console: Console, world: World) -> None:
    """Print what the tables contain about users, classes and devices."""
    from fedcast.cost import device_columns

    population, devices_file = world.population, world.scenario.devices.devices_file
    names = [*population.class_names[:_LISTED], *(["…"] if len(population.class_names) > _LISTED else [])]
    classes = pluralize(len(population.class_names), "class", "classes")
    users, samples = pluralize(population.num_users, "user"), pluralize(int(population.sizes.sum()), "sample")
    console.print("\nfrom your tables", style="bold")
    console.print(f"  {users}, {samples}, {classes}: {', '.join(names)}")
    if devices_file is not None:
        found = device_columns(devices_file)
        ignored = f"; unknown and ignored: {', '.join(found.ignored)}" if found.ignored else ""
        console.print(f"  devices: {', '.join(found.read) or 'no known column'}{ignored}")


def print_assumptions(console: Console, assumptions: Sequence[str]) -> None:
    """Print what is assumed, of a world or a plan, each with what would give it."""
    from rich.padding import Padding

    if assumptions:
        console.print("\nassumed (in brackets: what would give it)", style="bold")
    for line in assumptions:
        console.print(Padding(line, (0, 0, 0, 2), expand=False))


def print_doubts(world: World) -> None:
    """Print remarks on values that seem to be in another unit, and on thresholds that remove most links."""
    for line in (*_slow_devices(world), *_dropped_links(world)):
        typer.echo(f"fedcast: {line}", err=True)


def print_size_note(world: World) -> None:
    """Print a note if the size of the model differs from `training.model_weights`."""
    from fedcast.cost import model_size

    dataset = world.population.dataset
    size = model_size(world.scenario, dataset.spec if dataset else None)
    if size.counted is not None and size.note:
        typer.echo(f"fedcast: {size.note}", err=True)


def _slow_devices(world: World) -> list[str]:
    lines = []
    for name, (least, unit) in _DOUBTFUL.items():
        values = getattr(world.fleet.devices, name)
        if values is not None and (slow := int((values < least).sum())):
            lines.append(
                f"{name}: {slow:,} of {len(values):,} devices have less than {least:,.0f} {unit} (the slowest "
                f"{values.min():.3g}); is it in G{unit} or M{unit}?"
            )
    return lines


def _dropped_links(world: World) -> list[str]:
    """Return which threshold removes the links of a file, if most users have none."""
    from fedcast.plan import network_of
    from fedcast.scenario import with_overrides

    scenario, graph = world.scenario, world.graph
    if scenario.trust.links_file is None or (graph.degrees > 0).mean() >= 0.5:
        return []
    without = with_overrides(scenario, {"sidelink.min_rate_bps": 0.0, "trust.min_closeness": 0.0})
    given = network_of(without, world.layout)
    thresholds = (
        ("sidelink.min_rate_bps", given.rate_bps, scenario.sidelink.min_rate_bps, " bit/s", "fastest"),
        ("trust.min_closeness", given.closeness, scenario.trust.min_closeness, "", "closest"),
    )
    return [
        f"{int((values >= least).sum()) // 2:,} of {given.num_links:,} links meet {name} = {least:.6g} ({best} "
        f"{values.max():.6g}{unit})"
        for name, values, least, unit, best in thresholds
        if given.num_links and (values >= least).mean() < 0.5
    ]
