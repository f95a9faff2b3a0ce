"""Graphs of small layouts, built in both ways, and a comparison of graphs."""

from __future__ import annotations

import numpy as np
import pytest

from fedcast.network import Graph, build, build_graph
from fedcast.network.geometry import Layout
from fedcast.scenario import Geometry, Sidelink, Trust

GEOMETRY = Geometry()
GENERATORS = ("uniform", "community", "contact", "distance")
ONE_FLOAT32_STEP = 2.0**-23


def layout_of(positions: object) -> Layout:
    places = np.asarray(positions, dtype=np.float64).reshape(-1, 2)
    return Layout(places, np.zeros((1, 2)), np.zeros(len(places), dtype=np.int64))


def built(way: str, layout: Layout, sidelink: Sidelink, trust: Trust, seed: int = 0, block: int = 1 << 16) -> Graph:
    """The graph by the k-d tree and NumPy, or by the compiled sweep, whatever the number of users."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "COMPILED_FROM_USERS", {"tree": 2**40, "sweep": 0}[way])
        patch.setattr(build, "_BLOCK_PAIRS", block)
        return build_graph(layout, sidelink, trust, GEOMETRY, seed)


def as_links(graph: Graph) -> dict[tuple[int, int], tuple]:
    rows = np.repeat(np.arange(graph.num_users), graph.degrees)
    values = zip(graph.rate_bps.tolist(), graph.closeness.tolist(), strict=True)
    return dict(zip(zip(rows.tolist(), graph.neighbours.tolist(), strict=True), values, strict=True))


def assert_same_graph(one: Graph, other: Graph) -> None:
    """Edge for edge; values to one step of float32."""
    np.testing.assert_array_equal(one.offsets, other.offsets)
    np.testing.assert_array_equal(one.neighbours, other.neighbours)
    np.testing.assert_allclose(one.rate_bps, other.rate_bps, rtol=ONE_FLOAT32_STEP)
    np.testing.assert_allclose(one.closeness, other.closeness, rtol=ONE_FLOAT32_STEP)
    for name in ("offsets", "neighbours", "rate_bps", "closeness"):
        assert getattr(one, name).dtype == getattr(other, name).dtype
