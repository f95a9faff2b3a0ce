"""One forward pass for many users at once, each with weights of its own.

A model that is a chain of known layers is run with the users as an explicit dimension; any other goes through
`torch.func.vmap`. Convolutions have three forms: on a CPU the users become groups of one grouped convolution; on a GPU
patches are laid out and multiplied in one batched product, measured 2.5 times faster there on the MNIST model, or, in
bfloat16 with channels enough, multiplied where they lie (`channels_last`).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedcast.training.lstm import LSTM, LastStep, lstm
from fedcast.training.model_checks import first_line, without_dropout
from fedcast.training.resnet import Residual

Weights = list[Tensor]
Forward = Callable[[Weights, Tensor], Tensor]
Layer = Callable[[Any, Weights, Tensor, int], Tensor]
Tables = dict[type[Any], Layer]


class CannotStackError(Exception):
    """Users of a model cannot be stepped at once; the message says why."""


def stacked_forward(
    model: nn.Module, device: torch.device, sample: Tensor | None = None, *, bfloat16: bool = False
) -> Forward:
    """Return a function of weights [U, ...] (in the order of ``model.parameters()``) and inputs [U, B, ...] to scores.

    On a sample [1, ...], if given, its result is compared with the model's own: raises `CannotStackError` if users
    stepped at once do not get the results of single users. ``bfloat16``: layers are to multiply in it.
    """
    chain = _chain_forward(model, device)
    if chain is not None and (sample is None or _agrees(chain, model, sample)):
        return (_channels_last_forward(model, device) if bfloat16 and device.type == "cuda" else None) or chain
    return _vmapped(model, sample)


def _chain_forward(model: nn.Module, device: torch.device) -> Forward | None:
    """Return the layers one after another; None if the tables do not support one of them."""
    layers, on_gpu = _chain(model), device.type == "cuda"
    tables = _GPU_LAYERS if on_gpu else _CPU_LAYERS
    once = sum(map(_count, layers)) == len(list(model.parameters()))  # no layer occurs twice
    if type(model) is not nn.Sequential or not (once and all(_known(layer, tables, device) for layer in layers)):
        return None

    def forward(weights: Weights, inputs: Tensor) -> Tensor:
        hidden = inputs
        if inputs.dim() == 5:
            hidden = inputs.transpose(1, 2) if on_gpu else inputs.transpose(0, 1).flatten(1, 2)
        return _through(layers, tables, weights, hidden, inputs.shape[0])

    return forward


def _channels_last_forward(model: nn.Module, device: torch.device) -> Forward | None:
    """Return a supported chain in the form of `channels_last`; None if it does not support it or cannot run here."""
    if importlib.util.find_spec("triton") is None:
        return None
    from fedcast.training.engines import channels_last

    layers, tables = channels_last.stages(_chain(model)), _COMMON | channels_last.LAYERS
    if layers is None or not all(type(layer) in tables for layer in layers) or not channels_last.works(device):
        return None

    def forward(weights: Weights, inputs: Tensor) -> Tensor:
        return _through(layers, tables, weights, inputs.permute(0, 1, 3, 4, 2), inputs.shape[0])

    return forward


def _through(layers: list[nn.Module], tables: Tables, weights: Weights, hidden: Tensor, users: int) -> Tensor:
    """Send stacked inputs through layers one after another; of residual blocks both ways are such chains."""
    start = 0
    for layer in layers:
        own = weights[start : start + _count(layer)]
        start += len(own)
        if isinstance(layer, Residual):
            body, shortcut = _chain(layer.body), _chain(layer.shortcut)
            first = _count(layer.body)
            added = _through(body, tables, own[:first], hidden, users)
            hidden = (added + _through(shortcut, tables, own[first:], hidden, users)).relu()
        else:
            hidden = tables[type(layer)](layer, own, hidden, users)
    return hidden


def _count(layer: nn.Module) -> int:
    return len(list(layer.parameters()))


def _known(layer: nn.Module, tables: Tables, device: torch.device) -> bool:
    """Return whether the tables support a layer; of a residual block all layers of both ways."""
    if type(layer) is Residual and not (layer._forward_hooks or layer._forward_pre_hooks):
        return all(_known(inner, tables, device) for way in (layer.body, layer.shortcut) for inner in _chain(way))
    return type(layer) in tables and _plain(layer, device)


def _chain(model: nn.Module) -> list[nn.Module]:
    """Return the layers of nested chains; a subclass of a chain may do anything with its layers and is one of them."""
    return [layer for child in model for layer in _chain(child)] if type(model) is nn.Sequential else [model]


def _plain(layer: nn.Module, device: torch.device) -> bool:
    """Return whether a layer has no option or hook that the tables do not support."""
    if layer._forward_hooks or layer._forward_pre_hooks:
        return False
    if isinstance(layer, nn.Conv2d):
        in_patches = isinstance(layer.padding, tuple) and layer.groups == 1 and layer.dilation == (1, 1)
        return layer.padding_mode == "zeros" and (in_patches or device.type != "cuda")
    if isinstance(layer, nn.Embedding):
        return layer.max_norm is None and not layer.scale_grad_by_freq
    return True


def _agrees(chain: Forward, model: nn.Module, sample: Tensor) -> bool:
    """Return whether two users with the model's weights get the model's scores."""
    weights = [weight.detach().expand(2, *weight.shape) for weight in model.parameters()]
    try:
        with torch.no_grad():
            expected = model(sample)
            found = chain(weights, torch.stack([sample, sample]))
    except Exception:  # whatever the tables did not expect of a model
        return False
    return found.shape == (2, *expected.shape) and _near(found, expected.expand_as(found))


def _near(found: Tensor, expected: Tensor) -> bool:
    return torch.allclose(found, expected, rtol=0.01, atol=0.01 * float(expected.abs().max()))


# On a CPU images are held as [B, users × channels, H, W].


def _grouped_convolution(layer: Any, weights: Weights, hidden: Tensor, users: int) -> Tensor:
    kernel, bias = weights[0].flatten(0, 1), weights[1].flatten() if len(weights) > 1 else None
    return F.conv2d(hidden, kernel, bias, layer.stride, layer.padding, layer.dilation, groups=users * layer.groups)


def _group_norm_in_channels(layer: Any, weights: Weights, hidden: Tensor, users: int) -> Tensor:
    scale, offset = (weights[0].flatten(), weights[1].flatten()) if weights else (None, None)
    return F.group_norm(hidden, users * layer.num_groups, scale, offset, layer.eps)


def _flatten_from_channels(_: nn.Module, __: Weights, hidden: Tensor, users: int) -> Tensor:
    return hidden.reshape(len(hidden), users, -1).transpose(0, 1) if hidden.dim() == 4 else hidden.flatten(2)


# On a GPU images are held as [users, channels, B, H, W], as the product of a convolution leaves them.


def _patch_convolution(layer: Any, weights: Weights, hidden: Tensor, _: int) -> Tensor:
    device = hidden.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
    hidden, kernel, *bias = (tensor.to(dtype) for tensor in (hidden, *weights))
    images = convolution(hidden, kernel, layer.stride, layer.padding)
    # Added afterwards, where it becomes part of what follows; within the product it would be laid out first.
    return images + bias[0][:, :, None, None, None] if bias else images


def _group_norm_users_first(layer: Any, weights: Weights, hidden: Tensor, _: int) -> Tensor:
    # Sums over bfloat16 are taken in float32.
    grouped = hidden.to(torch.promote_types(hidden.dtype, torch.float32)).unflatten(1, (layer.num_groups, -1))
    variance, mean = torch.var_mean(grouped, dim=(2, 4, 5), correction=0, keepdim=True)
    normalised: Tensor = ((grouped - mean) * (variance + layer.eps).rsqrt()).flatten(1, 2)
    if weights:
        normalised = normalised * weights[0][:, :, None, None, None] + weights[1][:, :, None, None, None]
    return normalised.to(hidden.dtype)


def _flatten_users_first(_: nn.Module, __: Weights, hidden: Tensor, ___: int) -> Tensor:
    return hidden.transpose(1, 2).flatten(2) if hidden.dim() == 5 else hidden.flatten(2)


# The same on both.


def _linear(_: nn.Module, weights: Weights, hidden: Tensor, __: int) -> Tensor:
    if len(weights) == 1:
        return torch.bmm(hidden, weights[0].mT)
    return torch.baddbmm(weights[1][:, None], hidden, weights[0].mT)


def _embedding(layer: Any, weights: Weights, codes: Tensor, users: int) -> Tensor:
    table = weights[0]
    own_rows = codes + (torch.arange(users, device=codes.device) * table.shape[1]).view(-1, *[1] * (codes.dim() - 1))
    rows = F.embedding(own_rows, table.flatten(0, 1))
    if layer.padding_idx is None:
        return rows
    return torch.where((codes == layer.padding_idx)[..., None], rows.detach(), rows)


_POOLS = (nn.MaxPool2d, nn.AvgPool2d)
_ELEMENTWISE = (LastStep, nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.Identity)
_COMMON: dict[type[Any], Layer] = {
    **dict.fromkeys((*_ELEMENTWISE, *_POOLS), lambda layer, _, hidden, __: layer(hidden)),
    nn.Linear: _linear,
    nn.Embedding: _embedding,
    LSTM: lambda layer, weights, hidden, _: lstm(hidden, weights, layer.num_layers),
}
_CPU_LAYERS = _COMMON | {
    nn.Conv2d: _grouped_convolution,
    nn.GroupNorm: _group_norm_in_channels,
    nn.Flatten: _flatten_from_channels,
}
_GPU_LAYERS: dict[type[Any], Layer] = {
    **_COMMON,
    nn.Conv2d: _patch_convolution,
    nn.GroupNorm: _group_norm_users_first,
    **dict.fromkeys(_POOLS, lambda pool, _, hidden, __: pool(hidden.flatten(0, 2)).unflatten(0, hidden.shape[:3])),
    nn.Flatten: _flatten_users_first,
}


# Convolution of many users' images, each with kernels of its own, as products of patches.


def convolution(hidden: Tensor, kernel: Tensor, stride: Sequence[int], padding: Sequence[int]) -> Tensor:
    """Convolve [U, C, B, H, W] with [U, O, C, kh, kw] to [U, O, B, H', W']; padded with zeros."""
    inner = all(pad < side for pad, side in zip(padding, kernel.shape[3:], strict=True))
    by_place = kernel.permute(0, 1, 3, 4, 2).contiguous()
    if tuple(stride) == (1, 1) and inner:
        return _Convolution.apply(hidden, by_place, tuple(padding))  # type: ignore[no-any-return, no-untyped-call]
    windows = _padded(hidden, padding).unfold(3, kernel.shape[3], stride[0]).unfold(4, kernel.shape[4], stride[1])
    return _product(by_place, windows)


class _Convolution(torch.autograd.Function):
    """Convolution with stride 1 whose gradients are products of patches too.

    That of `unfold` adds up overlapping patches, once compiled by atomic additions: slower, in no fixed order, and too
    coarse in bfloat16. Here both gradients are products with the same patches of the gradient that arrives; of a first
    layer, whose inputs need none, that of the kernel is one with the fewer patches of the inputs.
    """

    @staticmethod
    def forward(hidden: Tensor, kernel: Tensor, padding: tuple[int, int]) -> Tensor:
        return _product(kernel, _windows(hidden, kernel.shape[2:4], padding))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG004
        hidden, kernel, ctx.padding = inputs
        ctx.save_for_backward(hidden, kernel)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        hidden, kernel = ctx.saved_tensors
        size = kernel.shape[2:4]
        if not ctx.needs_input_grad[0]:
            patches = _patches(_windows(hidden, size, ctx.padding))
            return None, torch.bmm(gradient.flatten(2), patches.mT).view_as(kernel), None
        around = [side - 1 - pad for side, pad in zip(size, ctx.padding, strict=True)]
        # What a place of the kernel put into an output comes back from it, so that places count backwards.
        turned = _windows(gradient, size, around).permute(0, 1, 5, 6, 2, 3, 4).flip(2, 3)
        returned = turned.flatten(1, 3).flatten(2)  # [U, O·kh·kw, B·H·W]
        hidden_gradient = torch.bmm(kernel.flatten(1, 3).mT, returned).view_as(hidden)
        kernel_gradient = torch.bmm(returned, hidden.flatten(2).mT).view_as(kernel)
        return hidden_gradient, kernel_gradient, None


def _padded(images: Tensor, padding: Sequence[int]) -> Tensor:
    return F.pad(images, (padding[1], padding[1], padding[0], padding[0])) if any(padding) else images


def _windows(images: Tensor, size: Sequence[int], padding: Sequence[int]) -> Tensor:
    """Return the windows [U, C, B, H', W', kh, kw] of [U, C, B, H, W], a view.

    By strides, since these need memory: padded images are then laid out once. Of `unfold` PyTorch's compiler makes an
    index, and computes what came before it (a norm, pooling) anew for every place of the kernel.
    """
    padded = _padded(images, padding).contiguous()
    height, width = (side - part + 1 for side, part in zip(padded.shape[3:], size, strict=True))
    rows, columns = padded.stride()[3:]
    return padded.as_strided((*padded.shape[:3], height, width, *size), (*padded.stride(), rows, columns))


def _patches(windows: Tensor) -> Tensor:
    """To [U, kh·kw·C, B·H'·W'] (a copy), in the order of a kernel's values."""
    return windows.permute(0, 5, 6, 1, 2, 3, 4).flatten(1, 3).flatten(2)


def _product(kernel: Tensor, windows: Tensor) -> Tensor:
    """Multiply [U, O, kh, kw, C] and windows to [U, O, B, H', W']."""
    images: Tensor = torch.bmm(kernel.flatten(2), _patches(windows)).unflatten(2, windows.shape[2:5])
    return images


# Any other model.


def _vmapped(model: nn.Module, sample: Tensor | None) -> Forward:
    """Return the model as a function of weights [U, ...] and inputs [U, B, ...], tested on a sample [1, ...] if given.

    Raise `CannotStackError` if users stepped at once do not get the results of single users.
    """
    for part in model.modules():
        if isinstance(part, nn.RNNBase | nn.RNNCellBase):
            raise CannotStackError(
                f"nn.{type(part).__name__} takes one user's weights; fedcast.training.lstm.LSTM takes those of many"
            )
        if isinstance(part, nn.Embedding | nn.EmbeddingBag) and part.max_norm is not None:
            raise CannotStackError(f"nn.{type(part).__name__} with max_norm rescales the rows that padding reads, too")
    one = _of_one(model)
    many = torch.func.vmap(one, randomness="different")
    if sample is None:
        return many
    # PyTorch's fast path of attention in evaluation mode has no gradient.
    fast_path = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with without_dropout(model):
            agree = _gradients_agree(many, one, model, sample)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # PyTorch's limits are not all known, nor of one kind
        raise CannotStackError(first_line(error)) from error
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)
    if not agree:
        raise CannotStackError("in padded batches, users stepped at once do not get the gradients of single users")
    return many


def _of_one(model: nn.Module) -> Forward:
    """Return the model as a function of one user's weights."""
    places = {weight: place for place, weight in enumerate(model.parameters())}
    # Once for each module that holds it: PyTorch cannot see under vmap which weights are shared, nor put back one that
    # it replaced twice.
    names = {
        ".".join(filter(None, (path, name))): places[weight]
        for path, module in model.named_modules()
        for name, weight in module.named_parameters(recurse=False)
    }

    def one(weights: Weights, inputs: Tensor) -> Tensor:
        own = {name: weights[place] for name, place in names.items()}
        output: Tensor = torch.func.functional_call(model, own, (inputs,), tie_weights=False)
        return output

    return one


def _gradients_agree(many: Forward, one: Forward, model: nn.Module, sample: Tensor) -> bool:
    """Return whether two users with different weights, in padded batches, get the gradients of single users."""
    users = [[weight.detach() * scale for weight in model.parameters()] for scale in (1.0, 0.5)]
    both = [torch.stack(weights) for weights in zip(*users, strict=True)]
    larger = 2 * sample + 1 if sample.is_floating_point() else torch.zeros_like(sample)
    filled = torch.stack([torch.cat([sample, sample, larger])] * 2)
    found = torch.func.grad(lambda at: many(at, filled)[:, 0].logsumexp(-1).sum())(both)
    alone = [torch.func.grad(lambda at: one(at, sample).logsumexp(-1).sum())(user) for user in users]
    expected = [torch.stack([gradient.to_dense() for gradient in pair]) for pair in zip(*alone, strict=True)]
    return all(map(_near, found, expected))
