r"""The states a sidelink can be in: in sight or not, behind a person or not; how likely, and what they cost.

The paper averages over four states with probabilities :math:`\kappa_i(d)` and losses :math:`A_i d^{\zeta_i}`; the
models of the standards have two, or one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedcast.network import propagation
from fedcast.network.blockage import blockage_probability, state_weights
from fedcast.scenario.sections import Geometry, Sidelink
from fedcast.typing import Floats

CERTAIN = np.ones(())


class State(NamedTuple):
    """One state of a link: its probability, its path loss, and how much shadowing varies in it."""

    weight: Floats
    loss_db: Floats
    shadow_db: Floats | float


def link_states(distance_m: ArrayLike, sidelink: Sidelink, geometry: Geometry) -> list[State]:
    """The states of links of these lengths under the scenario's path-loss model.

    ``four_state`` has the paper's four, in its order; ``umi`` and ``uma`` (TR 38.901, with the first slope of its line
    of sight at any distance, since both antennas are low) and ``v2x_urban`` (TR 37.885, without the states behind
    vehicles) have two, in sight or not; ``los_only`` and ``macro`` have one.
    Shadowing is that of the standard's row, for ``four_state`` that of UMi in sight and of its optional row without.

    Args:
        distance_m: [...], distance on the ground.
        sidelink: the link's parameters.
        geometry: `user_height_m` is read.

    Example:
        >>> states = link_states(100.0, Sidelink(), Geometry())
        >>> [(round(state.weight.item(), 3), round(state.loss_db.item(), 1)) for state in states]
        [(0.348, 145.1), (0.104, 123.3), (0.421, 125.1), (0.127, 103.3)]
    """
    distance = np.maximum(np.asarray(distance_m, dtype=np.float64), sidelink.min_distance_m)
    carrier_hz, height_m = sidelink.carrier_hz, geometry.user_height_m
    match sidelink.model:
        case "four_state":
            return _four_states(distance, sidelink, height_m)
        case "los_only":
            loss = _slope(distance, sidelink, sidelink.los_exponent)
            return [State(CERTAIN, loss, propagation.UMI.los_shadow_db)]
        case "umi":
            return _urban_states(propagation.UMI, distance, carrier_hz, height_m)
        case "uma":
            return _urban_states(propagation.UMA, distance, carrier_hz, height_m)
        case "v2x_urban":
            los = propagation.v2x_urban_los_probability(distance)
            seen = propagation.v2x_urban_los_loss_db(distance, carrier_hz)
            unseen = propagation.v2x_urban_nlos_loss_db(distance, carrier_hz)
            return [
                State(1 - los, unseen, propagation.V2X_NLOS_SHADOW_DB),
                State(los, seen, propagation.V2X_LOS_SHADOW_DB),
            ]
        case "macro":
            return [State(CERTAIN, propagation.macro_loss_db(distance), propagation.MACRO_SHADOW_DB)]


def _four_states(distance: Floats, sidelink: Sidelink, height_m: float) -> list[State]:
    los = propagation.los_probability(propagation.UMI, distance, height_m)
    blocked = blockage_probability(
        distance,
        blocker_density_per_m2=sidelink.blocker_density_per_m2,
        blocker_radius_m=sidelink.blocker_radius_m,
        blocker_height_m=sidelink.blocker_height_m,
        first_height_m=height_m,
        second_height_m=height_m,
    )
    weights = state_weights(los, blocked)
    seen, unseen = (
        _slope(distance, sidelink, exponent) for exponent in (sidelink.los_exponent, sidelink.nlos_exponent)
    )
    los_shadow_db, nlos_shadow_db = propagation.UMI.los_shadow_db, propagation.UMI.optional_nlos_shadow_db
    return [
        State(weights.nlos_blocked, unseen + sidelink.blockage_loss_db, nlos_shadow_db),
        State(weights.los_blocked, seen + sidelink.blockage_loss_db, los_shadow_db),
        State(weights.nlos_clear, unseen, nlos_shadow_db),
        State(weights.los_clear, seen, los_shadow_db),
    ]


def _urban_states(urban: propagation.Urban, distance: Floats, carrier_hz: float, height_m: float) -> list[State]:
    los = propagation.los_probability(urban, distance, height_m)
    seen = propagation.los_loss_before_breakpoint_db(urban, distance, carrier_hz)
    unseen = np.maximum(seen, propagation.nlos_row_db(urban, distance, carrier_hz, height_m))
    return [State(1 - los, unseen, urban.nlos_shadow_db), State(los, seen, urban.los_shadow_db)]


def _slope(distance: Floats, sidelink: Sidelink, exponent: float) -> Floats:
    return propagation.single_slope_loss_db(distance, sidelink.carrier_hz, sidelink.reference_loss_db, exponent)
