r"""What sharing and training cost: seconds, joules, bytes, and who cannot take part at all.

.. math:: \text{task} = \tau^s + T \tau, \qquad \tau = \max_k \tau^d_k + \max_k (\tau^{cop}_k + \tau^u_k)

Sharing happens once; a round is a broadcast, local computing and an upload. With many cells every cell has its own
broadcast and its own uploads, and a round ends when the last cell ends.
"""

from __future__ import annotations

from fedcast.cost.computing import best_frequency_hz, compute_energy_j, compute_s, fastest_compute_s
from fedcast.cost.devices import DeviceTable, device_columns, device_table
from fedcast.cost.feasibility import Feasibility, feasibility
from fedcast.cost.fleet import Fleet, fleet_of, model_bits, model_name
from fedcast.cost.multicast import SharingCost, sharing_cost
from fedcast.cost.round import RoundCost, round_cost, task_s

__all__ = [
    "DeviceTable",
    "Feasibility",
    "Fleet",
    "RoundCost",
    "SharingCost",
    "best_frequency_hz",
    "compute_energy_j",
    "compute_s",
    "device_columns",
    "device_table",
    "fastest_compute_s",
    "feasibility",
    "fleet_of",
    "model_bits",
    "model_name",
    "round_cost",
    "sharing_cost",
    "task_s",
]
