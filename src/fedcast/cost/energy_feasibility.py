"""Find users that can take part in a round within their energy budget, and what the others would need."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, Context

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcast.cost.computing import compute_energy_j
from fedcast.cost.fleet import Fleet
from fedcast.formatting import user_label
from fedcast.typing import Floats, Ints, Names

_DIGITS = 3


def rounded_up(value: float) -> float:
    """Return the smallest number of three digits that is not below the value, so that a budget of it suffices.

    Example:
        >>> rounded_up(1.0201), rounded_up(1.02), rounded_up(0.00341)
        (1.03, 1.02, 0.00341)
    """
    return float(Context(prec=_DIGITS, rounding=ROUND_CEILING).create_decimal(repr(float(value))))


@dataclass(frozen=True)
class Feasibility:
    """Users that can take part in a round within their energy budget, [K] each; see `feasibility`."""

    feasible: NDArray[np.bool_]
    budget_j: Floats
    upload_energy_j: Floats
    smallest_budget_j: Floats
    names: Names | None = None

    @property
    def infeasible_users(self) -> Ints:
        """Return the ids of the users that cannot take part."""
        return np.flatnonzero(~self.feasible)

    @property
    def enough_j(self) -> float:
        """Return a budget that suffices for all users that cannot take part, rounded up to three digits."""
        return rounded_up(self.smallest_budget_j[~self.feasible].max(initial=0.0))

    def explain(self, user: int) -> str:
        """Return one line of text about a user."""
        upload, enough = rounded_up(self.upload_energy_j[user]), rounded_up(self.smallest_budget_j[user])
        advice = "" if self.feasible[user] else f"; {enough:g} J would suffice"
        budget = f"a budget of {self.budget_j[user]:.3g} J per round"
        return f"{user_label(user, self.names)}: the upload takes {upload:g} J of {budget}{advice}"


def feasibility(fleet: Fleet, samples: ArrayLike) -> Feasibility:
    r"""Return which users have a frequency within their energy budget, and what the others would need.

    A user is infeasible if and only if its upload alone takes the whole budget. A budget just above that does not help:
    the device would compute arbitrarily slowly and delay every round. The smallest budget reported therefore leaves for
    computing the present budget, as if the upload were free, but at most what the highest frequency takes:

    .. math:: \gamma^u + \min(\gamma_{th}, \varsigma L E \tilde n f_{max}^2)

    With ``fractional`` uploads this assumes an equal split of the band. `samples` are those after sharing.

    Example:
        >>> from fedcast.cost import fleet_of
        >>> from fedcast.scenario import Scenario
        >>> from fedcast.network import layout_from_positions
        >>> scenario = Scenario.model_validate({"training": {"model": "cnn"}, "devices": {"energy_budget_j": 0.005}})
        >>> layout = layout_from_positions([[0.0, 0.0], [900.0, 0.0]], scenario.geometry)
        >>> feasibility(fleet_of(scenario, layout), [600, 600]).explain(1)
        'user 1: the upload takes 0.0208 J of a budget of 0.005 J per round; 0.0258 J would suffice'
    """
    work, upload_j, budget = fleet.cycles(samples), fleet.upload_energy_j, fleet.devices.energy_budget_j
    at_most_j = compute_energy_j(work, fleet.devices.max_frequency_hz, fleet.energy_coefficient)
    smallest = upload_j + np.minimum(budget, at_most_j)
    feasible = (upload_j < budget) | ((work == 0) & (upload_j <= budget))
    return Feasibility(feasible, budget, upload_j, smallest, fleet.devices.names)
