"""Residual blocks, whose users can be stacked."""

from __future__ import annotations

from torch import Tensor, nn


class Residual(nn.Module):
    """Two ways through a block, added: ReLU(body(x) + shortcut(x)); an empty shortcut is x itself."""

    def __init__(self, body: nn.Sequential, shortcut: nn.Sequential) -> None:
        super().__init__()
        self.body, self.shortcut = body, shortcut

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the sum of both ways after a ReLU."""
        added: Tensor = self.body(hidden) + self.shortcut(hidden)
        return added.relu()
