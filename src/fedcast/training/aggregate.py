"""What the server makes of the users' changes: their weighted mean, block by block, and how far they drifted apart."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedcast.training.algorithm import Tensors
from fedcast.training.engine import BlockResult
from fedcast.typing import Ints


def aggregation_weights(own_sizes: Ints, shared_sizes: Ints, kind: str) -> NDArray[np.float64]:
    """Weight of each user before normalising: sizes after sharing, sizes before, or 1."""
    sizes = {"shared": shared_sizes, "own": own_sizes}.get(kind)
    return np.ones(len(own_sizes)) if sizes is None else sizes.astype(np.float64)


class Aggregate:
    """The running sum over blocks: average change, loss, drift, and what FedNova and SCAFFOLD need besides."""

    def __init__(self, like: Tensors, weight: float, algorithm: str) -> None:
        self.weight = weight
        self.mean = [torch.zeros_like(tensor) for tensor in like]
        self.per_step = [torch.zeros_like(tensor) for tensor in like] if algorithm == "fednova" else []
        self.control = [torch.zeros_like(tensor) for tensor in like] if algorithm == "scaffold" else []
        self.squares = torch.zeros((), dtype=torch.float64, device=like[0].device)
        self.effective_steps = torch.zeros((), dtype=torch.float64, device=like[0].device)
        self.loss = torch.zeros((), dtype=torch.float64, device=like[0].device)
        self.steps = 0

    def add(self, block: BlockResult, share: Tensor, effective: Tensor) -> None:
        """Add a block, each user with its share and its effective steps, by which FedNova divides its change."""
        for position, moved in enumerate(block.change):
            self.mean[position] += torch.tensordot(share.to(moved.dtype), moved, dims=1)
            self.squares += (
                share * torch.linalg.vector_norm(moved.reshape(len(moved), -1), dim=1).double().square()
            ).sum()
            if self.per_step:
                self.per_step[position] += torch.tensordot((share / effective).to(moved.dtype), moved, dims=1)
        self.effective_steps += (share * effective).sum()
        self.loss += block.losses.sum()
        self.steps += int(block.steps.sum())

    def change(self) -> Tensors:
        """How the server's weights should move: the mean, or FedNova's mean per step times the mean of steps."""
        if not self.per_step:
            return self.mean
        return [moved * self.effective_steps.to(moved.dtype) for moved in self.per_step]

    def drift(self) -> float:
        """√Σ_k p_k ‖w_k − w̄‖², by Σ p_k‖w_k − w‖² − ‖w̄ − w‖²."""
        mean_square = sum(float(torch.linalg.vector_norm(moved)) ** 2 for moved in self.mean)
        return float(max(float(self.squares) - mean_square, 0.0) ** 0.5)
