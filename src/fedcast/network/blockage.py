"""People in the way: how often a body stands in the path, and the four states of a sidelink."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedcast.typing import Floats


class StateWeights(NamedTuple):
    """Probability of each state of a link, float64[...] each, in the paper's order; they sum to 1."""

    nlos_blocked: Floats
    los_blocked: Floats
    nlos_clear: Floats
    los_clear: Floats


def blockage_probability(
    distance_2d_m: ArrayLike,
    *,
    blocker_density_per_m2: float,
    blocker_radius_m: float,
    blocker_height_m: float,
    first_height_m: float,
    second_height_m: float,
) -> Floats:
    r"""Probability that at least one person blocks the straight path.

    People stand as a Poisson process of density :math:`\lambda`, each a cylinder of radius r and height h
    (Gapeyenko et al., ICC 2016):

    .. math:: p_B(d) = 1 - \exp\{-2 \lambda r (\varphi d + r)\}, \qquad
        \varphi = \frac{h - h_{low}}{h_{high} - h_{low}} \text{ clipped to } [0, 1]

    :math:`\varphi` is the share of the path that runs below head height: all of it between two devices that are held
    lower than that. Nobody blocks if people are no taller than the lower antenna.

    Args:
        distance_2d_m: [...], distance on the ground.
        blocker_density_per_m2: people per square metre.
        blocker_radius_m: radius of a person.
        blocker_height_m: height of a person.
        first_height_m: antenna height of one end.
        second_height_m: antenna height of the other.

    Returns:
        float64[...], in [0, 1).

    Example:
        >>> crowd = dict(blocker_density_per_m2=0.1, blocker_radius_m=0.3, blocker_height_m=1.7)
        >>> blockage_probability([50, 100], first_height_m=10.0, second_height_m=1.5, **crowd).round(6).tolist()
        [0.084778, 0.147154]
    """
    distance = np.asarray(distance_2d_m, dtype=np.float64)
    low, high = sorted((first_height_m, second_height_m))
    if blocker_height_m <= low:
        return np.zeros_like(distance)
    exposed = 1.0 if blocker_height_m >= high else (blocker_height_m - low) / (high - low)
    area_m2 = 2 * blocker_radius_m * (exposed * distance + blocker_radius_m)
    probability: Floats = -np.expm1(-blocker_density_per_m2 * area_m2)
    return probability


def state_weights(los_probability: ArrayLike, blockage_probability: ArrayLike) -> StateWeights:
    r"""Weights :math:`\kappa_0 \dots \kappa_3` of the four states: buildings and people block independently.

    Args:
        los_probability: [...], that no building is in the way.
        blockage_probability: [...], that a person is.

    Example:
        >>> [weight.item() for weight in state_weights(0.5, 0.25)]
        [0.125, 0.125, 0.375, 0.375]
    """
    los = np.asarray(los_probability, dtype=np.float64)
    blocked = np.asarray(blockage_probability, dtype=np.float64)
    return StateWeights((1 - los) * blocked, los * blocked, (1 - los) * (1 - blocked), los * (1 - blocked))
