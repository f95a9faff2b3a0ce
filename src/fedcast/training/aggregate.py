"""Sums over the users of a round, block by block: mean change, loss, drift, and the algorithm's own sums."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedcast.training.algorithms import State, Tensors, weighted_sum
from fedcast.training.engines import BlockResult
from fedcast.typing import Ints


def aggregation_weights(own_sizes: Ints, shared_sizes: Ints, kind: str) -> NDArray[np.float64]:
    """Return the weight of each user before normalising: samples after sharing, samples before, or 1."""
    sizes = {"shared": shared_sizes, "own": own_sizes}.get(kind)
    return np.ones(len(own_sizes)) if sizes is None else sizes.astype(np.float64)


def effective_steps(steps: Tensor, momentum: float) -> Tensor:
    """Return how many steps without momentum carry a constant gradient as far (FedNova's a_k)."""
    if momentum == 0:
        return steps
    return (steps - momentum * (1 - momentum**steps) / (1 - momentum)) / (1 - momentum)


class Aggregate:
    """The running sums of a round."""

    def __init__(self, like: Tensors) -> None:
        self.mean = [torch.zeros_like(tensor) for tensor in like]
        self.sums: State = {}
        self.squares, self.loss = (torch.zeros((), dtype=torch.float64, device=like[0].device) for _ in range(2))
        self.steps = 0

    def add(self, block: BlockResult, shares: Tensor) -> None:
        """Add a block of users, each with its share in the mean."""
        for mean, moved, part in zip(self.mean, block.change, weighted_sum(shares, block.change), strict=True):
            mean += part
            norms = torch.linalg.vector_norm(moved.reshape(len(moved), -1), dim=1)
            self.squares += (shares * norms.double().square()).sum()
        self.loss += block.losses.sum()
        self.steps += int(block.steps.sum())

    def add_sums(self, sums: State) -> None:
        """Add the algorithm's sums over a block."""
        for name, tensors in sums.items():
            if name not in self.sums:
                self.sums[name] = [torch.zeros_like(tensor) for tensor in tensors]
            for total, tensor in zip(self.sums[name], tensors, strict=True):
                total += tensor

    def drift(self) -> float:
        """Return √Σ_k p_k ‖w_k − w̄‖², by Σ p_k‖w_k − w‖² − ‖w̄ − w‖²."""
        mean_square = sum(float(torch.linalg.vector_norm(moved)) ** 2 for moved in self.mean)
        return float(max(float(self.squares) - mean_square, 0.0) ** 0.5)
