"""FedYogi (Reddi et al. 2021, Algorithm 2): FedAvg with Yogi at the server, whose mean square grows slowly."""

from __future__ import annotations

from dataclasses import dataclass

from fedcast.training.algorithms import Algorithm, State, Tensors, zeros_like
from fedcast.training.algorithms.fedadam import FedAdamOptions, adaptive_step, decayed_mean


@dataclass(frozen=True)
class FedYogiOptions(FedAdamOptions):
    """Options of FedYogi: those of FedAdam."""


def _server_state(options: FedYogiOptions, weights: Tensors) -> State:
    """Start the mean square at τ², the least value that the paper allows."""
    return {"mean": zeros_like(weights), "square": [zero.add(options.epsilon**2) for zero in zeros_like(weights)]}


def _server_step(options: FedYogiOptions, weights: Tensors, change: Tensors, server: State) -> tuple[Tensors, State]:
    """Set m ← β₁m + (1 − β₁)Δ, v ← v − (1 − β₂)Δ² sign(v − Δ²) and w ← w + ηm/(√v + τ)."""
    mean = decayed_mean(options.beta1, server["mean"], change)
    square = [
        old - (1 - options.beta2) * delta.square() * (old - delta.square()).sign()
        for old, delta in zip(server["square"], change, strict=True)
    ]
    return adaptive_step(options, weights, mean, square), {"mean": mean, "square": square}


ALGORITHM = Algorithm(
    "FedYogi: FedAvg with Yogi at the server",
    options=FedYogiOptions,
    server_state=_server_state,
    server_step=_server_step,
)
