"""FedAdam (Reddi et al. 2021, Algorithm 2): FedAvg with Adam at the server, not bias-corrected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedcast.registry import option
from fedcast.training.algorithms import Algorithm, State, Tensors, zeros_like

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class FedAdamOptions:
    """Options of FedAdam and FedYogi."""

    learning_rate: float = option(0.03, "step size η of the server", gt=0)
    beta1: float = option(0.9, "decay β₁ of the mean of changes", ge=0, lt=1)
    beta2: float = option(0.99, "decay β₂ of the mean of squared changes", ge=0, lt=1)
    epsilon: float = option(1e-3, "adaptivity τ, added to the root of the mean square", gt=0)


def adaptive(summary: str, first_square: float, next_square: Callable[[float, Tensor, Tensor], Tensor]) -> Algorithm:
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


ALGORITHM = adaptive(
    "FedAdam: FedAvg with Adam at the server", 0.0, lambda beta, v, square: v.mul(beta).add(square, alpha=1 - beta)
)
