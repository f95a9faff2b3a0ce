r"""The network: where users stand, the radio links between them, whom they trust, and the constrained graph.

Two users are linked if they are close enough and their sidelink is fast enough,
:math:`e_{kj} \ge e_{th}` and :math:`v_{kj} \ge v_{th}`.
"""

from __future__ import annotations

from fedcast.network.build import build_graph
from fedcast.network.graph import Graph, check
from fedcast.network.links import gives_rates, graph_from_edges, graph_from_links

__all__ = ["Graph", "build_graph", "check", "gives_rates", "graph_from_edges", "graph_from_links"]
