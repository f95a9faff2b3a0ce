"""The map of a crowd: many users drawn together, and the colours that it shares with the map of the network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedcast.formatting import pluralize, quantity
from fedcast.report.drawing import Axis, Bars, Dots, Figure, Panel
from fedcast.typing import Floats, Ints

if TYPE_CHECKING:
    from fedcast.network import Layout

M_PER_KM = 1e3
_PALE_TO_DARK = ("#d3e0ee", "#2b6cb0", "#153a66")
# Colours of a bar that explains them.
COLOUR_STEPS = 64
# Squares along the longer side of the map.
_SQUARES = 32
_SCHEMATIC_CROWD = "no table gives places, and there are too many users for a schematic layout"


def crowd_figure(
    layout: Layout, head_of: Ints, title: str = "Who shares with whom", *, schematic: bool = False
) -> Figure:
    """Draw many users together: squares of the map as dots, or the sizes of clusters where places mean nothing.

    The area of a dot is the number of users in its square, its colour the share of them that receives samples.
    """
    heads = np.isin(np.arange(len(head_of)), head_of)
    if schematic:
        return _cluster_sizes(head_of, title)
    places_km = layout.positions_m / M_PER_KM
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
    dots = Dots(x, y, ramp(led / users), radius=radius, cell=True, tips=tips, css="square")
    middle, extent = (low + high) / 2, np.maximum(high - low, 0.5 * _SQUARES * side_km)
    ends = np.stack([middle - extent / 2, middle + extent / 2]).T.tolist()
    across, up = (Axis(limits=(first, last), show=False) for first, last in ends)
    says = f"Map of {pluralize(len(head_of), 'user')} in squares of {quantity(M_PER_KM * side_km, 'm')}"
    panel = Panel([dots], across, up, equal=True, scale_bar=("m", 1 / M_PER_KM))
    title += f" ({pluralize(len(head_of), 'user')} in {pluralize(len(square), 'square')})"
    return Figure([[panel], [_share_bar()]], title, description=says)


def _share_bar() -> Panel:
    edges = np.linspace(0, 1, COLOUR_STEPS + 1)
    x = Axis("share of users that receive samples", (0.0, 1.0), percent=True)
    return colour_bar(edges, ramp((edges[1:] + edges[:-1]) / 2), x)


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


def ramp(share: Floats) -> list[str]:
    """Return colours from pale, at 0, to dark, at 1."""
    stops = np.array([[int(colour[place : place + 2], 16) for place in (1, 3, 5)] for colour in _PALE_TO_DARK])
    parts = np.stack([np.interp(share, [0.0, 0.5, 1.0], stops[:, part]) for part in range(3)], axis=1)
    return [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in np.round(parts).astype(int).tolist()]


def colour_bar(edges: Floats, colours: Sequence[str], x: Axis) -> Panel:
    """Return the bar below a map that explains its colours, one between each two of the edges."""
    middles, full = np.full(len(colours), 0.5), Axis(limits=(0.0, 1.0), show=False)
    return Panel([Bars(middles, np.diff(edges), colours, edges[:-1], width=1.0, horizontal=True)], x, full, height=7.0)
