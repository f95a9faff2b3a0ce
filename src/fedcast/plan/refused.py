"""Links that a threshold refuses: pairs of users that would be linked if rate or closeness were not too low."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcast.network import Graph
from fedcast.plan.world import World, network_of
from fedcast.scenario import with_overrides
from fedcast.typing import Bools, Ints


@dataclass(frozen=True, eq=False)
class RefusedLinks:
    """Pairs that are not linked, [N] each."""

    first: Ints
    second: Ints  #: larger than `first`
    rate_bps: NDArray[np.float32]
    closeness: NDArray[np.float32]
    too_slow: Bools  #: whether the rate is below `sidelink.min_rate_bps`
    too_distant: Bools  #: whether the closeness is below `trust.min_closeness`

    def count(self, num_users: int, *, by_trust: bool) -> Ints:
        """Return how many pairs of each user are refused by closeness alone, or else since they are too slow."""
        chosen = ~self.too_slow if by_trust else self.too_slow
        ends = np.concatenate([self.first[chosen], self.second[chosen]])
        return np.bincount(ends, minlength=num_users)


def refused_links(world: World) -> RefusedLinks:
    """Return the refused links of a world, by both ids.

    Of a table of links these are all that a threshold refuses. Without a table, only pairs within reach of the radio
    are: those that are refused by closeness.

    Example:
        >>> from fedcast.plan import make_world
        >>> from fedcast.scenario import Scenario
        >>> found = refused_links(make_world(Scenario()))
        >>> bool(found.too_distant.all()), bool(found.too_slow.any()), len(found.first) > 100
        (True, False, True)
    """
    scenario = world.scenario
    lowered: dict[str, float] = {"trust.min_closeness": 0.0}
    if scenario.trust.links_file is not None:
        lowered["sidelink.min_rate_bps"] = 0.0
    offered = network_of(with_overrides(scenario, lowered), world.layout)
    first, second, place = _pairs(offered)
    too_slow = offered.rate_bps[place] < np.float32(scenario.sidelink.min_rate_bps)
    too_distant = offered.closeness[place] < scenario.trust.min_closeness
    # Links may also be missing since the scenario cuts them (`changes`), which no threshold refuses.
    kept = ~np.isin(first * offered.num_users + second, _keys(world.graph)) & (too_slow | too_distant)
    rate, closeness = offered.rate_bps[place[kept]], offered.closeness[place[kept]]
    return RefusedLinks(first[kept], second[kept], rate, closeness, too_slow[kept], too_distant[kept])


def _pairs(graph: Graph) -> tuple[Ints, Ints, Ints]:
    """Return both ends of each link once, the lower id first, and its place in the arrays of the graph."""
    first = np.repeat(np.arange(graph.num_users), graph.degrees)
    second = graph.neighbours.astype(np.int64)
    place = np.flatnonzero(first < second)
    return first[place], second[place], place


def _keys(graph: Graph) -> Ints:
    first, second, _ = _pairs(graph)
    keys: Ints = first * graph.num_users + second
    return keys
