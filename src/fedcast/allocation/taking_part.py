"""Who takes part in rounds: users that hold samples, now or from a head, and can upload within their energy budget."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedcast.clustering import Clustering
from fedcast.cost import Feasibility, Fleet, feasibility, round_cost
from fedcast.errors import FedcastError
from fedcast.scenario import Allocation
from fedcast.typing import Floats

_NAMED = 10


def who_trains(clustering: Clustering, held: Floats, fleet: Fleet, settings: Allocation) -> NDArray[np.bool_]:
    """Users that take part, bool[K]; others are refused or left out.

    One that holds nothing now is no reason to refuse, and trains only if a head sends to it and rounds do not wait for
    it: without it no sample is lost.

    Args:
        clustering: who shares with whom.
        held: float64[K], samples before heads send any.
        fleet: devices and links of all K users.
        settings: what to do with users that cannot upload.
    """
    if len(fleet.devices.consent) != len(held):
        raise FedcastError(
            f"fleet: it has {len(fleet.devices.consent)} users, the clustering has {len(held)}; both must agree"
        )
    holds = held > 0
    report = feasibility(fleet, np.maximum(held, 1.0))
    able = report.feasible & holds
    if not np.array_equal(able, holds):
        of_holders = replace(report, feasible=report.feasible | ~holds)
        if settings.infeasible_users == "refuse":
            raise FedcastError(_refusal(of_holders))
        if not able.any():
            raise FedcastError(f"{_refusal(of_holders)}; nobody would be left to train")
    if holds.all():
        return able
    served = report.feasible & ~holds & (clustering.head_of >= 0)
    return able | (served & ~_hold_up(fleet, held, able))


def _hold_up(fleet: Fleet, held: Floats, trained: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Users, bool[K], who would make a round of the others longer by sending the model to and fro alone."""
    cell_of, download_s = fleet.links.cell_of, fleet.model_bits * fleet.links.down_s_per_bit
    broadcast_s = np.zeros(cell_of.max() + 1)
    np.maximum.at(broadcast_s, cell_of[trained], download_s[trained])
    round_s = round_cost(fleet.of(trained), held[trained]).round_s
    slow: NDArray[np.bool_] = (download_s > broadcast_s[cell_of]) | (broadcast_s[cell_of] + fleet.upload_s > round_s)
    return slow


def _refusal(report: Feasibility) -> str:
    users = report.infeasible_users
    lines = [report.explain(int(user)) for user in users[:_NAMED]]
    more = [f"and {len(users) - _NAMED} more"] if len(users) > _NAMED else []
    return (
        f"devices.energy_budget_j: {len(users)} of {len(report.feasible)} users cannot upload within their budget:\n  "
        + "\n  ".join(lines + more)
        + f"\na budget of {report.enough_j:g} J would do for all of them; raise it, shrink the model, or train "
        f"without them (allocation.infeasible_users = 'exclude')"
    )


def without_others(clustering: Clustering, trained: NDArray[np.bool_]) -> Clustering:
    """Nobody sends to a user that is left out; it may still lead, since sharing is not part of a round's budget."""
    if trained.all():
        return clustering
    return replace(clustering, head_of=np.where(trained, clustering.head_of, -1), proof=None)
