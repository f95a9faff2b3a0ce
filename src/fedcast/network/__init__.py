r"""The network: positions of users, radio links, social closeness, and the constrained graph.

Two users are linked if they are close enough and their sidelink is fast enough,
:math:`e_{kj} \ge e_{th}` and :math:`v_{kj} \ge v_{th}`.

Parameters of a scenario (`Geometry`, `Sidelink`, `Cellular`, `Trust`) are documented there. Arrays broadcast; lengths
are in m, rates in bit/s, and a distance is the distance on the ground unless its name says otherwise.
"""

from __future__ import annotations

from fedcast.network.assumptions import network_assumptions
from fedcast.network.build import build_graph
from fedcast.network.cellular import CellularLinks, cellular_links, expected_s_per_bit
from fedcast.network.fading import mean_inverse_efficiency
from fedcast.network.geometry import Layout, layout_from_positions, place_users
from fedcast.network.graph import Graph, check_graph, graph_from_edges, graph_from_links, has_rates, without_links
from fedcast.network.propagation import BITS_PER_BYTE
from fedcast.network.sidelink import concurrent_rate_bps, pair_rate_bps, rate_bps, reach_m
from fedcast.network.trust import closeness

__all__ = [
    "BITS_PER_BYTE",
    "CellularLinks",
    "Graph",
    "Layout",
    "build_graph",
    "cellular_links",
    "check_graph",
    "closeness",
    "concurrent_rate_bps",
    "expected_s_per_bit",
    "graph_from_edges",
    "graph_from_links",
    "has_rates",
    "layout_from_positions",
    "mean_inverse_efficiency",
    "network_assumptions",
    "pair_rate_bps",
    "place_users",
    "rate_bps",
    "reach_m",
    "without_links",
]
