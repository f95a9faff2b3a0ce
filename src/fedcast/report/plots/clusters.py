"""The map: heads, their members joined to them, who is alone, and why."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedcast.formatting import pluralize, quantity
from fedcast.report.figures.cluster_map import ClusterMap
from fedcast.report.figures.palette import colour_place
from fedcast.report.markup import Markup, empty_tag, join, tag
from fedcast.report.old_svg import WIDTH, Frame, Scale, nice_step, plot

_SIZE, _EDGE = WIDTH, 12.0
_HEAD, _MEMBER, _ALONE = 7.0, 4.2, 3.2
_ROOMY = 200
_SMALLEST = 0.35


def map_plot(shown: ClusterMap, tips: Sequence[str]) -> Markup:
    """Heads as large dots, members joined to them in the colour of the cluster, users alone in grey.

    Args:
        shown: what is drawn.
        tips: one text per user shown.
    """
    place, extent_km = _frame(shown)
    small = max(_SMALLEST, min(1.0, (_ROOMY / max(len(shown.users), 1)) ** 0.5))
    marks = [_joins(place, shown, small), _users(place, shown, tips, small), _scale_bar(place, extent_km)]
    return plot(place, *marks, name="map", says=_says(shown), data_nearest=True)


def _frame(shown: ClusterMap) -> tuple[Frame, float]:
    """One scale for both directions, north up, users in the middle."""
    low, high = shown.positions_km.min(axis=0), shown.positions_km.max(axis=0)
    middle, extent = (low + high) / 2, float(max((high - low).max(), 1e-3))
    x0, y0 = (middle - extent / 2).tolist()
    x = Scale(x0, x0 + extent, _EDGE, _SIZE - _EDGE)
    return Frame(x, Scale(y0, y0 + extent, _SIZE - _EDGE, _EDGE), _SIZE, _SIZE + 18), extent


def _joins(place: Frame, shown: ClusterMap, small: float) -> Markup:
    lines = []
    for ends, cluster in zip(shown.joins_km, shown.join_cluster.tolist(), strict=True):
        (x1, x2), (y1, y2) = place.x(ends[:, 0]).tolist(), place.y(ends[:, 1]).tolist()
        lines.append(empty_tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=_look(cluster), data_cluster=cluster))
    return tag("g", *lines, class_="joins", stroke_width=round(max(1.4 * small, 0.6), 2))


def _users(place: Frame, shown: ClusterMap, tips: Sequence[str], small: float) -> Markup:
    """Users alone first, then members, then heads, so that heads lie on top."""
    east, north = place.x(shown.positions_km[:, 0]).tolist(), place.y(shown.positions_km[:, 1]).tolist()
    kind = np.where(shown.is_head, 2, np.where(shown.cluster >= 0, 1, 0))
    radius = (_ALONE * small, _MEMBER * small, _HEAD * small)
    names = ("alone", "member", "head")
    marks = []
    for user in np.argsort(kind, kind="stable").tolist():
        cluster, level = int(shown.cluster[user]), int(kind[user])
        marks.append(
            empty_tag(
                "circle", cx=east[user], cy=north[user], r=radius[level],
                class_=f"mark {names[level]} {_look(cluster)}", data_cluster=cluster if cluster >= 0 else None,
                data_tip=tips[user],
            )
        )  # fmt: skip
    return join(marks)


def _look(cluster: int) -> str:
    """All colours but the first, which is for users alone."""
    return f"s{colour_place(1 + cluster)}"


def _scale_bar(place: Frame, extent_km: float) -> Markup:
    length_km = nice_step(0.0, extent_km, about=5)
    left, right = place.x.start, place.x.start + float(place.x(place.x.low + length_km) - place.x.start)
    base = place.height - 10
    return tag(
        "g",
        empty_tag("path", d=f"M{left:.1f} {base - 4:.1f}v4H{right:.1f}v-4", class_="scale"),
        tag("text", quantity(1e3 * length_km, "m"), x=right + 7, y=base + 2, class_="tick"),
    )


def _says(shown: ClusterMap) -> str:
    users, heads, alone = len(shown.users), int(shown.is_head.sum()), int((shown.cluster < 0).sum())
    parts = pluralize(heads, "head"), pluralize(users - heads - alone, "member"), f"{alone:,} alone"
    return f"Map of {pluralize(users, 'user')}: {', '.join(parts)}"
