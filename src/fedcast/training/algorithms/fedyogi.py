"""FedYogi (Reddi et al. 2021, Algorithm 2): FedAvg with Yogi at the server, not bias-corrected."""

from __future__ import annotations

from fedcast.training.algorithms.fedadam import adaptive

# The mean square starts at τ², the least value that the paper allows, and grows slowly, by −(1 − β₂)Δ² sign(v − Δ²).
ALGORITHM = adaptive(
    "FedYogi: FedAvg with Yogi at the server",
    1.0,
    lambda beta, v, square: v - (1 - beta) * square * (v - square).sign(),
)
