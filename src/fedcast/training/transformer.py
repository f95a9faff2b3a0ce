"""Layers of a small transformer for text, which ``torch.func.vmap`` can stack over users."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class Block(nn.Module):
    """Causal self-attention and two linear layers, each after a norm and added to its input (Xiong et al. 2020).

    The same numbers as ``nn.TransformerEncoderLayer`` with ``norm_first``, GELU, no dropout and a causal mask.
    """

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_layers = nn.LayerNorm(width), nn.LayerNorm(width)
        self.queries_keys_values, self.mixed = nn.Linear(width, 3 * width), nn.Linear(width, width)
        # A layer of its own, so that engines count what it keeps for the backward pass.
        self.softmax = nn.Softmax(dim=-1)
        self.layers = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))

    def forward(self, steps: Tensor) -> Tensor:
        """Return [batch, time, width] from the same."""
        steps = steps + self._attention(self.before_attention(steps))
        result: Tensor = steps + self.layers(self.before_layers(steps))
        return result

    def _attention(self, steps: Tensor) -> Tensor:
        parts = self.queries_keys_values(steps).unflatten(-1, (3, self.heads, -1))  # [batch, time, 3, heads, each]
        queries, keys, values = parts.permute(2, 0, 3, 1, 4)
        scores = queries @ keys.mT / math.sqrt(keys.shape[-1])
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=steps.device).triu(1)
        mixed = self.softmax(scores.masked_fill(later, -math.inf)) @ values
        result: Tensor = self.mixed(mixed.transpose(1, 2).flatten(2))
        return result


class Positions(nn.Module):
    """Adds sines and cosines of the position to each step (Vaswani et al. 2017, §3.5); it has no weights."""

    def forward(self, steps: Tensor) -> Tensor:
        """Return [batch, time, width] from the same."""
        time, width = steps.shape[-2:]
        position = torch.arange(time, device=steps.device, dtype=steps.dtype)[:, None]
        pair = torch.arange(0, width, 2, device=steps.device, dtype=steps.dtype)
        angle = position * torch.exp(pair * (-math.log(10_000) / width))
        return steps + torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)
