"""Convolution of many users' images, each with kernels of its own, as products of patches.

Images are held as [users, channels, B, H, W], as such a product leaves them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def convolution(hidden: Tensor, kernel: Tensor, stride: Sequence[int], padding: Sequence[int]) -> Tensor:
    """[U, C, B, H, W] and [U, O, C, kh, kw] to [U, O, B, H', W']; padded with zeros."""
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
    """[U, C, B, H, W] to [U, C, B, H', W', kh, kw], a view.

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
    """[U, O, kh, kw, C] and windows to [U, O, B, H', W']."""
    images: Tensor = torch.bmm(kernel.flatten(2), _patches(windows)).unflatten(2, windows.shape[2:5])
    return images
