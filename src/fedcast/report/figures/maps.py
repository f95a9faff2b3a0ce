"""Maps of the clusters of users.

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
from fedcast.report.drawing import Axis, Dots, Figure, Mark, Names, Panel, Segments
from fedcast.report.figures.crowds import M_PER_KM, crowd_figure
from fedcast.report.figures.schematic import schematic_places
from fedcast.report.figures.users import shown_of
from fedcast.typing import Bools, Floats, Ints

if TYPE_CHECKING:
    from fedcast.clustering import Clustering
    from fedcast.network import Graph, Layout
    from fedcast.plan import RefusedLinks, World

_MAX_CLUSTER_USERS = 1_500
_MARGIN, _NAMED_MARGIN = 0.03, 0.04
# More users than this have no names on a map, more have no schematic layout, and more links that nobody uses are left
# out of a map of clusters.
_MAX_NAMED, MAX_SCHEMATIC, _MAX_UNUSED = 150, 1_500, 250
_WIDTH, _NAMED_WIDTH = 440.0, 640.0
# A map is at most this much higher than wide.
_HIGHEST = 1.0
# Numbers by which the page shows and hides kinds of links.
UNUSED, REFUSED = 101, 102
# On paper and on a dark screen, and none of the colours of clusters.
_REFUSED_COLOUR = "#d6336c"
SCHEMATIC = "no table gives places: a schematic layout, in which distances mean nothing"
# Radii in points, from what is drawn first to what lies on top.
_RADII = {"alone": 3.2, "member": 4.2, "head": 7.0}
# Up to so many users dots have their full size; they shrink to no less than this.
_ROOMY, _SMALLEST = 200, 0.35


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
    names: tuple[str, ...] = ()  #: of the users shown; empty: they have none, or there are too many
    schematic: bool = False  #: whether places are schematic, in no unit
    unused_km: Floats = field(default_factory=lambda: np.zeros((0, 2, 2)))  #: float64[N, 2, 2], links without sharing
    refused_km: Floats = field(default_factory=lambda: np.zeros((0, 2, 2)))  #: links that a threshold refuses
    refused_tips: tuple[str, ...] = ()  #: why, one text for each


def cluster_map(
    layout: Layout,
    clustering: Clustering,
    max_users: int = _MAX_CLUSTER_USERS,
    *,
    schematic: bool = False,
    refused: RefusedLinks | None = None,
) -> ClusterMap:
    """Return the map of a clustering; of more than `max_users`, those nearest the centre.

    `schematic`: places of the layout mean nothing (see `fedcast.plan.World.places_known`). With refused links, these
    and links that nobody uses are on the map too, as far as there is room.
    """
    users, head_of = nearest_centre(layout.positions_m, max_users), clustering.head_of
    first, second, _ = links_between(users, clustering.problem.graph)
    links, places = np.stack([first, second], axis=1), layout.positions_m
    if schematic and len(users) <= MAX_SCHEMATIC:
        leads = np.where(np.isin(head_of[users], users), np.searchsorted(users, head_of[users]), -1)
        places = places.copy()
        places[users] = M_PER_KM * schematic_places(leads, np.searchsorted(users, links))
    shown = replace(_map(places, head_of, users), names=names_of(layout, users), schematic=schematic)
    if refused is None:
        return shown
    unused = links[(head_of[first] != second) & (head_of[second] != first)]
    shown = replace(shown, unused_km=places[unused if len(unused) <= _MAX_UNUSED else unused[:0]] / M_PER_KM)
    inside = np.isin(refused.first, users) & np.isin(refused.second, users)
    if inside.sum() > _MAX_UNUSED:
        return shown
    ends = np.stack([refused.first, refused.second], axis=1)[inside]
    return replace(shown, refused_km=places[ends] / M_PER_KM, refused_tips=_refusals(layout, refused, inside))


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


def names_of(layout: Layout, users: Ints) -> tuple[str, ...]:
    """Return the names of users on a map; none if they have none, or there are too many."""
    return () if layout.names is None or len(users) > _MAX_NAMED else tuple(layout.names[users].tolist())


def map_of_users(positions_m: ArrayLike, head_of: ArrayLike, max_users: int = _MAX_CLUSTER_USERS) -> ClusterMap:
    """Return the map of clusters from positions float[K, 2] and the head of each user int[K], -1: none.

    Example:
        >>> shown = map_of_users([[0, 0], [100, 0], [0, 200]], [1, -1, -1])
        >>> shown.cluster.tolist(), shown.is_head.tolist(), shown.joins_km.tolist()
        ([0, 0, -1], [False, True, False], [[[0.0, 0.0], [0.1, 0.0]]])
    """
    places, leads = np.asarray(positions_m, dtype=np.float64), np.asarray(head_of, dtype=np.int64)
    return _map(places, leads, nearest_centre(places, max_users))


def schematic_map(head_of: ArrayLike, names: Sequence[str] = ()) -> ClusterMap:
    """Return the map of clusters of users whose places nobody knows, from the head of each, int[K], -1: none.

    Example:
        >>> shown = schematic_map([1, -1, -1], ["ana", "ben", "eva"])
        >>> shown.schematic, shown.names, shown.cluster.tolist()
        (True, ('ana', 'ben', 'eva'), [0, 0, -1])
    """
    leads = np.asarray(head_of, dtype=np.int64)
    members = np.flatnonzero(leads >= 0)
    places = M_PER_KM * schematic_places(leads, np.stack([members, leads[members]], axis=1))
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
        positions_km=places[users] / M_PER_KM,
        cluster=number[users],
        is_head=np.isin(users, heads),
        joins_km=places[ends] / M_PER_KM,
        join_cluster=number[members],
    )


def nearest_centre(positions_m: Floats, max_users: int) -> Ints:
    """Return the ids of at most `max_users` users, those nearest the centre of all, ascending."""
    if len(positions_m) <= max_users:
        return np.arange(len(positions_m))
    distance = np.hypot(*(positions_m - positions_m.mean(axis=0)).T)
    return np.sort(np.argpartition(distance, max_users)[:max_users])


def links_between(users: Ints, graph: Graph) -> tuple[Ints, Ints, Floats]:
    """Return both ends and the rate of every link between these users, each link once; reads no other rows."""
    counts = graph.degrees[users]
    begins = np.cumsum(counts) - counts
    places = np.arange(counts.sum()) + np.repeat(graph.offsets[users] - begins, counts)
    first, second = np.repeat(users, counts), graph.neighbours[places].astype(np.int64)
    kept = (first < second) & np.isin(second, users)
    return first[kept], second[kept], graph.rate_bps[places[kept]].astype(np.float64)


def width_of(names: Sequence[str]) -> float:
    """Return the width of a map, in points; names need more room."""
    return _NAMED_WIDTH if names else _WIDTH


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
    panel = map_panel(marks, shown.positions_km, shown.names, shown.schematic)
    note = SCHEMATIC if shown.schematic else ""
    title += shown_of(users, shown.num_users)
    return Figure([[panel]], title, width=width or width_of(shown.names), note=note, description=says)


def _counted(links: Floats, text: str) -> str:
    return pluralize(len(links), text, text.replace("link", "links")) if len(links) else ""


def map_panel(marks: Sequence[Mark], places_km: Floats, names: Sequence[str], schematic: bool) -> Panel:
    """Return a map, north up, with a scale bar unless it is schematic; it is square unless users have names."""
    low, high = places_km.min(axis=0), places_km.max(axis=0)
    widest = float(max((high - low).max(), 1e-3))
    extent = np.full(2, (1 + 2 * _MARGIN) * widest)
    if names:
        # A name beside an outer user needs room on its side.
        extent = np.maximum(high - low, 0.4 * widest) + 2 * np.array([3 * _NAMED_MARGIN, _NAMED_MARGIN]) * widest
        extent[0] = max(extent[0], extent[1] / _HIGHEST)
    ends = np.stack([(low + high - extent) / 2, (low + high + extent) / 2]).T.tolist()
    x, y = (Axis(limits=(first, last), show=False) for first, last in ends)
    return Panel(marks, x, y, equal=True, scale_bar=None if schematic else ("m", 1 / M_PER_KM))
