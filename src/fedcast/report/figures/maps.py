"""Maps: the network with its links, and the clusters of users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fedcast.formatting import pluralize, quantity
from fedcast.report.colours import INK, PAPER
from fedcast.report.drawing import Axis, Bars, Colours, Dots, Figure, Mark, Panel, Segments
from fedcast.report.figures.users import shown_of
from fedcast.report.scales import log_ticks
from fedcast.typing import Bools, Floats, Ints

if TYPE_CHECKING:
    from fedcast.clustering import Clustering
    from fedcast.network import Graph, Layout

_MAX_CLUSTER_USERS = 1_500
_MAX_USERS, _MAX_LINKS = 2_000, 15_000
_M_PER_KM = 1e3
_RATE_COLOURS = ("#d3e0ee", "#2b6cb0", "#153a66")
_RATE_STEPS = 64
_MARGIN = 0.03
# Radii in points, from what is drawn first to what lies on top.
_RADII = {"alone": 3.2, "member": 4.2, "head": 7.0}
# Up to so many users dots have their full size; they shrink to no less than this.
_ROOMY, _SMALLEST = 200, 0.35


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


@dataclass(frozen=True, eq=False)
class ClusterMap:
    """Users and their clusters."""

    users: Ints  #: int64[U], which users are shown, of `num_users`
    num_users: int
    positions_km: Floats  #: float64[U, 2]
    cluster: Ints  #: int64[U], number of the user's cluster in order of heads; -1: none
    is_head: Bools  #: bool[U]
    joins_km: Floats  #: float64[J, 2, 2], from members to heads, both shown
    join_cluster: Ints  #: int64[J]


def network_map(layout: Layout, graph: Graph, max_users: int = _MAX_USERS, max_links: int = _MAX_LINKS) -> NetworkMap:
    """Choose the users nearest the centre, and every n-th of their links, as far as there is room.

    Example:
        >>> from fedcast.network import graph_from_edges, layout_from_positions
        >>> from fedcast.scenario import Geometry
        >>> layout = layout_from_positions([[0.0, 0.0], [300.0, 400.0], [0.0, 900.0]], Geometry())
        >>> shown = network_map(layout, graph_from_edges([0], [1], 1e6, 0.9, num_users=3))
        >>> shown.links_km.tolist(), shown.isolated.tolist()
        ([[[0.0, 0.0], [0.3, 0.4]]], [False, False, True])
    """
    users = _nearest_centre(layout.positions_m, max_users)
    first, second, rates = _links_between(users, graph)
    kept = min(len(first), max_links)
    drawn = (np.arange(kept) * (len(first) / max(kept, 1))).astype(np.int64)
    drawn = drawn[np.argsort(rates[drawn], kind="stable")]
    ends = np.stack([first[drawn], second[drawn]], axis=1)
    return NetworkMap(
        users=users,
        num_users=graph.num_users,
        positions_km=layout.positions_m[users] / _M_PER_KM,
        isolated=graph.degrees[users] == 0,
        base_stations_km=layout.base_stations_m[np.unique(layout.cell_of[users])] / _M_PER_KM,
        links_km=layout.positions_m[ends] / _M_PER_KM,
        rate_bps=rates[drawn],
        num_links=len(first),
    )


def cluster_map(layout: Layout, clustering: Clustering, max_users: int = _MAX_CLUSTER_USERS) -> ClusterMap:
    """Return the map of a clustering; of more than `max_users`, those nearest the centre."""
    return map_of_users(layout.positions_m, clustering.head_of, max_users)


def map_of_users(positions_m: ArrayLike, head_of: ArrayLike, max_users: int = _MAX_CLUSTER_USERS) -> ClusterMap:
    """Return the map of clusters from positions float[K, 2] and the head of each user int[K], -1: none.

    Example:
        >>> shown = map_of_users([[0, 0], [100, 0], [0, 200]], [1, -1, -1])
        >>> shown.cluster.tolist(), shown.is_head.tolist(), shown.joins_km.tolist()
        ([0, 0, -1], [False, True, False], [[[0.0, 0.0], [0.1, 0.0]]])
    """
    places, leads = np.asarray(positions_m, dtype=np.float64), np.asarray(head_of, dtype=np.int64)
    users = _nearest_centre(places, max_users)
    heads = np.unique(leads[leads >= 0])
    cluster_head = leads.copy()
    cluster_head[heads] = heads
    number = np.where(cluster_head >= 0, np.searchsorted(heads, cluster_head), -1)
    members = users[(leads[users] >= 0) & np.isin(leads[users], users)]
    ends = np.stack([members, leads[members]], axis=1)
    return ClusterMap(
        users=users,
        num_users=len(leads),
        positions_km=places[users] / _M_PER_KM,
        cluster=number[users],
        is_head=np.isin(users, heads),
        joins_km=places[ends] / _M_PER_KM,
        join_cluster=number[members],
    )


def _nearest_centre(positions_m: Floats, max_users: int) -> Ints:
    """Return the ids of at most `max_users` users, those nearest the centre of all, ascending."""
    if len(positions_m) <= max_users:
        return np.arange(len(positions_m))
    distance = np.hypot(*(positions_m - positions_m.mean(axis=0)).T)
    return np.sort(np.argpartition(distance, max_users)[:max_users])


def _links_between(users: Ints, graph: Graph) -> tuple[Ints, Ints, Floats]:
    """Return both ends and the rate of every link between these users, each link once; reads no other rows."""
    counts = graph.degrees[users]
    begins = np.cumsum(counts) - counts
    places = np.arange(counts.sum()) + np.repeat(graph.offsets[users] - begins, counts)
    first, second = np.repeat(users, counts), graph.neighbours[places].astype(np.int64)
    kept = (first < second) & np.isin(second, users)
    return first[kept], second[kept], graph.rate_bps[places[kept]].astype(np.float64)


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
    rows = [[_map_panel(marks, np.concatenate([shown.positions_km, stations]))]]
    rows += [[_rate_bar(shown)]] if count else []
    parts = []
    if len(shown.users) < shown.num_users:
        parts.append(f"the {len(shown.users):,} of {shown.num_users:,} users nearest the centre")
    if count < shown.num_links:
        parts.append(f"{count:,} of {shown.num_links:,} links")
    return Figure(rows, title + (f" ({', '.join(parts)})" if parts else ""))


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
    share = (np.log(np.maximum(rates, 1.0)) - low) / (high - low)
    stops = np.array([[int(colour[place : place + 2], 16) for place in (1, 3, 5)] for colour in _RATE_COLOURS])
    parts = np.stack([np.interp(share, [0.0, 0.5, 1.0], stops[:, part]) for part in range(3)], axis=1)
    return [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in np.round(parts).astype(int).tolist()]


def _rate_bar(shown: NetworkMap) -> Panel:
    low, high = _rate_range(shown.rate_bps)
    edges = np.geomspace(low, high, _RATE_STEPS + 1)
    colours = _rate_colours(np.sqrt(edges[1:] * edges[:-1]))
    bar = Bars(np.full(_RATE_STEPS, 0.5), np.diff(edges), colours, edges[:-1], width=1.0, horizontal=True)
    ticks = log_ticks(low, high)
    x = Axis(
        f"rate of {pluralize(shown.num_links, 'link')}", (low, high), kind="log", ticks=ticks,
        tick_labels=[quantity(rate, "bit/s") for rate in ticks],
    )  # fmt: skip
    return Panel([bar], x, Axis(limits=(0.0, 1.0), show=False), height=7.0)


def cluster_figure(shown: ClusterMap, title: str = "Who shares with whom", tips: Sequence[str] = ()) -> Figure:
    """Draw heads as large dots, members joined to them in the colour of the cluster, and other users in grey.

    `tips` are texts of the report page, one for each user shown.
    """
    small = max(_SMALLEST, min(1.0, (_ROOMY / max(len(shown.users), 1)) ** 0.5))
    join_clusters = shown.join_cluster.tolist()
    look: dict[str, Any] = {"css": "joins", "data": {"cluster": join_clusters}}
    joins = Segments(shown.joins_km, [1 + number for number in join_clusters], max(1.4 * small, 0.6), 0.5, **look)
    marks: list[Mark] = [joins]
    labels = []
    kinds = {"alone": shown.cluster < 0, "member": (shown.cluster >= 0) & ~shown.is_head, "head": shown.is_head}
    for css, chosen in kinds.items():
        labels.append(pluralize(int(chosen.sum()), css, "alone" if css == "alone" else None))
        clusters, (x, y) = shown.cluster[chosen].tolist(), shown.positions_km[chosen].T
        look = {"opacity": 0.6} if css == "alone" else {"edge": PAPER, "data": {"cluster": clusters}}
        look |= {"css": css, "label": labels[-1], "tips": tuple(compress(tips, chosen))}
        marks.append(Dots(x, y, [1 + number for number in clusters], radius=_RADII[css] * small, **look))
    users = len(shown.users)
    says = f"Map of {pluralize(users, 'user')}: {', '.join(labels[::-1])}"
    panel = _map_panel(marks, shown.positions_km)
    return Figure([[panel]], title + shown_of(users, shown.num_users), description=says)


def _map_panel(marks: Sequence[Mark], places_km: Floats) -> Panel:
    """Return a square map, north up, with a scale bar."""
    low, high = places_km.min(axis=0), places_km.max(axis=0)
    extent = (1 + 2 * _MARGIN) * float(max((high - low).max(), 1e-3))
    ends = np.stack([(low + high - extent) / 2, (low + high + extent) / 2]).T.tolist()
    x, y = (Axis(limits=(first, last), show=False) for first, last in ends)
    return Panel(marks, x, y, equal=True, scale_bar=("m", 1 / _M_PER_KM))
