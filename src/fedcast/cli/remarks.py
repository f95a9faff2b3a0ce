"""What a person should know about a world made of their tables: what was assumed, and what looks like a wrong unit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from fedcast.plan.world import World

# Below these a value is hardly in the unit that its name says.
_DOUBTFUL = {"max_frequency_hz": (1e6, "Hz"), "up_rate_bps": (1e3, "bit/s"), "down_rate_bps": (1e3, "bit/s")}


def assumptions(world: World) -> list[str]:
    """What a plan from tables rests on that none of them says, each with the way to say it."""
    from fedcast.scenario.sections import USUAL_MODEL, WEIGHTS_OF_MODEL

    scenario = world.scenario
    own, training = scenario.devices, scenario.training
    rows = (
        (
            scenario.geometry.positions_file is None and _places_matter(world),
            f"places of users and base stations, drawn with seed {scenario.seed}",
            "--positions, or rates or SNR of your own in --links and --devices",
        ),
        (scenario.trust.links_file is None, f"links and closeness, drawn with seed {scenario.seed}", "--links"),
        (
            own.devices_file is None,
            f"all devices alike, {own.max_frequency_hz / 1e9:.3g} GHz and {own.energy_budget_j:.3g} J a round",
            "--devices",
        ),
        (
            training.model_weights is None and training.model == "auto",
            f"a model of {WEIGHTS_OF_MODEL[USUAL_MODEL]:,} weights",
            "training.model_weights",
        ),
        (
            scenario.data.bits_per_sample is None,
            f"{world.bits_per_sample:,.0f} bits for a shared sample",
            "data.bits_per_sample",
        ),
    )
    return [f"{what} ({way})" for assumed, what, way in rows if assumed]


def _places_matter(world: World) -> bool:
    """Whether any rate, between users or to a base station, comes from where they stand."""
    from fedcast.network import has_rates

    links, devices = world.scenario.trust.links_file, world.fleet.devices
    if links is None or not has_rates(links):
        return True
    up = (devices.up_rate_bps, devices.up_snr_db)
    down = (devices.down_rate_bps, devices.down_snr_db)
    measured = all(any(column is not None for column in way) for way in (up, down))
    return not measured and world.scenario.cellular.snr_db is None


def say_doubts(world: World) -> None:
    """Remark on values that look as if they were in another unit, and on thresholds that leave hardly a link."""
    for line in (*_slow_devices(world), *_dropped_links(world)):
        typer.echo(f"fedcast: {line}", err=True)


def _slow_devices(world: World) -> list[str]:
    lines = []
    for name, (least, unit) in _DOUBTFUL.items():
        values = getattr(world.fleet.devices, name)
        if values is not None and (slow := int((values < least).sum())):
            lines.append(
                f"{name}: {slow:,} of {len(values):,} devices have less than {least:,.0f} {unit} (the slowest "
                f"{values.min():.3g}); was it given in G{unit} or M{unit}?"
            )
    return lines


def _dropped_links(world: World) -> list[str]:
    """Links of a file that few users keep, threshold by threshold; the file is read again only then."""
    from fedcast.plan.world import network_of
    from fedcast.scenario import changed

    scenario, graph = world.scenario, world.graph
    if scenario.trust.links_file is None or (graph.degrees > 0).mean() >= 0.5:
        return []
    without = changed(scenario, {"sidelink.min_rate_bps": 0.0, "trust.min_closeness": 0.0})
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
