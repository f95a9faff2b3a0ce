"""Remarks on tables that you give: what is assumed, and which values seem to be in another unit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from fedcast.formatting import pluralize

if TYPE_CHECKING:
    from rich.console import Console

    from fedcast.plan import World

_LISTED = 10
# A value below these is probably not in the unit of its name.
_DOUBTFUL = {"max_frequency_hz": (1e6, "Hz"), "up_rate_bps": (1e3, "bit/s"), "down_rate_bps": (1e3, "bit/s")}


def print_assumptions(console: Console, world: World) -> None:
    """Print what the tables contain about users, classes and devices, and what is assumed."""
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
    if lines := _assumptions(world):
        console.print("assumed, since no table or parameter gives it", style="bold")
        for line in lines:
            console.print(f"  {line}")


def _assumptions(world: World) -> list[str]:
    """Return what a plan from tables assumes, each with the option or parameter that sets it."""
    from fedcast.cost import model_size
    from fedcast.scenario import model_name

    scenario, own = world.scenario, world.scenario.devices
    drawn = f"drawn with seed {scenario.seed}"
    instead = [] if scenario.geometry.positions_file is not None else _instead_of_positions(world)
    device = f"{own.max_frequency_hz / 1e9:.3g} GHz and {own.energy_budget_j:.3g} J per round"
    size = model_size(scenario)
    assumed = scenario.training.model_weights is None and size.counted is None
    bits = f"{world.bits_per_sample:,.0f} bits per shared sample"
    rows = (
        (instead, f"positions of users and base stations, {drawn}", f"--positions, or {' and '.join(instead)}"),
        (scenario.trust.links_file is None, f"links and closeness, {drawn}", "--links"),
        (own.devices_file is None, f"the same device for all: {device}", "--devices"),
        (assumed, f"a model of {size.weights:,} weights, {model_name(scenario)}", "training.model_weights"),
        (scenario.data.bits_per_sample is None, bits, "data.bits_per_sample"),
    )
    return [f"{what} ({way})" for assumed, what, way in rows if assumed]


def _instead_of_positions(world: World) -> list[str]:
    """Return columns that would replace the rates, between users and to base stations, that depend on positions."""
    from fedcast.network import has_rates

    links, devices = world.scenario.trust.links_file, world.fleet.devices
    instead = [] if links is not None and has_rates(links) else ["rate_bps in --links"]
    up = (devices.up_rate_bps, devices.up_snr_db)
    down = (devices.down_rate_bps, devices.down_snr_db)
    measured = all(any(column is not None for column in way) for way in (up, down))
    if not measured and world.scenario.cellular.snr_db is None:
        instead.append("rates or SNR of upload and download in --devices")
    return instead


def print_doubts(world: World) -> None:
    """Print remarks on values that seem to be in another unit, and on thresholds that remove most links."""
    for line in (*_slow_devices(world), *_dropped_links(world)):
        typer.echo(f"fedcast: {line}", err=True)


def print_size_note(world: World) -> None:
    """Print a note if the size of the model was assumed, or differs from `training.model_weights`."""
    from fedcast.cost import model_size

    dataset = world.population.dataset
    if note := model_size(world.scenario, dataset.spec if dataset else None).note:
        typer.echo(f"fedcast: {note}", err=True)


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
