"""A clustering as a map: heads, their members joined to them, and who was left alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcast.formatting import pluralize
from fedcast.report.figures.network_map import M_PER_KM, dress_map, nearest_the_middle
from fedcast.report.figures.output import INK, MUTED
from fedcast.report.figures.palette import colour
from fedcast.typing import Floats, Ints

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fedcast.clustering import Clustering
    from fedcast.network import Layout


_MAX_USERS = 1_500


@dataclass(frozen=True)
class ClusterMap:
    """What is drawn.

    Attributes:
        users: int64[U], which users are shown.
        num_users: how many there are.
        positions_km: float64[U, 2].
        cluster: int64[U], number of the user's cluster in order of heads; -1: alone.
        is_head: bool[U].
        emd: float64[U], after sharing.
        joins_km: float64[J, 2, 2], from members to heads, both shown.
        join_cluster: int64[J].
    """

    users: Ints
    num_users: int
    positions_km: Floats
    cluster: Ints
    is_head: NDArray[np.bool_]
    emd: Floats
    joins_km: Floats
    join_cluster: Ints


def cluster_map(layout: Layout, clustering: Clustering, max_users: int = _MAX_USERS) -> ClusterMap:
    """Choose what to show: all users, or those nearest the middle."""
    return map_of_users(layout.positions_m, clustering.head_of, clustering.after.emd, max_users)


def map_of_users(positions_m: ArrayLike, head_of: ArrayLike, emd: ArrayLike, max_users: int = _MAX_USERS) -> ClusterMap:
    """The same from plain values.

    Args:
        positions_m: float[K, 2].
        head_of: int[K], the head of each user; -1: none.
        emd: float[K], after sharing.
        max_users: show no more.

    Example:
        >>> shown = map_of_users([[0, 0], [100, 0], [0, 200]], [1, -1, -1], [0.5, 0.1, 0.9])
        >>> shown.cluster.tolist(), shown.is_head.tolist(), shown.joins_km.tolist()
        ([0, 0, -1], [False, True, False], [[[0.0, 0.0], [0.1, 0.0]]])
    """
    places, leads = np.asarray(positions_m, dtype=np.float64), np.asarray(head_of, dtype=np.int64)
    users = nearest_the_middle(places, max_users)
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
        emd=np.asarray(emd, dtype=np.float64)[users],
        joins_km=places[ends] / M_PER_KM,
        join_cluster=number[members],
    )


def draw_cluster_map(shown: ClusterMap, title: str = "Who shares with whom") -> Figure:
    """Heads as large dots, members joined to them in the colour of the cluster, users alone in grey."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 6.6), layout="constrained")
    axes = figure.subplots()
    _draw_joins(axes, shown)
    _draw_users(axes, shown)
    dress_map(axes)
    part = f" ({len(shown.users):,} of {shown.num_users:,} users)" if len(shown.users) < shown.num_users else ""
    axes.set_title(title + part, loc="left", color=INK, fontsize=11, pad=12)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8.5, labelcolor=INK, handletextpad=0.4)
    return figure


def _colour(cluster: int) -> str:
    """All colours but the first, which is for users alone."""
    return colour(1 + cluster)


def _draw_joins(axes: Axes, shown: ClusterMap) -> None:
    from matplotlib.collections import LineCollection

    colours = [_colour(int(cluster)) for cluster in shown.join_cluster]
    axes.add_collection(LineCollection(list(shown.joins_km), colors=colours, linewidths=1.0, alpha=0.55, zorder=1))


def _draw_users(axes: Axes, shown: ClusterMap) -> None:
    small = min(1.0, (400 / len(shown.users)) ** 0.5)
    alone = shown.cluster < 0
    heads, members = shown.is_head, ~shown.is_head & ~alone
    east, north = shown.positions_km.T
    for chosen, area, level, label in ((members, 34.0, 2, "member"), (heads, 130.0, 3, "head")):
        colours = [_colour(int(cluster)) for cluster in shown.cluster[chosen]]
        count = int(chosen.sum())
        axes.scatter(
            east[chosen], north[chosen], s=area * small, c=colours, edgecolors="white", linewidths=0.8 * small,
            zorder=level, label=pluralize(count, label),
        )  # fmt: skip
    label = f"{alone.sum():,} alone"
    axes.scatter(east[alone], north[alone], s=26 * small, color=MUTED, alpha=0.7, linewidths=0, zorder=1, label=label)
