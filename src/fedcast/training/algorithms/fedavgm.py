"""FedAvgM (Hsu et al. 2019): FedAvg with momentum at the server."""

from __future__ import annotations

from dataclasses import dataclass

from fedcast.registry import option
from fedcast.training.algorithms import Algorithm, State, Tensors, zero_state


@dataclass(frozen=True)
class FedAvgMOptions:
    """Options of FedAvgM."""

    learning_rate: float = option(1.0, "step size η of the server", gt=0)
    momentum: float = option(0.9, "momentum β of the server", ge=0, lt=1)


def _momentum_step(options: FedAvgMOptions, weights: Tensors, change: Tensors, server: State) -> tuple[Tensors, State]:
    """Set m ← βm + Δ and w ← w + ηm."""
    momentum = [old.mul(options.momentum).add(delta) for old, delta in zip(server["momentum"], change, strict=True)]
    moved = [old.add(each, alpha=options.learning_rate) for old, each in zip(weights, momentum, strict=True)]
    return moved, {"momentum": momentum}


ALGORITHM = Algorithm(
    "FedAvgM: FedAvg with momentum at the server",
    options=FedAvgMOptions,
    server_state=zero_state("momentum"),
    server_step=_momentum_step,
)
