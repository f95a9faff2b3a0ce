"""The network as a map: users, the links that meet both thresholds, base stations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedcast.formatting import pluralize
from fedcast.report.figures.output import BLUE, GRID, INK, MUTED, ORANGE
from fedcast.typing import Floats, Ints

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure

    from fedcast.network import Graph, Layout


_MAX_USERS = 2_000
_MAX_LINKS = 15_000
M_PER_KM = 1e3
_PALE_BLUE = "#d3e0ee"
_DARK_BLUE = "#153a66"
_DOT: dict[str, Any] = {"color": INK, "linewidths": 0}
_RING: dict[str, Any] = {"facecolors": "white", "edgecolors": ORANGE, "linewidths": 1.3}
_TRIANGLE: dict[str, Any] = {"marker": "^", "facecolors": ORANGE, "edgecolors": "white", "linewidths": 1}


@dataclass(frozen=True)
class NetworkMap:
    """What is drawn.

    Attributes:
        users: int64[U], which users are shown.
        num_users: how many there are.
        positions_km: float64[U, 2].
        isolated: bool[U], users without any link, shown or not.
        base_stations_km: float64[C, 2], those that serve a user shown.
        links_km: float64[L, 2, 2], both ends of the links drawn, the slowest first.
        rate_bps: float64[L], their rates.
        num_links: how many links there are between users shown.
    """

    users: Ints
    num_users: int
    positions_km: Floats
    isolated: NDArray[np.bool_]
    base_stations_km: Floats
    links_km: Floats
    rate_bps: Floats
    num_links: int


def network_map(layout: Layout, graph: Graph, max_users: int = _MAX_USERS, max_links: int = _MAX_LINKS) -> NetworkMap:
    """Choose what to show: the users nearest the middle and every n-th of their links, as far as there is room.

    Example:
        >>> from fedcast.network import graph_from_edges
        >>> from fedcast.scenario import Geometry
        >>> from fedcast.network import layout_from_positions
        >>> layout = layout_from_positions([[0.0, 0.0], [300.0, 400.0], [0.0, 900.0]], Geometry())
        >>> shown = network_map(layout, graph_from_edges([0], [1], 1e6, 0.9, num_users=3))
        >>> shown.links_km.tolist(), shown.isolated.tolist()
        ([[[0.0, 0.0], [0.3, 0.4]]], [False, False, True])
    """
    users = nearest_the_middle(layout.positions_m, max_users)
    first, second, rates = _links_between(users, graph)
    drawn = _evenly(len(first), max_links)
    drawn = drawn[np.argsort(rates[drawn], kind="stable")]
    ends = np.stack([first[drawn], second[drawn]], axis=1)
    return NetworkMap(
        users=users,
        num_users=graph.num_users,
        positions_km=layout.positions_m[users] / M_PER_KM,
        isolated=graph.degrees[users] == 0,
        base_stations_km=layout.base_stations_m[np.unique(layout.cell_of[users])] / M_PER_KM,
        links_km=layout.positions_m[ends] / M_PER_KM,
        rate_bps=rates[drawn],
        num_links=len(first),
    )


def nearest_the_middle(positions_m: Floats, max_users: int) -> Ints:
    """Ids of at most `max_users` users, those nearest the middle of all, ascending."""
    if len(positions_m) <= max_users:
        return np.arange(len(positions_m))
    distance = np.hypot(*(positions_m - positions_m.mean(axis=0)).T)
    return np.sort(np.argpartition(distance, max_users)[:max_users])


def _links_between(users: Ints, graph: Graph) -> tuple[Ints, Ints, Floats]:
    """Both ends and rate of every link between these users, each link once; reads no other rows."""
    counts = graph.degrees[users]
    begins = np.cumsum(counts) - counts
    places = np.arange(counts.sum()) + np.repeat(graph.offsets[users] - begins, counts)
    first, second = np.repeat(users, counts), graph.neighbours[places].astype(np.int64)
    kept = (first < second) & np.isin(second, users)
    return first[kept], second[kept], graph.rate_bps[places[kept]].astype(np.float64)


def _evenly(count: int, most: int) -> Ints:
    shown = min(count, most)
    return (np.arange(shown) * (count / max(shown, 1))).astype(np.int64)


def draw_network_map(shown: NetworkMap, title: str = "Who can share with whom") -> Figure:
    """Links coloured by rate, users as dots, those without a link as rings, base stations as triangles."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.6, 6.4), layout="constrained")
    axes = figure.subplots()
    links = _draw_links(axes, shown)
    _draw_places(axes, shown)
    dress_map(axes)
    axes.set_title(title + _what_is_shown(shown), loc="left", color=INK, fontsize=11, pad=12)
    if links is not None:
        _draw_scale(figure, axes, links, shown)
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=8.5, labelcolor=INK, handletextpad=0.4)
    return figure


def _what_is_shown(shown: NetworkMap) -> str:
    parts = []
    if len(shown.users) < shown.num_users:
        parts.append(f"the {len(shown.users):,} of {shown.num_users:,} users nearest the middle")
    if len(shown.links_km) < shown.num_links:
        parts.append(f"{len(shown.links_km):,} of {shown.num_links:,} links")
    return f" ({', '.join(parts)})" if parts else ""


def _draw_links(axes: Axes, shown: NetworkMap) -> LineCollection | None:
    if not len(shown.links_km):
        return None
    from matplotlib.collections import LineCollection
    from matplotlib.colors import LinearSegmentedColormap, LogNorm

    lowest, highest = shown.rate_bps.min(), shown.rate_bps.max()
    links = LineCollection(
        list(shown.links_km),
        array=shown.rate_bps,
        cmap=LinearSegmentedColormap.from_list("rate", [_PALE_BLUE, BLUE, _DARK_BLUE]),
        norm=LogNorm(max(lowest, 1.0), max(highest, lowest * 1.01, 2.0)),
        linewidths=float(np.clip(24 / np.sqrt(len(shown.links_km)), 0.35, 1.1)),
        zorder=1,
        rasterized=len(shown.links_km) > 5_000,
    )
    axes.add_collection(links)
    return links


def _draw_places(axes: Axes, shown: NetworkMap) -> None:
    area = float(np.clip(2_000 / len(shown.users), 2.5, 18))
    linked, alone = shown.positions_km[~shown.isolated], shown.positions_km[shown.isolated]
    kinds = (
        (linked, area, _DOT, pluralize(len(linked), "linked user")),
        (alone, 2.5 * area, _RING, pluralize(len(alone), "user without a link", "users without a link")),
        (shown.base_stations_km, 70.0, _TRIANGLE, pluralize(len(shown.base_stations_km), "base station")),
    )
    for layer, (places, size, look, label) in enumerate(kinds, start=2):
        if len(places):
            axes.scatter(places[:, 0], places[:, 1], size, zorder=layer, label=label, **look)


def _draw_scale(figure: Figure, axes: Axes, links: LineCollection, shown: NetworkMap) -> None:
    from matplotlib.ticker import FuncFormatter

    bar = figure.colorbar(links, ax=axes, shrink=0.55, aspect=28, pad=0.02)
    bar.ax.set_title(f"rate of\n{pluralize(shown.num_links, 'link')}", loc="left", color=INK, fontsize=9, pad=10)
    bar.ax.yaxis.set_major_formatter(FuncFormatter(_rate_text))
    bar.ax.yaxis.set_minor_formatter(FuncFormatter(lambda *_: ""))
    bar.ax.tick_params(colors=MUTED, labelsize=8, length=0, which="both")
    bar.outline.set_visible(False)


def _rate_text(rate_bps: float, _place: int | None = None) -> str:
    for size, unit in ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if rate_bps >= size:
            return f"{rate_bps / size:g} {unit}"
    return f"{rate_bps:g} bit/s"


def dress_map(axes: Axes) -> None:
    """Axes in km with one scale, and a grid that steps aside."""
    from matplotlib.ticker import MultipleLocator

    axes.set_aspect("equal")
    axes.autoscale_view()
    axes.set_xlabel("km", color=INK)
    axes.set_ylabel("km", color=INK)
    step = _grid_step(max(np.ptp(axes.get_xlim()), np.ptp(axes.get_ylim())))
    axes.xaxis.set_major_locator(MultipleLocator(step))
    axes.yaxis.set_major_locator(MultipleLocator(step))
    axes.set_axisbelow(True)
    axes.grid(color=GRID, linewidth=0.6)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(colors=MUTED, labelsize=8, length=0)


def _grid_step(extent: float) -> float:
    """One step for both axes, 1, 2 or 5 times a power of ten, some four to ten to the map."""
    decade = 10.0 ** np.floor(np.log10(extent / 4))
    return float(max(step for step in (decade, 2 * decade, 5 * decade) if step <= extent / 4))
