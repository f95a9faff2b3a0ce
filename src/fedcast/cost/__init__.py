r"""Cost of sharing and training in seconds, joules and bytes, and which users can take part.

.. math:: \text{task} = \tau^s + T \tau, \qquad \tau = \max_k \tau^d_k + \max_k (\tau^{cop}_k + \tau^u_k)

Sharing happens once. A round is a broadcast of the model, local computing and an upload. With several cells every cell
has its own broadcast and uploads, and a round ends when the last cell ends.
"""

from __future__ import annotations

from fedcast.cost.expected import Draws, ExpectedRound, expected_round
from fedcast.cost.fleet import (
    DeviceTable,
    Fleet,
    device_assumptions,
    device_columns,
    device_table,
    draws_of,
    fleet_of,
    model_bits,
    upload_bits,
    upload_notes,
)
from fedcast.cost.kinds import budget_notes, check_counts_budget, generates, privacy_mu, private_kinds, shareable
from fedcast.cost.round import (
    Feasibility,
    RoundCost,
    best_frequency_hz,
    compute_energy_j,
    compute_s,
    fastest_compute_s,
    feasibility,
    round_cost,
)
from fedcast.cost.task import (
    Delay,
    Metrics,
    SharingCost,
    TaskCost,
    broadcast_cost,
    metrics_of,
    sharing_cost,
    task_cost,
    task_s,
)
from fedcast.cost.weights import ModelSize, model_assumptions, model_size

__all__ = [
    "Delay",
    "DeviceTable",
    "Draws",
    "ExpectedRound",
    "Feasibility",
    "Fleet",
    "Metrics",
    "ModelSize",
    "RoundCost",
    "SharingCost",
    "TaskCost",
    "best_frequency_hz",
    "broadcast_cost",
    "budget_notes",
    "check_counts_budget",
    "compute_energy_j",
    "compute_s",
    "device_assumptions",
    "device_columns",
    "device_table",
    "draws_of",
    "expected_round",
    "fastest_compute_s",
    "feasibility",
    "fleet_of",
    "generates",
    "metrics_of",
    "model_assumptions",
    "model_bits",
    "model_size",
    "privacy_mu",
    "private_kinds",
    "round_cost",
    "shareable",
    "sharing_cost",
    "task_cost",
    "task_s",
    "upload_bits",
    "upload_notes",
]
