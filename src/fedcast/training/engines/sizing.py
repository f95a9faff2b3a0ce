"""The size of a model in training: bytes of weights and activations, and multiplications per sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from fedcast.training.device_data import DeviceData
from fedcast.training.lstm import LSTM

# Values that the steps of an LSTM keep for the backward pass, for each of its states: gates, cells and states.
_KEPT_OF_A_STATE = 6


def weight_bytes(model: nn.Module) -> int:
    """Return the bytes of the model's weights."""
    return sum(weight.numel() * weight.element_size() for weight in model.parameters())


def activation_bytes(model: nn.Module, data: DeviceData) -> int:
    """Return the bytes of all layers' outputs for one sample; on a GPU including what the backward pass keeps."""
    on_gpu = data.labels.device.type == "cuda"

    def values(layer: nn.Module, output: Tensor) -> int:
        if isinstance(layer, nn.Conv2d) and on_gpu:
            patch = layer.in_channels * layer.kernel_size[0] * layer.kernel_size[1]
            return output.numel() + patch * output[0, 0].numel()
        kept = _KEPT_OF_A_STATE * layer.num_layers if isinstance(layer, LSTM) and on_gpu else 0
        return (1 + kept) * output.numel()

    return max(_sum_over_layers(model, data, values), 1) * data.dtype.itemsize


def multiplications(model: nn.Module, data: DeviceData) -> int:
    """Return the multiplications of a forward pass of one sample: each weight times the places where it is used."""

    def products(layer: nn.Module, output: Tensor) -> int:
        weights = sum(weight.numel() for weight in layer.parameters(recurse=False) if weight.dim() > 1)
        if isinstance(layer, nn.Conv2d | nn.Linear):
            return weights * output.numel() // layer.weight.shape[0]
        if isinstance(layer, LSTM):
            return weights * output.shape[-2]
        return 0 if isinstance(layer, nn.Embedding) else weights

    return _sum_over_layers(model, data, products)


def _sum_over_layers(model: nn.Module, data: DeviceData, count: Callable[[nn.Module, Tensor], int]) -> int:
    """Run the model on one sample and add up a count of the outputs of every layer."""
    counts: list[int] = []

    def show(layer: nn.Module, _: object, output: object) -> None:
        counts.extend(count(layer, tensor) for tensor in _tensors(output))

    hooks = [layer.register_forward_hook(show) for layer in model.modules() if not list(layer.children())]
    try:
        with torch.no_grad():
            model(one_sample(model, data))
    finally:
        for hook in hooks:
            hook.remove()
    return sum(counts)


def one_sample(model: nn.Module, data: DeviceData) -> Tensor:
    """Return the first sample, [1, ...], in the model's dtype and on its device."""
    sample, _ = data.pick(torch.zeros(1, dtype=torch.int64, device=data.labels.device))
    weight = next(model.parameters())
    return sample.to(weight.device, weight.dtype if sample.is_floating_point() else None)


def _tensors(output: object) -> Iterator[Tensor]:
    if isinstance(output, Tensor):
        yield output
    elif isinstance(output, tuple | list):
        for part in output:
            yield from _tensors(part)
