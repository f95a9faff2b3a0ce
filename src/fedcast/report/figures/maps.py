"""Maps: the network with its links, and the clusters of users.

Where places of users were drawn since no table gives them, maps are schematic: see `schematic_places`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fedcast.formatting import pluralize, quantity
from fedcast.report.colours import INK, MUTED, PAPER
from fedcast.report.drawing import Axis, Bars, Colours, Dots, Figure, Mark, Names, Panel, Segments
from fedcast.report.figures.schematic import schematic_places
from fedcast.report.figures.users import shown_of
from fedcast.report.scales import log_ticks
from fedcast.typing import Bools, Floats, Ints

if TYPE_CHECKING:
    from fedcast.clustering import Clustering
    from fedcast.network import Graph, Layout
    from fedcast.plan import RefusedLinks, World

_MAX_CLUSTER_USERS = 1_500
_MAX_USERS, _MAX_LINKS = 2_000, 15_000
_M_PER_KM = 1e3
_RATE_COLOURS = ("#d3e0ee", "#2b6cb0", "#153a66")
_RATE_STEPS = 64
# Squares along the longer side of the map of a crowd.
_SQUARES = 32
_MARGIN, _NAMED_MARGIN = 0.03, 0.04
# More users than this have no names on a map, more have no schematic layout, and more links that nobody uses are left
# out of a map of clusters.
_MAX_NAMED, _MAX_SCHEMATIC, _MAX_UNUSED = 150, 1_500, 250
_WIDTH, _NAMED_WIDTH = 440.0, 640.0
# A map is at most this much higher than wide.
_HIGHEST = 1.0
# Numbers by which the page shows and hides kinds of links.
UNUSED, REFUSED = 101, 102
# On paper and on a dark screen, and none of the colours of clusters.
_REFUSED_COLOUR = "#d6336c"
_SCHEMATIC_CROWD = "no table gives places, and there are too many users for a schematic layout"
_SCHEMATIC = "no table gives places: a schematic layout, in which distances mean nothing"
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
    names: tuple[str, ...] = ()  #: of the users shown; empty: they have none, or there are too many
    schematic: bool = False  #: whether places are schematic, in no unit


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
    names: tuple[str, ...] = ()  #: see `NetworkMap`, as `schematic`
    schematic: bool = False
    unused_km: Floats = field(default_factory=lambda: np.zeros((0, 2, 2)))  #: float64[N, 2, 2], links without sharing
    refused_km: Floats = field(default_factory=lambda: np.zeros((0, 2, 2)))  #: links that a threshold refuses
    refused_tips: tuple[str, ...] = ()  #: why, one text for each


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
    users = _nearest_centre(layout.positions_m, max_users)
    first, second, rates = _links_between(users, graph)
    places_km = layout.positions_m / _M_PER_KM
    if schematic and len(users) <= _MAX_SCHEMATIC:
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
        base_stations_km=layout.base_stations_m[stations] / _M_PER_KM,
        links_km=places_km[ends],
        rate_bps=rates[drawn],
        num_links=len(first),
        names=_names_of(layout, users),
        schematic=schematic,
    )


def cluster_map(
    layout: Layout,
    clustering: Clustering,
    max_users: int = _MAX_CLUSTER_USERS,
    *,
    schematic: bool = False,
    refused: RefusedLinks | None = None,
) -> ClusterMap:
    """Return the map of a clustering; of more than `max_users`, those nearest the centre.

    `schematic` as in `network_map`. With refused links, these and links that nobody uses are on the map too, as far as
    there is room.
    """
    users, head_of = _nearest_centre(layout.positions_m, max_users), clustering.head_of
    first, second, _ = _links_between(users, clustering.problem.graph)
    links, places = np.stack([first, second], axis=1), layout.positions_m
    if schematic and len(users) <= _MAX_SCHEMATIC:
        leads = np.where(np.isin(head_of[users], users), np.searchsorted(users, head_of[users]), -1)
        places = places.copy()
        places[users] = _M_PER_KM * schematic_places(leads, np.searchsorted(users, links))
    shown = replace(
        map_of_users(places, head_of, max_users) if places is layout.positions_m else _map(places, head_of, users),
        names=_names_of(layout, users),
        schematic=schematic,
    )
    if refused is None:
        return shown
    unused = links[(head_of[first] != second) & (head_of[second] != first)]
    shown = replace(shown, unused_km=places[unused if len(unused) <= _MAX_UNUSED else unused[:0]] / _M_PER_KM)
    inside = np.isin(refused.first, users) & np.isin(refused.second, users)
    if inside.sum() > _MAX_UNUSED:
        return shown
    ends = np.stack([refused.first, refused.second], axis=1)[inside]
    return replace(shown, refused_km=places[ends] / _M_PER_KM, refused_tips=_refusals(layout, refused, inside))


def plan_figure(world: World, clustering: Clustering, title: str = "Who shares with whom") -> Figure:
    """Draw the clusters of a plan, its heads, members, links used and refused; many users together."""
    from fedcast.plan import refused_links

    if is_crowd(world):
        return crowd_figure(world.layout, clustering.head_of, title, schematic=not world.places_known)
    return cluster_figure(plan_map(world, clustering, refused_links(world)), title)


def is_crowd(world: World) -> bool:
    """Return whether there are too many users to draw each of them."""
    return world.layout.num_users > _MAX_CLUSTER_USERS


def plan_map(world: World, clustering: Clustering, refused: RefusedLinks) -> ClusterMap:
    """Return the map of the clusters of a plan; users without names have their ids as names."""
    layout = world.layout
    if layout.names is None:
        layout = replace(layout, names=np.arange(layout.num_users).astype(np.str_))
    return cluster_map(layout, clustering, schematic=not world.places_known, refused=refused)


def _refusals(layout: Layout, refused: RefusedLinks, chosen: Bools) -> tuple[str, ...]:
    """Return the ends of refused links, and why they are refused."""

    def name(user: int) -> str:
        return str(user if layout.names is None else layout.names[user])

    tips = []
    for place in np.flatnonzero(chosen).tolist():
        rate, close = quantity(float(refused.rate_bps[place]), "bit/s"), f"closeness {refused.closeness[place]:.2f}"
        why = [f"too slow: {rate}"] if refused.too_slow[place] else []
        why += [f"not trusted enough: {close}"] if refused.too_distant[place] else []
        tips.append(f"{name(refused.first[place])} – {name(refused.second[place])}, refused\n" + "\n".join(why))
    return tuple(tips)


def _names_of(layout: Layout, users: Ints) -> tuple[str, ...]:
    return () if layout.names is None or len(users) > _MAX_NAMED else tuple(layout.names[users].tolist())


def map_of_users(positions_m: ArrayLike, head_of: ArrayLike, max_users: int = _MAX_CLUSTER_USERS) -> ClusterMap:
    """Return the map of clusters from positions float[K, 2] and the head of each user int[K], -1: none.

    Example:
        >>> shown = map_of_users([[0, 0], [100, 0], [0, 200]], [1, -1, -1])
        >>> shown.cluster.tolist(), shown.is_head.tolist(), shown.joins_km.tolist()
        ([0, 0, -1], [False, True, False], [[[0.0, 0.0], [0.1, 0.0]]])
    """
    places, leads = np.asarray(positions_m, dtype=np.float64), np.asarray(head_of, dtype=np.int64)
    return _map(places, leads, _nearest_centre(places, max_users))


def schematic_map(head_of: ArrayLike, names: Sequence[str] = ()) -> ClusterMap:
    """Return the map of clusters of users whose places nobody knows, from the head of each, int[K], -1: none.

    Example:
        >>> shown = schematic_map([1, -1, -1], ["ana", "ben", "eva"])
        >>> shown.schematic, shown.names, shown.cluster.tolist()
        (True, ('ana', 'ben', 'eva'), [0, 0, -1])
    """
    leads = np.asarray(head_of, dtype=np.int64)
    members = np.flatnonzero(leads >= 0)
    places = _M_PER_KM * schematic_places(leads, np.stack([members, leads[members]], axis=1))
    shown = _map(places, leads, np.arange(len(leads)))
    return replace(shown, names=tuple(names) if len(leads) <= _MAX_NAMED else (), schematic=True)


def _map(places: Floats, leads: Ints, users: Ints) -> ClusterMap:
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
    if shown.names:
        marks.append(
            Names(shown.positions_km[:, 0], shown.positions_km[:, 1], shown.names, 1.6 * radius, INK, shown.links_km)
        )
    rows = [[_map_panel(marks, np.concatenate([shown.positions_km, stations]), shown)]]
    rows += [[_rate_bar(shown)]] if count else []
    parts = []
    if len(shown.users) < shown.num_users:
        parts.append(f"the {len(shown.users):,} of {shown.num_users:,} users nearest the centre")
    if count < shown.num_links:
        parts.append(f"{count:,} of {shown.num_links:,} links")
    note = _SCHEMATIC if shown.schematic else ""
    return Figure(rows, title + (f" ({', '.join(parts)})" if parts else ""), width=_width(shown), note=note)


def _width(shown: NetworkMap | ClusterMap) -> float:
    return _NAMED_WIDTH if shown.names else _WIDTH


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
    return _ramp((np.log(np.maximum(rates, 1.0)) - low) / (high - low))


def _ramp(share: Floats) -> list[str]:
    """Return colours from pale, at 0, to dark, at 1."""
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


def cluster_figure(
    shown: ClusterMap, title: str = "Who shares with whom", tips: Sequence[str] = (), width: float | None = None
) -> Figure:
    """Draw heads as large dots, members joined to them in the colour of the cluster, and other users in grey.

    `tips` are texts of the report page, one for each user shown; `width` in points replaces the usual one.
    """
    small = max(_SMALLEST, min(1.0, (_ROOMY / max(len(shown.users), 1)) ** 0.5))
    join_clusters = shown.join_cluster.tolist()
    look: dict[str, Any] = {"css": "joins", "data": {"cluster": join_clusters}}
    joins = Segments(shown.joins_km, [1 + number for number in join_clusters], max(1.4 * small, 0.6), 0.5, **look)
    links: list[Mark] = [
        Segments(shown.unused_km, MUTED, 0.6, 0.45, label=_counted(shown.unused_km, "link not used"), series=UNUSED),
        Segments(
            shown.refused_km, _REFUSED_COLOUR, 0.9, 0.8, dash="dashed", series=REFUSED, tips=shown.refused_tips,
            label=_counted(shown.refused_km, "link refused"),
        ),
    ]  # fmt: skip
    marks: list[Mark] = [*(links if shown.refused_tips or len(shown.unused_km) else ()), joins]
    labels, radii = [], np.empty(len(shown.users))
    kinds = {"alone": shown.cluster < 0, "member": (shown.cluster >= 0) & ~shown.is_head, "head": shown.is_head}
    for css, chosen in kinds.items():
        labels.append(pluralize(int(chosen.sum()), css, "alone" if css == "alone" else None))
        clusters, (x, y) = shown.cluster[chosen].tolist(), shown.positions_km[chosen].T
        radii[chosen] = _RADII[css] * small
        alone: dict[str, Any] = {"edge": PAPER} if len(marks) > 1 else {"opacity": 0.6}
        look = alone if css == "alone" else {"edge": PAPER, "data": {"cluster": clusters}}
        look |= {"css": css, "label": labels[-1], "tips": tuple(compress(tips, chosen))}
        marks.append(Dots(x, y, [1 + number for number in clusters], radius=_RADII[css] * small, **look))
    if shown.names:
        first = np.argsort(~shown.is_head, kind="stable")
        colours = [INK if shown.is_head[place] else MUTED for place in first]
        texts = [shown.names[place] for place in first]
        lines = np.concatenate([shown.joins_km, shown.unused_km, shown.refused_km])
        x, y = shown.positions_km[first].T
        marks.append(Names(x, y, texts, radii[first], colours, lines))
    users = len(shown.users)
    says = f"Map of {pluralize(users, 'user')}: {', '.join(labels[::-1])}"
    panel, note = _map_panel(marks, shown.positions_km, shown), _SCHEMATIC if shown.schematic else ""
    title += shown_of(users, shown.num_users)
    return Figure([[panel]], title, width=width or _width(shown), note=note, description=says)


def crowd_figure(
    layout: Layout, head_of: Ints, title: str = "Who shares with whom", *, schematic: bool = False
) -> Figure:
    """Draw many users together: squares of the map as dots, or the sizes of clusters where places mean nothing.

    The area of a dot is the number of users in its square, its colour the share of them that receives samples.
    """
    heads = np.isin(np.arange(len(head_of)), head_of)
    if schematic:
        return _cluster_sizes(head_of, title)
    places_km = layout.positions_m / _M_PER_KM
    low, high = places_km.min(axis=0), places_km.max(axis=0)
    side_km = max(float((high - low).max()) / _SQUARES, 1e-6)
    row = np.minimum((places_km - low) // side_km, _SQUARES - 1).astype(np.int64)
    square, place = np.unique(row[:, 0] * _SQUARES + row[:, 1], return_inverse=True)
    users = np.bincount(place)
    led, leading = (np.bincount(place, chosen) for chosen in (head_of >= 0, heads))
    tips = [
        f"{pluralize(int(count), 'user')}\n{pluralize(int(leads), 'head')}, {pluralize(int(receives), 'member')}, "
        f"{int(count - leads - receives):,} alone"
        for count, leads, receives in zip(users, leading, led, strict=True)
    ]
    x, y = low[:, None] + side_km * (np.stack(np.divmod(square, _SQUARES)) + 0.5)
    radius = 0.96 * side_km * np.sqrt(users / users.max())
    dots = Dots(x, y, _ramp(led / users), radius=radius, cell=True, tips=tips, css="square")
    middle, extent = (low + high) / 2, np.maximum(high - low, 0.5 * _SQUARES * side_km)
    ends = np.stack([middle - extent / 2, middle + extent / 2]).T.tolist()
    across, up = (Axis(limits=(first, last), show=False) for first, last in ends)
    says = f"Map of {pluralize(len(head_of), 'user')} in squares of {quantity(_M_PER_KM * side_km, 'm')}"
    panel = Panel([dots], across, up, equal=True, scale_bar=("m", 1 / _M_PER_KM))
    title += f" ({pluralize(len(head_of), 'user')} in {pluralize(len(square), 'square')})"
    return Figure([[panel], [_share_bar()]], title, description=says)


def _share_bar() -> Panel:
    edges = np.linspace(0, 1, _RATE_STEPS + 1)
    colours = _ramp((edges[1:] + edges[:-1]) / 2)
    bar = Bars(np.full(_RATE_STEPS, 0.5), np.diff(edges), colours, edges[:-1], width=1.0, horizontal=True)
    x = Axis("share of users that receive samples", (0.0, 1.0), percent=True)
    return Panel([bar], x, Axis(limits=(0.0, 1.0), show=False), height=7.0)


def _cluster_sizes(head_of: Ints, title: str) -> Figure:
    sizes = np.bincount(head_of[head_of >= 0])
    sizes = sizes[sizes > 0]
    # Classes 1, 2, 3–4, 5–8, …
    which = np.ceil(np.log2(np.maximum(sizes, 1))).astype(np.int64)
    counts = np.bincount(which, minlength=1)
    lows = [2 ** (place - 1) + 1 if place else 1 for place in range(len(counts))]
    texts = [str(low) if low == 2**place else f"{low:,}–{2**place:,}" for place, low in enumerate(lows)]
    tips = [f"{pluralize(int(count), 'cluster')}\nof {text} members" for count, text in zip(counts, texts, strict=True)]
    bars = Bars(range(len(counts)), counts, 1, tips=tips)
    x = Axis("members of a cluster", ticks=range(len(counts)), tick_labels=texts)
    says = f"How many clusters have how many members, of {pluralize(len(sizes), 'cluster')}"
    title += f" ({pluralize(len(head_of), 'user')}, {pluralize(len(sizes), 'cluster')} by size)"
    return Figure([[Panel([bars], x, Axis("clusters", (0.0, None)))]], title, note=_SCHEMATIC_CROWD, description=says)


def _counted(links: Floats, text: str) -> str:
    return pluralize(len(links), text, text.replace("link", "links")) if len(links) else ""


def _map_panel(marks: Sequence[Mark], places_km: Floats, shown: NetworkMap | ClusterMap) -> Panel:
    """Return a map, north up, with a scale bar if places are known; it is square unless users have names."""
    low, high = places_km.min(axis=0), places_km.max(axis=0)
    widest = float(max((high - low).max(), 1e-3))
    extent = np.full(2, (1 + 2 * _MARGIN) * widest)
    if shown.names:
        # A name beside an outer user needs room on its side.
        extent = np.maximum(high - low, 0.4 * widest) + 2 * np.array([3 * _NAMED_MARGIN, _NAMED_MARGIN]) * widest
        extent[0] = max(extent[0], extent[1] / _HIGHEST)
    ends = np.stack([(low + high - extent) / 2, (low + high + extent) / 2]).T.tolist()
    x, y = (Axis(limits=(first, last), show=False) for first, last in ends)
    return Panel(marks, x, y, equal=True, scale_bar=None if shown.schematic else ("m", 1 / _M_PER_KM))
