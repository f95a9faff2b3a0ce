r"""Convex stand-ins for the objective, a family that is closed under averaging.

.. math:: g(x) = w \max_m \frac{x_m}{r_m} + w_T\, \tau(x) + b^\top x + \tfrac12 \sum_m q_m x_m^2 + \text{const}

in ratios :math:`x_m = N_m / n_m`. Averages of such functions (Eq. 33) are again such functions, so that the whole
history of a stochastic search is two numbers and two vectors. The paper's initial surrogate has a norm instead of
its square, with which the family is not closed; the square is meant.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedcast.typing import Floats


@dataclass(frozen=True, eq=False)
class Surrogate:
    """One member of the family.

    Attributes:
        sharing_weight: w, of the sharing delay.
        round_weight: w_T, of the round's delay: expected rounds.
        linear: float64[M], b.
        curvature: float64[M], q.
    """

    sharing_weight: float
    round_weight: float
    linear: Floats
    curvature: Floats

    def mix(self, share: float, other: Surrogate) -> Surrogate:
        """(1 - share) of this and share of the other (Eq. 33).

        Example:
            >>> import numpy as np
            >>> old, new = (Surrogate(1.0, rounds, np.zeros(1), np.ones(1)) for rounds in (10.0, 20.0))
            >>> old.mix(0.5, new).round_weight
            15.0
        """
        keep = 1 - share
        return Surrogate(
            keep * self.sharing_weight + share * other.sharing_weight,
            keep * self.round_weight + share * other.round_weight,
            keep * self.linear + share * other.linear,
            keep * self.curvature + share * other.curvature,
        )


def tangent(
    point: Floats, gradient: Floats, curvature: Floats, *, round_weight: float, sharing_weight: float = 1.0
) -> Surrogate:
    """The surrogate whose smooth part has `gradient` at `point` and curvature q."""
    return Surrogate(sharing_weight, round_weight, gradient - curvature * point, curvature)
