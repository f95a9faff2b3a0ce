"""How large a model is at work: bytes it holds and multiplications it takes for one sample."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from fedcast.training.device_data import DeviceData
from fedcast.training.models import LSTM

Seen = Callable[[nn.Module, Tensor, Tensor], None]


def weight_bytes(model: nn.Module) -> int:
    """Bytes of its weights."""
    return sum(weight.numel() * weight.element_size() for weight in model.parameters())


def activation_bytes(model: nn.Module, data: DeviceData) -> int:
    """Bytes of all layers' outputs for one sample; on a GPU with the patches of its convolutions."""
    in_patches = data.labels.device.type == "cuda"
    total = 0

    def count(layer: nn.Module, inputs: Tensor, output: Tensor) -> None:
        nonlocal total
        total += output.numel()
        if isinstance(layer, nn.Conv2d) and in_patches:
            total += inputs.shape[1] * layer.kernel_size[0] * layer.kernel_size[1] * output[0, 0].numel()

    _watch(model, data, count)
    return max(total, 1) * data.dtype.itemsize


def multiplications(model: nn.Module, data: DeviceData) -> int:
    """Of a forward pass of one sample, by layers that hold weights: each weight once for every place it is used at."""
    total = 0

    def count(layer: nn.Module, _: Tensor, output: Tensor) -> None:
        nonlocal total
        weights = sum(weight.numel() for weight in layer.parameters(recurse=False) if weight.dim() > 1)
        if isinstance(layer, nn.Conv2d | nn.Linear):
            total += weights * output.numel() // layer.weight.shape[0]
        elif isinstance(layer, LSTM):
            total += weights * output.shape[-2]
        elif not isinstance(layer, nn.Embedding):
            total += weights

    _watch(model, data, count)
    return total


def _watch(model: nn.Module, data: DeviceData, seen: Seen) -> None:
    """Send one sample through and show what goes into and comes out of every layer."""
    leaves = [layer for layer in model.modules() if not list(layer.children())]
    hooks = [
        layer.register_forward_hook(lambda layer, inputs, output: seen(layer, inputs[0], output)) for layer in leaves
    ]
    try:
        sample, _ = data.pick(torch.zeros(1, dtype=torch.int64, device=data.labels.device))
        weight = next(model.parameters())
        with torch.no_grad():
            model(sample.to(weight.device, weight.dtype if sample.is_floating_point() else None))
    finally:
        for hook in hooks:
            hook.remove()
