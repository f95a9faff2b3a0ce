"""Layers of many users with images held as [U, B, H, W, C], for bfloat16 products on a GPU.

Convolutions and group norms are those of `triton_convolution`. A first layer, whose inputs have few channels, is a
product with patches that are laid out.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedcast.training.engines import triton_convolution as kernels
from fedcast.training.model_checks import first_line

Layer = Callable[[Any, list[Tensor], Tensor, int], Tensor]

_WHOLE = 16  # channels that a kernel reads at a time

_log = logging.getLogger(__name__)


class _Stage(nn.Sequential):
    """A group norm with the convolution before it and ReLU after it, where these are there."""


def stages(layers: Sequence[nn.Module]) -> list[nn.Module] | None:
    """Return the layers with those in one that run as one; None if a convolution is not supported."""
    result: list[nn.Module] = []
    for layer in layers:
        last = result[-1] if result else None
        if isinstance(layer, nn.Conv2d) and not _supported(layer, first=last is None):
            return None
        if isinstance(layer, nn.GroupNorm):
            result[-1:] = [_Stage(last, layer)] if isinstance(last, nn.Conv2d) else [*result[-1:], _Stage(layer)]
        elif isinstance(layer, nn.ReLU) and isinstance(last, _Stage) and isinstance(last[-1], nn.GroupNorm):
            result[-1] = _Stage(*last, layer)
        else:
            result.append(layer)
    return result if isinstance(layers[0], nn.Conv2d) else None


def _supported(layer: nn.Conv2d, *, first: bool) -> bool:
    taps = layer.kernel_size[0] * layer.kernel_size[1]
    inner = isinstance(layer.padding, tuple) and all(map(int.__lt__, layer.padding, layer.kernel_size))
    channels = _WHOLE if first else layer.in_channels
    return layer.stride == (1, 1) and inner and kernels.convolves(channels, layer.out_channels, taps)


@functools.cache
def works(device: torch.device) -> bool:
    """Return whether a small product comes out right: Triton may be there without a compiler or for another GPU."""
    try:
        if device.type == "cuda" and not kernels.has_shared_memory(device):
            return False
        images = torch.ones(1, 1, 2, 2, 16, dtype=torch.bfloat16, device=device)
        found = kernels.convolution(images, torch.ones(1, 16, 3, 3, 16, dtype=images.dtype, device=device), (1, 1))
        return bool((found == 64).all())
    except Exception as error:  # whatever Triton's compiler or the driver raises
        _log.info("convolutions do not run in Triton: %s", first_line(error))
        return False


def _dtype(hidden: Tensor) -> torch.dtype:
    device = hidden.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype


def _without_bias(layer: Any, kernel: Tensor, hidden: Tensor) -> Tensor:
    dtype = _dtype(hidden)
    by_place = kernel.to(dtype).permute(0, 1, 3, 4, 2).contiguous()
    hidden = hidden.to(dtype)
    if layer.in_channels % _WHOLE == 0:
        return kernels.convolution(hidden, by_place, layer.padding)
    patches, values = _patches(hidden, layer.kernel_size, layer.padding), by_place.flatten(2)
    filled = -values.shape[2] % (2 * _WHOLE)
    return kernels.convolution(F.pad(patches, (0, filled)), F.pad(values, (0, filled))[:, :, None, None], (0, 0))


def _patches(images: Tensor, size: Sequence[int], padding: Sequence[int]) -> Tensor:
    """Return the patches [U, B, H', W', kh·kw·C] of [U, B, H, W, C]."""
    padded = F.pad(images, (0, 0, padding[1], padding[1], padding[0], padding[0]))
    height, width = (side - part + 1 for side, part in zip(padded.shape[2:4], size, strict=True))
    places = [(row, column) for row in range(size[0]) for column in range(size[1])]
    return torch.cat([padded[:, :, row : row + height, column : column + width] for row, column in places], dim=4)


def _convolution(layer: Any, weights: list[Tensor], hidden: Tensor, _: int) -> Tensor:
    images = _without_bias(layer, weights[0], hidden)
    return images + weights[1].to(images.dtype)[:, None, None, None] if len(weights) > 1 else images


def _stage(stage: Any, weights: list[Tensor], hidden: Tensor, users: int) -> Tensor:
    parts, bias = list(stage), None
    if isinstance(parts[0], nn.Conv2d):
        layer = parts.pop(0)
        hidden = _without_bias(layer, weights[0], hidden)
        bias = weights[1] if layer.bias is not None else None
        weights = weights[1 if bias is None else 2 :]
    norm, relu, channels = parts[0], len(parts) > 1, hidden.shape[4]
    if bias is None:
        bias = hidden.new_zeros(users, channels, dtype=torch.float32)
    scale = weights[0] if weights else hidden.new_ones(users, channels, dtype=torch.float32)
    offset = weights[1] if weights else hidden.new_zeros(users, channels, dtype=torch.float32)
    if kernels.normalises(hidden.shape[2] * hidden.shape[3], channels, norm.num_groups):
        return kernels.norm(hidden, bias, scale, offset, norm.num_groups, norm.eps, relu=relu)
    images = (hidden + bias[:, None, None, None]).unflatten(4, (norm.num_groups, -1))
    variance, mean = torch.var_mean(images, dim=(2, 3, 5), correction=0, keepdim=True)
    normalised: Tensor = ((images - mean) * (variance + norm.eps).rsqrt()).flatten(4)
    normalised = normalised * scale[:, None, None, None] + offset[:, None, None, None]
    return (normalised.relu() if relu else normalised).to(hidden.dtype)


def _pool(layer: nn.Module, _: list[Tensor], hidden: Tensor, __: int) -> Tensor:
    pooled: Tensor = layer(hidden.flatten(0, 1).permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
    return pooled.view(*hidden.shape[:2], *pooled.shape[1:])


def _flatten(_: nn.Module, __: list[Tensor], hidden: Tensor, ___: int) -> Tensor:
    return hidden.permute(0, 1, 4, 2, 3).flatten(2) if hidden.dim() == 5 else hidden.flatten(2)


LAYERS: dict[type[Any], Layer] = {
    nn.Conv2d: _convolution,
    _Stage: _stage,
    **dict.fromkeys((nn.MaxPool2d, nn.AvgPool2d), _pool),
    nn.Flatten: _flatten,
}
