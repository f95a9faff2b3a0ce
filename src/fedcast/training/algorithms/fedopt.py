"""FedOpt (Reddi et al. 2021, Algorithm 2): FedAvg with momentum, Adam or Yogi at the server, not bias-corrected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedcast.registry import option
from fedcast.training.algorithms import Algorithm, State, Tensors, zero_state, zeros_like

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class FedAvgMOptions:
    """Options of FedAvgM."""

    learning_rate: float = option(1.0, "step size η of the server", gt=0)
    momentum: float = option(0.9, "momentum β of the server", ge=0, lt=1)


@dataclass(frozen=True)
class FedAdamOptions:
    """Options of FedAdam and FedYogi."""

    learning_rate: float = option(0.03, "step size η of the server", gt=0)
    beta1: float = option(0.9, "decay β₁ of the mean of changes", ge=0, lt=1)
    beta2: float = option(0.99, "decay β₂ of the mean of squared changes", ge=0, lt=1)
    epsilon: float = option(1e-3, "adaptivity τ, added to the root of the mean square", gt=0)


def _momentum_step(options: FedAvgMOptions, weights: Tensors, change: Tensors, server: State) -> tuple[Tensors, State]:
    """Set m ← βm + Δ and w ← w + ηm (Hsu et al. 2019)."""
    momentum = [old.mul(options.momentum).add(delta) for old, delta in zip(server["momentum"], change, strict=True)]
    moved = [old.add(each, alpha=options.learning_rate) for old, each in zip(weights, momentum, strict=True)]
    return moved, {"momentum": momentum}


def _adaptive(summary: str, first_square: float, next_square: Callable[[float, Tensor, Tensor], Tensor]) -> Algorithm:
    """Return FedAvg with an adaptive step at the server: m ← β₁m + (1 − β₁)Δ, then w ← w + ηm/(√v + τ).

    v is `first_square` · τ² before the first round, then what `next_square` makes of (β₂, v, Δ²).
    """

    def server_state(options: FedAdamOptions, weights: Tensors) -> State:
        square = [zero.add(first_square * options.epsilon**2) for zero in zeros_like(weights)]
        return {"mean": zeros_like(weights), "square": square}

    def server_step(options: FedAdamOptions, weights: Tensors, change: Tensors, server: State) -> tuple[Tensors, State]:
        beta, means, squares, moved = options.beta1, [], [], []
        for weight, delta, old, v in zip(weights, change, server["mean"], server["square"], strict=True):
            means.append(old.mul(beta).add(delta, alpha=1 - beta))
            squares.append(next_square(options.beta2, v, delta.square()))
            step = means[-1] / (squares[-1].sqrt() + options.epsilon)
            moved.append(weight.add(step, alpha=options.learning_rate))
        return moved, {"mean": means, "square": squares}

    return Algorithm(summary, options=FedAdamOptions, server_state=server_state, server_step=server_step)


FEDAVGM = Algorithm(
    "FedAvgM: FedAvg with momentum at the server",
    options=FedAvgMOptions,
    server_state=zero_state("momentum"),
    server_step=_momentum_step,
)
FEDADAM = _adaptive(
    "FedAdam: FedAvg with Adam at the server", 0.0, lambda beta, v, square: v.mul(beta).add(square, alpha=1 - beta)
)
# The mean square starts at τ², the least value that the paper allows, and grows slowly, by −(1 − β₂)Δ² sign(v − Δ²).
FEDYOGI = _adaptive(
    "FedYogi: FedAvg with Yogi at the server",
    1.0,
    lambda beta, v, square: v - (1 - beta) * square * (v - square).sign(),
)
