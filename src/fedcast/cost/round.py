"""Delay, energy and bytes of one round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedcast.cost.computing import best_frequency_hz, compute_energy_j, compute_s
from fedcast.cost.fleet import Fleet
from fedcast.cost.uplink import largest_of_cell, schedule
from fedcast.network import BITS_PER_BYTE
from fedcast.typing import Floats


@dataclass(frozen=True)
class RoundCost:
    """Cost of one round, user by user (float64[K] each), and bytes of all users.

    Attributes:
        broadcast_s: until the last user of the user's cell has received the model.
        upload_s: the user's own transmission.
        span_s: from the end of computing to the end of the round, if the round waits for this user: its upload; with
            ``waves`` its wave and those after it.
        uploaded_bytes: models sent by users.
        broadcast_bytes: models sent by base stations, one broadcast for each cell.
    """

    broadcast_s: Floats
    compute_s: Floats
    upload_s: Floats
    span_s: Floats
    frequency_hz: Floats
    compute_energy_j: Floats
    upload_energy_j: Floats
    uploaded_bytes: float
    broadcast_bytes: float

    @property
    def critical_user(self) -> int:
        """Return the user that the round waits for."""
        return int((self.broadcast_s + self.compute_s + self.span_s).argmax())

    @property
    def phases_s(self) -> tuple[float, float, float]:
        """Return download, computing and upload of the critical user; their sum is the delay of the round."""
        user = self.critical_user
        return float(self.broadcast_s[user]), float(self.compute_s[user]), float(self.span_s[user])

    @property
    def round_s(self) -> float:
        """Return the delay of the round, that of its slowest cell."""
        return sum(self.phases_s)

    @property
    def energy_j(self) -> Floats:
        """Return the energy of each user, float64[K]."""
        return self.compute_energy_j + self.upload_energy_j


def round_cost(fleet: Fleet, samples: ArrayLike, frequency_hz: ArrayLike | None = None) -> RoundCost:
    r"""Return delay and energy of a round under the scenario's `uplink`.

    ``parallel`` (the paper): every user has a subcarrier, :math:`\max_k \tau^d_k + \max_k(\tau^{cop}_k + \tau^u_k)`.
    ``waves``: R users of a cell at a time, see `fedcast.cost.uplink.waves_span_s`. ``fractional``: a cell's band is
    split such that its users finish together, but no user sends for longer than its energy lasts; frequencies are
    chosen as for an equal split of the band, so that every budget is met and the split can only shorten the round.

    Args:
        fleet: of the users of this round.
        samples: float[K], after sharing.
        frequency_hz: float[K]; None: the best for each user. The round of a user at 0 Hz never ends (infinity).

    Example:
        >>> from fedcast.cost import fleet_of
        >>> from fedcast.scenario import Scenario
        >>> from fedcast.network import layout_from_positions
        >>> scenario = Scenario.model_validate({"training": {"model": "cnn"}})
        >>> layout = layout_from_positions([[200.0, 0.0], [-1000.0, 0.0]], scenario.geometry)
        >>> cost = round_cost(fleet_of(scenario, layout), [600, 600])
        >>> round(cost.round_s, 3), cost.critical_user
        (3.074, 1)
    """
    work = fleet.cycles(samples)
    devices, links = fleet.devices, fleet.links
    if frequency_hz is None:
        frequency_hz = best_frequency_hz(work, fleet.energy_left_j, devices.max_frequency_hz, fleet.energy_coefficient)
    frequency = np.asarray(frequency_hz, dtype=np.float64)
    computing_s = compute_s(work, frequency)
    computing_j = compute_energy_j(work, frequency, fleet.energy_coefficient)
    affordable_s = np.maximum((devices.energy_budget_j - computing_j) / devices.power_w, fleet.upload_s)
    uploads = schedule(fleet.model_bits, computing_s, links, fleet.cellular, max_upload_s=affordable_s)
    broadcast = largest_of_cell(fleet.model_bits * links.down_s_per_bit, links.cell_of)
    model_bytes = fleet.model_bits / BITS_PER_BYTE
    return RoundCost(
        broadcast[links.cell_of],
        computing_s,
        uploads.upload_s,
        uploads.span_s,
        frequency,
        computing_j,
        devices.power_w * uploads.upload_s,
        model_bytes * len(work),
        model_bytes * len(np.unique(links.cell_of)),
    )
