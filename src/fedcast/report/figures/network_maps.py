"""The map of the network: users, their links coloured by rate, and base stations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedcast.formatting import pluralize, quantity
from fedcast.report.colours import INK, PAPER
from fedcast.report.drawing import Axis, Colours, Dots, Figure, Mark, Names, Panel, Segments
from fedcast.report.figures.crowds import COLOUR_STEPS, M_PER_KM, colour_bar, ramp
from fedcast.report.figures.maps import (
    MAX_SCHEMATIC,
    SCHEMATIC,
    links_between,
    map_panel,
    names_of,
    nearest_centre,
    width_of,
)
from fedcast.report.figures.schematic import schematic_places
from fedcast.report.scales import log_ticks
from fedcast.typing import Bools, Floats, Ints

if TYPE_CHECKING:
    from fedcast.network import Graph, Layout

_MAX_USERS, _MAX_LINKS = 2_000, 15_000


@dataclass(frozen=True, eq=False)
class NetworkMap:
    """Users, links and base stations."""

    users: Ints  #: int64[U], which users are shown, of `num_users`
    num_users: int
    positions_km: Floats  #: float64[U, 2]
    isolated: Bools  #: bool[U], users without any link, shown or not
    base_stations_km: Floats  #: float64[C, 2], those that serve a user shown
    links_km: Floats  #: float64[L, 2, 2], both ends of the links drawn, of `num_links`, the slowest first
    rate_bps: Floats  #: float64[L]
    num_links: int
    names: tuple[str, ...] = ()  #: of the users shown; empty: they have none, or there are too many
    schematic: bool = False  #: whether places are schematic, in no unit


def network_map(
    layout: Layout, graph: Graph, max_users: int = _MAX_USERS, max_links: int = _MAX_LINKS, *, schematic: bool = False
) -> NetworkMap:
    """Choose the users nearest the centre, and every n-th of their links, as far as there is room.

    `schematic`: places of the layout mean nothing (see `fedcast.plan.World.places_known`).

    Example:
        >>> from fedcast.network import graph_from_edges, layout_from_positions
        >>> from fedcast.scenario import Geometry
        >>> layout = layout_from_positions([[0.0, 0.0], [300.0, 400.0], [0.0, 900.0]], Geometry())
        >>> shown = network_map(layout, graph_from_edges([0], [1], 1e6, 0.9, num_users=3))
        >>> shown.links_km.tolist(), shown.isolated.tolist()
        ([[[0.0, 0.0], [0.3, 0.4]]], [False, False, True])
    """
    users = nearest_centre(layout.positions_m, max_users)
    first, second, rates = links_between(users, graph)
    places_km = layout.positions_m / M_PER_KM
    if schematic and len(users) <= MAX_SCHEMATIC:
        places_km[users] = schematic_places(
            np.full(len(users), -1), np.searchsorted(users, np.stack([first, second], axis=1)), width=1.0
        )
    kept = min(len(first), max_links)
    drawn = (np.arange(kept) * (len(first) / max(kept, 1))).astype(np.int64)
    drawn = drawn[np.argsort(rates[drawn], kind="stable")]
    ends = np.stack([first[drawn], second[drawn]], axis=1)
    stations = np.unique(layout.cell_of[users])[: 0 if schematic else None]
    return NetworkMap(
        users=users,
        num_users=graph.num_users,
        positions_km=places_km[users],
        isolated=graph.degrees[users] == 0,
        base_stations_km=layout.base_stations_m[stations] / M_PER_KM,
        links_km=places_km[ends],
        rate_bps=rates[drawn],
        num_links=len(first),
        names=names_of(layout, users),
        schematic=schematic,
    )


def network_figure(shown: NetworkMap, title: str = "Who can share with whom") -> Figure:
    """Draw links coloured by rate, users as dots, those without a link as rings, and base stations as triangles."""
    radius = float(np.sqrt(np.clip(2_000 / len(shown.users), 2.5, 18) / np.pi))
    linked, alone = shown.positions_km[~shown.isolated], shown.positions_km[shown.isolated]
    stations, count = shown.base_stations_km, len(shown.links_km)
    width = float(np.clip(24 / np.sqrt(max(count, 1)), 0.35, 1.1))
    marks: list[Mark] = [
        Segments(shown.links_km, _rate_colours(shown.rate_bps), width),
        _dots(linked, INK, pluralize(len(linked), "linked user"), radius=radius),
        _dots(
            alone, PAPER, pluralize(len(alone), "user without a link", "users without a link"), radius=1.6 * radius,
            edge=2,
        ),
        _dots(stations, 2, pluralize(len(stations), "base station"), shape="triangle", radius=5.0, edge=PAPER),
    ]  # fmt: skip
    if shown.names:
        marks.append(
            Names(shown.positions_km[:, 0], shown.positions_km[:, 1], shown.names, 1.6 * radius, INK, shown.links_km)
        )
    rows = [[map_panel(marks, np.concatenate([shown.positions_km, stations]), shown.names, shown.schematic)]]
    rows += [[_rate_bar(shown)]] if count else []
    parts = []
    if len(shown.users) < shown.num_users:
        parts.append(f"the {len(shown.users):,} of {shown.num_users:,} users nearest the centre")
    if count < shown.num_links:
        parts.append(f"{count:,} of {shown.num_links:,} links")
    note = SCHEMATIC if shown.schematic else ""
    return Figure(rows, title + (f" ({', '.join(parts)})" if parts else ""), width=width_of(shown.names), note=note)


def _dots(places_km: Floats, colour: Colours, label: str, **look: Any) -> Dots:
    """Return dots, which the legend names if there are any."""
    return Dots(places_km[:, 0], places_km[:, 1], colour, label=label if len(places_km) else "", **look)


def _rate_range(rates: Floats) -> tuple[float, float]:
    low = max(float(rates.min()), 1.0)
    return low, max(float(rates.max()), 1.01 * low, 2.0)


def _rate_colours(rates: Floats) -> list[str]:
    """Return colours from pale to dark over the logarithm of rates."""
    if not len(rates):
        return []
    low, high = np.log(_rate_range(rates))
    return ramp((np.log(np.maximum(rates, 1.0)) - low) / (high - low))


def _rate_bar(shown: NetworkMap) -> Panel:
    low, high = _rate_range(shown.rate_bps)
    edges, ticks = np.geomspace(low, high, COLOUR_STEPS + 1), log_ticks(low, high)
    x = Axis(
        f"rate of {pluralize(shown.num_links, 'link')}", (low, high), kind="log", ticks=ticks,
        tick_labels=[quantity(rate, "bit/s") for rate in ticks],
    )  # fmt: skip
    return colour_bar(edges, _rate_colours(np.sqrt(edges[1:] * edges[:-1])), x)
