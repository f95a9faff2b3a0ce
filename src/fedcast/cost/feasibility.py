"""Who can take part in a round within its energy budget, and what the others would need."""

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
    """The smallest number of three digits that is not below the value: who follows it does not fall short.

    Example:
        >>> rounded_up(1.0201), rounded_up(1.02), rounded_up(0.00341)
        (1.03, 1.02, 0.00341)
    """
    return float(Context(prec=_DIGITS, rounding=ROUND_CEILING).create_decimal(repr(float(value))))


@dataclass(frozen=True)
class Feasibility:
    """Who can take part in a round within its energy budget.

    Attributes:
        feasible: bool[K].
        budget_j: float64[K], the budgets.
        upload_energy_j: float64[K]; a budget that is not above it leaves nothing to compute with.
        smallest_budget_j: float64[K], the smallest budget that would do: the upload, and computing as fast as the
            present budget allows without it.
        names: str[K], of the users, where a table gives them names.
    """

    feasible: NDArray[np.bool_]
    budget_j: Floats
    upload_energy_j: Floats
    smallest_budget_j: Floats
    names: Names | None = None

    @property
    def infeasible_users(self) -> Ints:
        """Ids of the users that cannot take part."""
        return np.flatnonzero(~self.feasible)

    @property
    def enough_j(self) -> float:
        """A budget that would do for all who cannot take part, in three digits, so that it can be said and set."""
        return rounded_up(self.smallest_budget_j[~self.feasible].max(initial=0.0))

    def explain(self, user: int) -> str:
        """One line about a user, for a person."""
        upload, enough = rounded_up(self.upload_energy_j[user]), rounded_up(self.smallest_budget_j[user])
        way_out = "" if self.feasible[user] else f"; {enough:g} J would do"
        budget = f"a budget of {self.budget_j[user]:.3g} J per round"
        return f"{user_label(user, self.names)}: the upload takes {upload:g} J of {budget}{way_out}"


def feasibility(fleet: Fleet, samples: ArrayLike) -> Feasibility:
    r"""Which users have a frequency that meets their energy budget, and what the others would need.

    A user is infeasible iff its upload alone takes the whole budget. A budget just above that is no help: the device
    would compute arbitrarily slowly and hold up every round. The smallest budget reported therefore leaves for
    computing what the present budget could buy if the upload were free, at most what the highest frequency takes:

    .. math:: \gamma^u + \min(\gamma_{th}, \varsigma L E \tilde n f_{max}^2)

    With it the user computes as fast as any user with so many samples can today. With ``fractional`` uploads this is
    under an equal split of the band.

    Args:
        fleet: devices, links, task.
        samples: float[K], samples of each user, after sharing.

    Example:
        >>> from fedcast.cost import fleet_of
        >>> from fedcast.scenario import Scenario
        >>> from fedcast.network import layout_from_positions
        >>> scenario = Scenario.model_validate({"training": {"model": "cnn"}, "devices": {"energy_budget_j": 0.005}})
        >>> layout = layout_from_positions([[0.0, 0.0], [900.0, 0.0]], scenario.geometry)
        >>> feasibility(fleet_of(scenario, layout), [600, 600]).explain(1)
        'user 1: the upload takes 0.0208 J of a budget of 0.005 J per round; 0.0258 J would do'
    """
    work, upload_j, budget = fleet.cycles(samples), fleet.upload_energy_j, fleet.devices.energy_budget_j
    at_most_j = compute_energy_j(work, fleet.devices.max_frequency_hz, fleet.energy_coefficient)
    smallest = upload_j + np.minimum(budget, at_most_j)
    feasible = (upload_j < budget) | ((work == 0) & (upload_j <= budget))
    return Feasibility(feasible, budget, upload_j, smallest, fleet.devices.names)
