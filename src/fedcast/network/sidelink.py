r"""The sidelink between two users: SINR, rate, reach, and rates while all heads transmit at once.

A link is in one of several states (line of sight or not, blocked by a person or not), each with a weight
:math:`\kappa_i` and a path loss. The paper's SINR is the average over them,

.. math:: \gamma(d) = \frac{\sum_i \kappa_i(d)\, P\, G_{tx} G_{rx}\, S_i A_i^{-1} d^{-\zeta_i}}
    {N_0 B \cdot 10^{(F + I)/10}}, \qquad v = B \log_2(1 + \gamma)

with S the shadowing, F the noise figure in dB and I the interference as a rise of the noise in dB. Both antennas are at
the height of a user, so that 2D and 3D distances are equal. Distances below `min_distance_m` are set to it. Of the
geometry only `user_height_m` is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from fedcast.errors import FedcastError
from fedcast.network.fading import awgn_efficiency, ergodic_efficiency
from fedcast.network.link_states import CERTAIN, State, link_states
from fedcast.network.propagation import from_db, noise_power_w
from fedcast.random import U64, pair_uniform
from fedcast.typing import Floats, Ints

if TYPE_CHECKING:
    from fedcast.scenario import Geometry, Sidelink

# If states or shadowing are drawn, at most this fraction of links of uniformly placed users is longer than `reach_m`.
NEGLECTED_LINKS = 1e-4

_REACH_GRID = 2048
_REACH_BISECTIONS = 60
_SHADOW_BISECTIONS = 40
_LARGEST_SHADOW = 8.0  # standard deviations; 6e-16 of all draws exceed it
_BLOCK_LINKS = 1 << 15
_HALF_STEP = 2.0**-54  # half the spacing of `pair_uniform`, so that a normal draw is never infinite


def sinr(distance_m: ArrayLike, sidelink: Sidelink, geometry: Geometry) -> Floats:
    r"""Return the linear SINR :math:`\gamma(d)`, averaged over the states of a link; interference is the noise rise.

    Example:
        >>> from fedcast.network.propagation import to_db
        >>> from fedcast.scenario import Geometry, Sidelink
        >>> single = Sidelink(tx_gain_db=0.0, rx_gain_db=0.0)
        >>> to_db(sinr([10, 100], single, Geometry())).round(3).tolist()
        [4.391, -25.191]
    """
    _check_deterministic(sidelink)
    received_w = _mean_received_w(link_states(distance_m, sidelink, geometry), sidelink, _wanted_gain_db(sidelink))
    return received_w / _noise_w(sidelink)


def rate_bps(distance_m: ArrayLike, sidelink: Sidelink, geometry: Geometry) -> Floats:
    r"""Return the rate of a link of given length, :math:`v = B \log_2(1 + \gamma)`; ergodic fading: its mean.

    With `state_mode` = mean_sinr this is the rate of the mean SINR, as printed in the paper, which is optimistic; with
    mean_rate it is the mean of the rates of the states. Interference is the noise rise, also in scenarios with
    concurrent heads, whose rates are known only after clustering. If states or shadowing are drawn: `pair_rate_bps`.

    Example:
        >>> from fedcast.scenario import Geometry, Sidelink
        >>> rate_bps([100, 555], Sidelink(), Geometry()).round(-3).tolist()
        [815740000.0, 349000.0]
    """
    _check_deterministic(sidelink)
    # Nothing is drawn, so that users and seed do not matter.
    return pair_rate_bps(distance_m, 0, 0, sidelink, geometry, 0)


def pair_rate_bps(
    distance_m: ArrayLike, first: ArrayLike, second: ArrayLike, sidelink: Sidelink, geometry: Geometry, seed: int
) -> Floats:
    """Return the rates of given pairs: as `rate_bps`, with one draw of shadowing and of the state for each pair.

    A draw is a function of (seed, unordered pair) alone: it is the same in both directions and does not depend on
    other users. Drawn shadowing replaces the margin and is the same number of standard deviations in every state.

    Example:
        >>> from fedcast.scenario import Geometry, Sidelink
        >>> drawn = Sidelink(shadowing="drawn")
        >>> there = pair_rate_bps(100.0, 3, 8, drawn, Geometry(), seed=0)
        >>> back = pair_rate_bps(100.0, 8, 3, drawn, Geometry(), seed=0)
        >>> bool(there == back)
        True
    """
    arrays = np.broadcast_arrays(distance_m, first, second)
    distance, one, other = (array.reshape(-1) for array in arrays)
    rates = np.empty(arrays[0].size)
    # Blocks fit into the cache: several times faster on millions of links.
    for start in range(0, len(rates), _BLOCK_LINKS):
        block = slice(start, start + _BLOCK_LINKS)
        states, shadow = _pair_states(distance[block], one[block], other[block], sidelink, geometry, seed)
        rates[block] = sidelink.bandwidth_hz * _efficiency(states, sidelink, _noise_w(sidelink), shadow)
    return rates.reshape(arrays[0].shape)


def drawn_for_each_pair(sidelink: Sidelink) -> bool:
    """Return whether shadowing or state are drawn, so that the rate depends on the pair, not only on the distance."""
    return sidelink.shadowing == "drawn" or sidelink.state_mode == "sampled"


def concurrent_rate_bps(
    positions_m: Floats,
    members: ArrayLike,
    heads: ArrayLike,
    sidelink: Sidelink,
    geometry: Geometry,
    seed: int,
    *,
    interferer_gain_db: float | None = None,
    hash_keys: U64 | None = None,
) -> Floats:
    r"""Return the rate from the head of each member while all heads transmit; their sum replaces the noise rise.

    .. math:: \gamma_c = \frac{\text{received from } c\text{'s head}}{N_0 B \cdot 10^{F/10}
        + \sum_{l \ne m} P\, G \sum_i \kappa_i A_i^{-1} d_{l,c}^{-\zeta_i}}

    Interference is averaged over the states, or taken in the drawn state of the pair, with the drawn shadowing of the
    pair but without the margin: a margin protects the wanted link and must not weaken interference. Time grows with
    members x heads; memory does not, since they are processed in blocks.

    Positions are float[K, 2] of all users, `members` and `heads` int[N] ids; `hash_keys` uint64[K] determine the draws
    of users (None: their ids). `interferer_gain_db` is the sum of both antenna gains when the arrays do not point at
    each other (None: the worst case, `tx_gain_db` + `rx_gain_db`).

    Example:
        >>> from fedcast.scenario import Geometry, Sidelink
        >>> positions = np.array([[0.0, 0.0], [50.0, 0.0], [300.0, 0.0], [350.0, 0.0]])
        >>> alone = concurrent_rate_bps(positions, [1], [0], Sidelink(), Geometry(), seed=0)
        >>> both = concurrent_rate_bps(positions, [1, 3], [0, 2], Sidelink(), Geometry(), seed=0)
        >>> bool(both[0] < alone[0])
        True
    """
    receivers, own = np.asarray(members, dtype=np.int64), np.asarray(heads, dtype=np.int64)
    senders = np.unique(own)
    if (both := np.intersect1d(receivers, senders)).size:
        raise FedcastError(f"user {both[0]} is a head and a member: it cannot transmit and receive at once")
    keys = np.arange(len(positions_m), dtype=np.uint64) if hash_keys is None else hash_keys
    gain_db = _wanted_gain_db(sidelink, margin=False) if interferer_gain_db is None else interferer_gain_db
    thermal_w = _noise_w(sidelink.model_copy(update={"noise_rise_db": 0.0}))
    rates = np.empty(len(receivers))

    def states_between(first: Ints, second: Ints) -> tuple[list[State], Floats | None]:
        distance = np.hypot(*np.moveaxis(positions_m[first] - positions_m[second], -1, 0))
        return _pair_states(distance, keys[first], keys[second], sidelink, geometry, seed)

    step = max(1, _BLOCK_LINKS // max(len(senders), 1))
    for start in range(0, len(receivers), step):
        block = slice(start, start + step)
        here, head = receivers[block], own[block]
        others, shadow = states_between(here[:, None], senders[None, :])
        received_w = np.broadcast_to(_mean_received_w(others, sidelink, gain_db, shadow), (len(here), len(senders)))
        interference_w = np.where(senders[None, :] == head[:, None], 0.0, received_w).sum(axis=1)
        states, shadow = states_between(here, head)
        rates[block] = _efficiency(states, sidelink, thermal_w + interference_w, shadow)
    return sidelink.bandwidth_hz * rates


def reach_m(sidelink: Sidelink, geometry: Geometry) -> float:
    r"""Return the length of the longest link that can meet `min_rate_bps`.

    Without draws it is exact: longer links do not meet the threshold. With drawn shadowing or sampled states links of
    any length can meet it; the returned distance then leaves out at most one link in 10,000 (`NEGLECTED_LINKS`) of
    uniformly placed users. With p(r) the probability that a link of length r meets the threshold,

    .. math:: \int_{reach}^\infty p(r)\, r\, dr \le 10^{-4} \int_0^\infty p(r)\, r\, dr

    The reach is infinite if the threshold is 0, and 0 if not even the shortest link meets it.

    Example:
        >>> from fedcast.scenario import Geometry, Sidelink
        >>> round(reach_m(Sidelink(), Geometry()))
        555
        >>> round(reach_m(Sidelink(model="los_only", tx_gain_db=0.0, rx_gain_db=0.0), Geometry()))
        877
    """
    unreachable_m = _unreachable_distance_m(sidelink, geometry) if sidelink.min_rate_bps > 0 else math.inf
    if unreachable_m == math.inf:
        return math.inf
    grid = np.geomspace(sidelink.min_distance_m, unreachable_m, _REACH_GRID)
    probability = _link_probability(grid, sidelink, geometry)
    if not probability.any():
        return 0.0
    if drawn_for_each_pair(sidelink):
        rings = probability * grid**2  # area of a ring on a geometric grid
        beyond = np.cumsum(rings[::-1])[::-1]
        return float(grid[np.flatnonzero(beyond > NEGLECTED_LINKS * beyond[0])[-1] + 1])
    low, high = grid[np.flatnonzero(probability)[-1] :][:2]
    for _ in range(_REACH_BISECTIONS):
        middle = (low + high) / 2
        met = rate_bps(middle, sidelink, geometry) >= sidelink.min_rate_bps
        low, high = (middle, high) if met else (low, middle)
    return float(high)


def _unreachable_distance_m(sidelink: Sidelink, geometry: Geometry) -> float:
    """Return a distance at which the best state with the largest shadowing gain does not meet the threshold."""
    distance = sidelink.min_distance_m
    shadow = np.asarray(_LARGEST_SHADOW) if sidelink.shadowing == "drawn" else None
    while True:
        distance *= 2
        certain = [[state._replace(weight=CERTAIN)] for state in link_states(distance, sidelink, geometry)]
        best = max(float(_efficiency(state, sidelink, _noise_w(sidelink), shadow)) for state in certain)
        if sidelink.bandwidth_hz * best < sidelink.min_rate_bps:
            return distance


def _link_probability(distance: Floats, sidelink: Sidelink, geometry: Geometry) -> Floats:
    """Return the probability that a link of this length meets `min_rate_bps`; 0 or 1 without draws."""
    states = link_states(distance, sidelink, geometry)
    if sidelink.state_mode != "sampled":
        return _rate_probability(states, sidelink)
    parts = [state.weight * _rate_probability([state._replace(weight=CERTAIN)], sidelink) for state in states]
    return np.asarray(np.sum(parts, 0))


def _rate_probability(states: Sequence[State], sidelink: Sidelink) -> Floats:
    noise_w, needed = _noise_w(sidelink), sidelink.min_rate_bps / sidelink.bandwidth_hz
    if sidelink.shadowing == "margin":
        return (_efficiency(states, sidelink, noise_w) >= needed).astype(np.float64)
    from scipy.special import ndtr

    # The rate increases with the shadowing draw z: bisect for the z at which the threshold is met.
    low = np.full(states[0].loss_db.shape, -_LARGEST_SHADOW)
    high = -low
    for _ in range(_SHADOW_BISECTIONS):
        middle = (low + high) / 2
        met = _efficiency(states, sidelink, noise_w, middle) >= needed
        low, high = np.where(met, low, middle), np.where(met, middle, high)
    return np.where(high < _LARGEST_SHADOW, ndtr(-high), 0.0)


def _pair_states(
    distance_m: ArrayLike, first: ArrayLike, second: ArrayLike, sidelink: Sidelink, geometry: Geometry, seed: int
) -> tuple[list[State], Floats | None]:
    """Return the possible states of each pair (one if drawn), and drawn shadowing in standard deviations, or None."""
    states = link_states(distance_m, sidelink, geometry)
    if sidelink.state_mode == "sampled":
        states = [_drawn_state(states, pair_uniform(seed, "sidelink state", first, second))]
    if sidelink.shadowing == "margin":
        return states, None
    from scipy.special import ndtri

    shadow: Floats = ndtri(pair_uniform(seed, "sidelink shadowing", first, second) + _HALF_STEP)
    return states, shadow


def _drawn_state(states: Sequence[State], uniform: Floats) -> State:
    *others, last = states
    if not others:
        return last
    drawn = [uniform < threshold for threshold in accumulate(state.weight for state in others)]
    loss_db = np.select(drawn, [state.loss_db for state in others], last.loss_db)
    shadow_db = np.select(drawn, [state.shadow_db for state in others], last.shadow_db)
    return State(CERTAIN, loss_db, shadow_db)


def _efficiency(
    states: Sequence[State], sidelink: Sidelink, noise_w: float | Floats, shadow: Floats | None = None
) -> Floats:
    """Return the spectral efficiency in bit/s/Hz; `noise_w` is noise plus interference in watts."""
    efficiency = ergodic_efficiency if sidelink.fading == "ergodic" else awgn_efficiency
    gain_db = _wanted_gain_db(sidelink, margin=shadow is None)
    if sidelink.state_mode != "mean_rate":
        return efficiency(_mean_received_w(states, sidelink, gain_db, shadow) / noise_w)
    rates = (s.weight * efficiency(_received_w(s, sidelink, gain_db, shadow) / noise_w) for s in states)
    return np.asarray(sum(rates), dtype=np.float64)


def _mean_received_w(
    states: Sequence[State], sidelink: Sidelink, gain_db: float, shadow: Floats | None = None
) -> Floats:
    received = (state.weight * _received_w(state, sidelink, gain_db, shadow) for state in states)
    return np.asarray(sum(received), dtype=np.float64)


def _received_w(state: State, sidelink: Sidelink, gain_db: float, shadow: Floats | None) -> Floats:
    shadow_db = 0.0 if shadow is None else state.shadow_db * shadow
    return sidelink.power_w * from_db(gain_db + shadow_db - state.loss_db)


def _wanted_gain_db(sidelink: Sidelink, *, margin: bool = True) -> float:
    return sidelink.tx_gain_db + sidelink.rx_gain_db - (sidelink.shadow_margin_db if margin else 0.0)


def _noise_w(sidelink: Sidelink) -> float:
    density, figure, rise = sidelink.noise_density_dbm_hz, sidelink.noise_figure_db, sidelink.noise_rise_db
    return noise_power_w(sidelink.bandwidth_hz, density, figure, rise)


def _check_deterministic(sidelink: Sidelink) -> None:
    if drawn_for_each_pair(sidelink):
        raise FedcastError(
            f"with shadowing {sidelink.shadowing!r} and state_mode {sidelink.state_mode!r} the rate depends on the "
            "pair of users, not only on the distance; use pair_rate_bps"
        )
