"""FedAdam (Reddi et al. 2021, Algorithm 2): FedAvg with Adam at the server, without bias correction."""

from __future__ import annotations

from dataclasses import dataclass

from fedcast.registry import option
from fedcast.training.algorithms import Algorithm, State, Tensors, zeros_like


@dataclass(frozen=True)
class FedAdamOptions:
    """Options of FedAdam."""

    learning_rate: float = option(0.03, "step size η of the server", gt=0)
    beta1: float = option(0.9, "decay β₁ of the mean of changes", ge=0, lt=1)
    beta2: float = option(0.99, "decay β₂ of the mean of squared changes", ge=0, lt=1)
    epsilon: float = option(1e-3, "adaptivity τ, added to the root of the mean square", gt=0)


def _server_state(_: FedAdamOptions, weights: Tensors) -> State:
    return {"mean": zeros_like(weights), "square": zeros_like(weights)}


def _server_step(options: FedAdamOptions, weights: Tensors, change: Tensors, server: State) -> tuple[Tensors, State]:
    """Set m ← β₁m + (1 − β₁)Δ, v ← β₂v + (1 − β₂)Δ² and w ← w + ηm/(√v + τ)."""
    mean = decayed_mean(options.beta1, server["mean"], change)
    square = decayed_mean(options.beta2, server["square"], [delta.square() for delta in change])
    return adaptive_step(options, weights, mean, square), {"mean": mean, "square": square}


def decayed_mean(decay: float, means: Tensors, values: Tensors) -> Tensors:
    """Return βm + (1 − β)x for every tensor."""
    return [old.mul(decay).add(value, alpha=1 - decay) for old, value in zip(means, values, strict=True)]


def adaptive_step(options: FedAdamOptions, weights: Tensors, mean: Tensors, square: Tensors) -> Tensors:
    """Return w + ηm/(√v + τ) for every weight."""
    return [
        weight.add(first / (second.sqrt() + options.epsilon), alpha=options.learning_rate)
        for weight, first, second in zip(weights, mean, square, strict=True)
    ]


ALGORITHM = Algorithm(
    "FedAdam: FedAvg with Adam at the server",
    options=FedAdamOptions,
    server_state=_server_state,
    server_step=_server_step,
)
