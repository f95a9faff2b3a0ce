"""Pairs of users that may be linked, and the laws that decide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcast.network import trust as closeness_laws
from fedcast.network.graph import Links
from fedcast.typing import Floats

if TYPE_CHECKING:
    from fedcast.network.geometry import Layout
    from fedcast.scenario.sections import Geometry, Sidelink, Trust

Ids = NDArray[np.int32]

# Wider than any rounding of reach and distances: what lies between is decided by the rate itself.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Network:
    """What a graph is a function of."""

    layout: Layout
    sidelink: Sidelink
    trust: Trust
    geometry: Geometry
    seed: int

    @property
    def num_users(self) -> int:
        """Users K."""
        return len(self.layout.positions_m)

    def radius_m(self) -> float:
        """No link is longer: reach of the radio, of trust, or the extent of the users, whichever is least."""
        from fedcast.network.sidelink import reach_m

        extent = float(np.hypot(*(np.ptp(coordinate) for coordinate in self.layout.positions_m.T)))
        reach = reach_m(self.sidelink, self.geometry)
        return min(reach, closeness_laws.greatest_distance_m(self.trust), extent) * (1 + _ROUNDING)

    def rates_between(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> Floats:
        """Rate of the radio link of each pair of users, bit/s, float64[N]."""
        from fedcast.network.sidelink import pair_rate_bps

        positions, words = self.layout.positions_m, self.layout.words
        distance_m = np.hypot(*(positions[second] - positions[first]).T)
        return pair_rate_bps(distance_m, words[first], words[second], self.sidelink, self.geometry, self.seed)

    def communities(self, users: NDArray[np.int64]) -> NDArray[np.int64]:
        """The community of each of these users, int64[N]; one for all where trust knows none."""
        if self.trust.generator != "community":
            return np.zeros(len(users), dtype=np.int64)
        return closeness_laws.communities_of(self.layout.words[users], self.trust, self.seed)


class Pairs(NamedTuple):
    """Pairs of users: int32[N] ids of both, float64[N] squared distance in m², float64[N] uniform draw."""

    first: Ids
    second: Ids
    squared_m2: Floats
    draws: Floats

    def at(self, places: NDArray[np.int64]) -> Pairs:
        """The pairs that stand there."""
        return Pairs(self.first[places], self.second[places], self.squared_m2[places], self.draws[places])


class Laws(NamedTuple):
    """Rate in bit/s and closeness of pairs, float64[N]."""

    rate_bps: Callable[[Pairs], Floats]
    closeness: Callable[[Pairs], Floats]


def linked(pairs: Pairs, laws: Laws, network: Network) -> Links:
    """The pairs that meet both thresholds."""
    rates, closeness = laws.rate_bps(pairs), laws.closeness(pairs)
    kept = (rates >= network.sidelink.min_rate_bps) & (closeness >= network.trust.min_closeness)
    links = Links(pairs.first, pairs.second, rates.astype(np.float32), closeness.astype(np.float32))
    return links if kept.all() else links.where(kept)


def exact_laws(network: Network) -> Laws:
    """The laws of radio and trust as they are."""
    from fedcast.network.sidelink import drawn_for_each_pair, pair_rate_bps, rate_bps

    sidelink, geometry, trust = network.sidelink, network.geometry, network.trust
    communities, words = network.communities(np.arange(network.num_users)), network.layout.words

    def rate_of_length(pairs: Pairs) -> Floats:
        return rate_bps(np.sqrt(pairs.squared_m2), sidelink, geometry)

    def rate_of_pair(pairs: Pairs) -> Floats:
        distance_m = np.sqrt(pairs.squared_m2)
        return pair_rate_bps(distance_m, words[pairs.first], words[pairs.second], sidelink, geometry, network.seed)

    def closeness(pairs: Pairs) -> Floats:
        together = communities[pairs.first] == communities[pairs.second] if trust.generator == "community" else True
        distance_m = np.sqrt(pairs.squared_m2) if trust.generator == "distance" else None
        return closeness_laws.closeness_of_draws(pairs.draws, trust, together, distance_m)

    return Laws(rate_of_pair if drawn_for_each_pair(sidelink) else rate_of_length, closeness)


def tabulated_laws(network: Network, radius_m: float) -> Laws:
    """The same laws, by lookup where that is faster; which pairs are linked is still decided by the laws themselves."""
    from fedcast.network.sidelink import drawn_for_each_pair

    laws = exact_laws(network)
    rate, closeness = laws
    if not drawn_for_each_pair(network.sidelink) and radius_m > 0:
        rate = _tabulated_rate(network, radius_m)
    if network.trust.generator in ("community", "contact"):
        closeness = _tabulated_closeness(network)
    return Laws(
        _exact_near(network.sidelink.min_rate_bps, rate, laws.rate_bps),
        _exact_near(network.trust.min_closeness, closeness, laws.closeness),
    )


def _tabulated_rate(network: Network, radius_m: float) -> Callable[[Pairs], Floats]:
    from fedcast.network.lookup import tabulate
    from fedcast.network.sidelink import rate_bps

    table = tabulate(lambda squared: rate_bps(np.sqrt(squared), network.sidelink, network.geometry), radius_m**2)
    return lambda pairs: table(pairs.squared_m2)


def _tabulated_closeness(network: Network) -> Callable[[Pairs], Floats]:
    """Looked up by 1 - draw, since draws near 0 seldom meet a threshold and those near 1 always do."""
    from fedcast.network.lookup import tabulate

    trust, communities = network.trust, network.communities(np.arange(network.num_users))
    inside = tabulate(lambda rest: closeness_laws.closeness_of_draws(1 - rest, trust, True), 1.0)
    across = tabulate(lambda rest: closeness_laws.closeness_of_draws(1 - rest, trust, False), 1.0)
    if trust.generator != "community":
        return lambda pairs: inside(1 - pairs.draws)

    def closeness(pairs: Pairs) -> Floats:
        together = communities[pairs.first] == communities[pairs.second]
        result = np.empty(len(pairs.draws))
        for table, chosen in ((inside, together), (across, ~together)):
            result[chosen] = table(1 - pairs.draws[chosen])
        return result

    return closeness


def _exact_near(
    threshold: float, fast: Callable[[Pairs], Floats], exact: Callable[[Pairs], Floats]
) -> Callable[[Pairs], Floats]:
    """The fast law, but the exact one where a threshold is so near that rounding would decide."""
    if fast is exact:
        return exact

    def law(pairs: Pairs) -> Floats:
        values = fast(pairs)
        near = np.flatnonzero(np.abs(values - threshold) <= _ROUNDING * threshold)
        if len(near):
            values[near] = exact(pairs.at(near))
        return values

    return law
