"""Assumptions of the network where no table gives values: positions, base stations, links and rates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedcast.formatting import pluralize
from fedcast.network.graph import has_rates

if TYPE_CHECKING:
    from fedcast.network.geometry import Layout
    from fedcast.scenario import Scenario


def network_assumptions(scenario: Scenario, layout: Layout, *, measured: bool = False) -> tuple[str, ...]:
    """Return what is assumed of positions, base stations and links, each with what would give it.

    Positions count only as far as rates or cells follow from them.

    Args:
        scenario: all parameters.
        layout: the positions of its users and base stations.
        measured: whether rates or SNR of both upload and download are given.

    Example:
        >>> from fedcast.network import place_users
        >>> from fedcast.scenario import Scenario
        >>> layout = place_users(3, Scenario().geometry, seed=0)
        >>> network_assumptions(Scenario(), layout, measured=True)[0]
        'Positions of users and base stations are drawn with seed 0 (--positions, or rate_bps in --links).'
    """
    links, modelled = scenario.trust.links_file, not measured and scenario.cellular.snr_db is None
    rates_given = links is not None and has_rates(links)
    by_distance = f"by distance and radio model {scenario.sidelink.model}"
    drawn = f"drawn with seed {scenario.seed}"
    instead = ([] if rates_given else ["rate_bps in --links"]) + (
        ["rates or SNR of upload and download in --devices"] if modelled else []
    )
    several = len(layout.base_stations_m) > 1
    found = []
    if layout.drawn and (instead or several):
        ways = " and ".join(instead)
        found.append(f"Positions of users and base stations are {drawn} (--positions{f', or {ways}' if ways else ''}).")
    elif not layout.stations_given and (modelled or several):
        found.append(f"{_stations(scenario, layout)} (--base-stations).")
    if modelled:
        path_loss = scenario.cellular.path_loss
        found.append(
            f"Rates of upload and download follow from the distance to the base station by path loss {path_loss} "
            "(rates or SNR in --devices, or cellular.snr_db)."
        )
    if links is None:
        generator = scenario.trust.generator
        found.append(f"Links have rates {by_distance}, and closeness {drawn}, generator {generator} (--links).")
    elif not rates_given:
        found.append(f"Links have rates {by_distance} (rate_bps in --links).")
    return tuple(found)


def _stations(scenario: Scenario, layout: Layout) -> str:
    if len(layout.base_stations_m) == 1:
        return "One base station is placed in the middle of the users"
    cells = f"cells of {scenario.geometry.cell_radius_m:,.0f} m radius"
    return f"{pluralize(len(layout.base_stations_m), 'base station')} are placed on a hexagonal grid with {cells}"
