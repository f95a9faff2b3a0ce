r"""The constrained graph: who may share with whom, at which rate and closeness, as sparse rows (CSR).

Two users are linked if they are close enough and their sidelink is fast enough,
:math:`e_{kj} \ge e_{th}` and :math:`v_{kj} \ge v_{th}`.
"""

from __future__ import annotations

from fedcast.graph.build import build_graph
from fedcast.graph.csr import Graph, check
from fedcast.graph.links import gives_rates, graph_from_edges, graph_from_links

__all__ = ["Graph", "build_graph", "check", "gives_rates", "graph_from_edges", "graph_from_links"]
