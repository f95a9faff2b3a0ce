r"""States of a sidelink: line of sight or not, blocked by a person or not; probability and path loss of each.

The paper averages over four states with probabilities :math:`\kappa_i(d)` and path losses :math:`A_i d^{\zeta_i}`. The
models of the standards have two states (line of sight or not) or one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedcast.network import propagation
from fedcast.typing import Floats

if TYPE_CHECKING:
    from fedcast.scenario import Geometry, Sidelink

CERTAIN = np.ones(())


class State(NamedTuple):
    """One state of a link: probability, path loss in dB, and standard deviation of the shadowing in dB."""

    weight: Floats
    loss_db: Floats
    shadow_db: Floats | float


def link_states(distance_m: ArrayLike, sidelink: Sidelink, geometry: Geometry) -> list[State]:
    """Return the states of links of the given lengths under the scenario's path-loss model; weights sum to 1.

    - ``four_state``: the paper's four states, in its order;
    - ``umi``, ``uma`` (TR 38.901 §7.4.1, with the slope before the breakpoint at every distance, since both antennas
      are low) and ``v2x_urban`` (TR 37.885 §6.2.1, without the states blocked by vehicles): line of sight or not;
    - ``los_only`` and ``macro``: one state.

    The shadowing is that of the standard's row; ``four_state`` takes the rows of UMi, without line of sight the
    optional one.

    Example:
        >>> from fedcast.scenario import Geometry, Sidelink
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
        case "umi" | "uma":
            urban = propagation.URBAN[sidelink.model]
            los = propagation.los_probability(urban, distance, height_m)
            los_db = propagation.los_loss_before_breakpoint_db(urban, distance, carrier_hz)
            nlos_db = np.maximum(los_db, propagation.nlos_row_db(urban, distance, carrier_hz, height_m))
            nlos_shadow_db, los_shadow_db = urban.nlos_shadow_db, urban.los_shadow_db
        case "v2x_urban":
            los = propagation.v2x_urban_los_probability(distance)
            los_db = propagation.v2x_urban_los_loss_db(distance, carrier_hz)
            nlos_db = propagation.v2x_urban_nlos_loss_db(distance, carrier_hz)
            nlos_shadow_db, los_shadow_db = propagation.V2X_NLOS_SHADOW_DB, propagation.V2X_LOS_SHADOW_DB
        case "macro":
            return [State(CERTAIN, propagation.macro_loss_db(distance), propagation.MACRO_SHADOW_DB)]
    return [State(1 - los, nlos_db, nlos_shadow_db), State(los, los_db, los_shadow_db)]


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
    los_db, nlos_db = (_slope(distance, sidelink, slope) for slope in (sidelink.los_exponent, sidelink.nlos_exponent))
    losses_db = nlos_db + sidelink.blockage_loss_db, los_db + sidelink.blockage_loss_db, nlos_db, los_db
    shadows_db = (propagation.UMI.optional_nlos_shadow_db, propagation.UMI.los_shadow_db) * 2
    return [State(*values) for values in zip(state_weights(los, blocked), losses_db, shadows_db, strict=True)]


def _slope(distance: Floats, sidelink: Sidelink, exponent: float) -> Floats:
    return propagation.single_slope_loss_db(distance, sidelink.carrier_hz, sidelink.reference_loss_db, exponent)


def blockage_probability(
    distance_2d_m: ArrayLike,
    *,
    blocker_density_per_m2: float,
    blocker_radius_m: float,
    blocker_height_m: float,
    first_height_m: float,
    second_height_m: float,
) -> Floats:
    r"""Return the probability that at least one person blocks the direct path.

    People are a Poisson point process of density :math:`\lambda`, each a cylinder of radius r and height h
    (Gapeyenko et al., ICC 2016):

    .. math:: p_B(d) = 1 - \exp\{-2 \lambda r (\varphi d + r)\}, \qquad
        \varphi = \frac{h - h_{low}}{h_{high} - h_{low}} \text{ clipped to } [0, 1]

    where d is the distance on the ground, and :math:`\varphi` the fraction of the path below the height of a person: 1
    between two devices that are both held lower. People no taller than the lower antenna do not block the path.

    Example:
        >>> crowd = dict(blocker_density_per_m2=0.1, blocker_radius_m=0.3, blocker_height_m=1.7)
        >>> blockage_probability([50, 100], first_height_m=10.0, second_height_m=1.5, **crowd).round(6).tolist()
        [0.084778, 0.147154]
    """
    distance = np.asarray(distance_2d_m, dtype=np.float64)
    low, high = sorted((first_height_m, second_height_m))
    if blocker_height_m <= low:
        return np.zeros_like(distance)
    fraction_below = 1.0 if blocker_height_m >= high else (blocker_height_m - low) / (high - low)
    area_m2 = 2 * blocker_radius_m * (fraction_below * distance + blocker_radius_m)
    return np.asarray(-np.expm1(-blocker_density_per_m2 * area_m2))


def state_weights(los_probability: ArrayLike, blockage_probability: ArrayLike) -> tuple[Floats, Floats, Floats, Floats]:
    r"""Return the weights :math:`\kappa_0 \dots \kappa_3` of the four states, if buildings and people are independent.

    The order is that of the paper: blocked without and with line of sight, then clear without and with line of sight.

    Example:
        >>> [weight.item() for weight in state_weights(0.5, 0.25)]
        [0.125, 0.125, 0.375, 0.375]
    """
    los = np.asarray(los_probability, dtype=np.float64)
    blocked = np.asarray(blockage_probability, dtype=np.float64)
    return (1 - los) * blocked, los * blocked, (1 - los) * (1 - blocked), los * (1 - blocked)
