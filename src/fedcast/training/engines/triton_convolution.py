"""Convolutions and group norms of many users' images in Triton, for a GPU's bfloat16 products.

Images are held as [U, B, H, W, C], kernels as [U, O, kh, kw, C]. A convolution is one product that reads its patches
where they lie, instead of one with patches laid out before it. Group norm, the bias before it and ReLU after it are one
pass over an image. Sums are taken in float32 and in a fixed order, so that results repeat exactly.

Triton is no dependency: it comes with PyTorch for NVIDIA GPUs, and is imported when an operator first runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

_MOST_TAPS = 31  # of a kernel: one bit for each
_MOST_VALUES = 2**16  # of an image that a program of a norm can hold, and what it usually holds
_USUAL_VALUES = 2**14
_SPLIT_PROGRAMS = 512  # programs for which the gradient of a small kernel is split


class Tile(NamedTuple):
    """A division of a product among programs.

    Attributes:
        rows: places (or of the gradient of a kernel, its output channels) of a program.
        columns: output channels (or values of a kernel) of a program.
        depth: values that are multiplied at a time.
        warps: of a program.
        stages: loads under way.
        by_place: whether the rows of a program are many images' at few places, whose taps in the padding are left out.
        splits: programs that share the sum over all places.
    """

    rows: int
    columns: int
    depth: int
    warps: int = 4
    stages: int = 3
    by_place: bool = False
    splits: int = 1


class Share(NamedTuple):
    """The channels of an image that one program of a norm holds, and its warps."""

    channels: int
    warps: int


# Measured on an H200 at 16 users of 32 images: (height, channels read, channels written) → tile.
_FORWARD: dict[tuple[int, int, int], Tile] = {
    (32, 32, 64): Tile(128, 64, 32),
    (32, 64, 64): Tile(128, 64, 64),
    (16, 64, 128): Tile(128, 128, 32, 4, 4),
    (16, 128, 128): Tile(128, 128, 64),
    (8, 128, 256): Tile(128, 128, 64),
    (8, 256, 256): Tile(128, 128, 64),
    (4, 256, 512): Tile(128, 128, 64, by_place=True),
    (4, 512, 512): Tile(128, 128, 64, by_place=True),
    (2, 512, 512): Tile(64, 64, 64, 4, 5, by_place=True),
}
_BACKWARD: dict[tuple[int, int, int], Tile] = {
    (32, 64, 64): Tile(128, 64, 64),
    (16, 128, 64): Tile(128, 64, 64),
    (16, 128, 128): Tile(128, 128, 64),
    (8, 256, 128): Tile(128, 128, 64),
    (8, 256, 256): Tile(128, 256, 64, 8, 3),
    (4, 512, 256): Tile(128, 128, 64, 8, 4, by_place=True),
    (4, 512, 512): Tile(128, 256, 64, 8, 4),
    (2, 512, 512): Tile(64, 64, 64, 4, 5, by_place=True),
}
_GRADIENT: dict[tuple[int, int, int], Tile] = {
    (32, 32, 64): Tile(64, 32, 64, 4, 5, splits=8),
    (32, 64, 64): Tile(64, 64, 64, 4, 4, splits=4),
    (16, 64, 128): Tile(128, 128, 32, 4, 4, splits=4),
    (16, 128, 128): Tile(128, 128, 32, 4, 4),
    (8, 128, 256): Tile(128, 128, 32, 4, 4),
    (8, 256, 256): Tile(128, 128, 32, 4, 4),
    (4, 256, 512): Tile(128, 128, 32, 4, 4),
    (4, 512, 512): Tile(128, 128, 32, 4, 4),
    (2, 512, 512): Tile(128, 128, 32, 4, 4),
}
# Bytes of shared memory that a program of these needs: operands in 16 bits, once for each stage.
_SHARED_BYTES = max(
    2 * (tile.rows + tile.columns) * tile.depth * tile.stages
    for tiles in (_FORWARD, _BACKWARD, _GRADIENT)
    for tile in tiles.values()
)
# The same: (places, channels) → share.
_NORM: dict[tuple[int, int], Share] = {
    (1024, 64): Share(16, 4),
    (256, 128): Share(32, 4),
    (64, 256): Share(128, 4),
    (16, 512): Share(512, 4),
    (4, 512): Share(512, 4),
}
_NORM_BACKWARD: dict[tuple[int, int], Share] = {
    (1024, 64): Share(16, 16),
    (256, 128): Share(16, 4),
    (64, 256): Share(64, 4),
    (16, 512): Share(512, 4),
    (4, 512): Share(512, 4),
}


# Operators of PyTorch, which its compiler takes as they are. They have no gradients of their own, which a decorator
# (`custom_op`) would declare, and `torch.func.grad` not take.

_OPERATORS = torch.library.Library("fedcast", "DEF")


def _define(schema: str, run: Callable[..., Any], shapes: Callable[..., Any]) -> Callable[..., Any]:
    """Define an operator by its function and by one that returns outputs of the same shapes."""
    name = schema.partition("(")[0]
    _OPERATORS.define(schema, tags=(torch.Tag.needs_exact_strides, torch.Tag.pt2_compliant_tag))
    _OPERATORS.impl(name, run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"fedcast::{name}", shapes, lib=_OPERATORS)
    operator: Callable[..., Any] = getattr(torch.ops.fedcast, name).default
    return operator


def _sizes(images: Tensor, kernel: Tensor, padding: Sequence[int]) -> tuple[int, int]:
    """Return height and width of a convolution's output."""
    height, width = (
        side + 2 * pad - taps + 1 for side, pad, taps in zip(images.shape[2:4], padding, kernel.shape[2:4], strict=True)
    )
    return height, width


def _product_shape(images: Tensor, kernel: Tensor, padding: Sequence[int], turned: bool) -> Tensor:
    columns = kernel.shape[4] if turned else kernel.shape[1]
    return images.new_empty(*images.shape[:2], *_sizes(images, kernel, padding), columns)


def run_product(
    images: Tensor, kernel: Tensor, padding: Sequence[int], turned: bool, tile: Tile | None = None
) -> Tensor:
    """Run a convolution; or, turned, bring gradients [U, B, H', W', O] back to the inputs."""
    from fedcast.training.engines import triton_kernels as kernels

    output = _product_shape(images, kernel, padding, turned)
    users, batch, height_in, width_in, depth = images.shape
    height, width, columns = output.shape[2:]
    tile = tile or product_tile(images, columns, turned=turned)
    programs = _parts(batch * height * width, tile.rows) * _parts(columns, tile.columns)
    kernels.product[(programs, users)](
        images.contiguous(), kernel.contiguous(), output, batch, height_in, width_in, height, width, depth, columns,
        *padding, KH=kernel.shape[2], KW=kernel.shape[3], TURNED=turned, BY_PLACE=tile.by_place,
        EVEN=depth % tile.depth == 0 and columns % tile.columns == 0,
        ROWS=tile.rows, COLUMNS=tile.columns, DEPTH=tile.depth, num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip
    return output


def _parts_shape(
    images: Tensor, gradient: Tensor, taps: Sequence[int], _: Sequence[int], tile: Tile | None = None
) -> Tensor:
    splits = (tile or gradient_tile(images, gradient, taps[0] * taps[1])).splits
    shape = (splits, len(images), gradient.shape[4], *taps, images.shape[4])
    return images.new_empty(shape, dtype=images.dtype if splits == 1 else torch.float32)


def run_kernel_gradient(
    images: Tensor, gradient: Tensor, taps: Sequence[int], padding: Sequence[int], tile: Tile | None = None
) -> Tensor:
    """Return parts [splits, U, O, kh, kw, C] whose sum is a kernel's gradient; a single one in the images' dtype."""
    from fedcast.training.engines import triton_kernels as kernels

    parts = _parts_shape(images, gradient, taps, padding, tile)
    users, batch, height_in, width_in, inputs = images.shape
    height, width, outputs = gradient.shape[2:]
    tile = tile or gradient_tile(images, gradient, taps[0] * taps[1])
    places, values = batch * height * width, taps[0] * taps[1] * inputs
    even = places % tile.depth == 0 and values % tile.columns == 0 and outputs % tile.rows == 0
    programs = _parts(outputs, tile.rows) * _parts(values, tile.columns)
    kernels.kernel_gradient[(programs, tile.splits, users)](
        images.contiguous(), gradient.contiguous(), parts, users, batch,
        _parts(_parts(places, tile.splits), tile.depth) * tile.depth,
        HEIGHT_IN=height_in, WIDTH_IN=width_in, HEIGHT=height, WIDTH=width, INPUTS=inputs, OUTPUTS=outputs,
        PAD_H=padding[0], PAD_W=padding[1], KH=taps[0], KW=taps[1], EVEN=even,
        ROWS=tile.rows, COLUMNS=tile.columns, DEPTH=tile.depth, num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip
    return parts


def _norm_shapes(images: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return _with_sums(images, 2)


def _norm_gradient_shapes(images: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return _with_sums(images, 3)


def _with_sums(images: Tensor, sums: int) -> tuple[Tensor, Tensor]:
    """Return an empty tensor like the images, and one [U, B, sums, C] for what is known of each of them."""
    users, batch, _, _, channels = images.shape
    return images.new_empty(images.shape), images.new_empty((users, batch, sums, channels), dtype=torch.float32)


def run_norm(
    images: Tensor,
    bias: Tensor,
    scale: Tensor,
    offset: Tensor,
    group: int,
    epsilon: float,
    relu: bool,
    share: Share | None = None,
) -> tuple[Tensor, Tensor]:
    """Return normalised images, and of each image and channel the mean of its group and 1/deviation."""
    from fedcast.training.engines import triton_kernels as kernels

    output, moments = _norm_shapes(images)
    grid, options = _programs(images, share or norm_share(images, group, backward=False))
    users_first = (tensor.contiguous() for tensor in (images, bias, scale, offset))
    kernels.norm[grid](
        *users_first, output, moments, images.shape[1], images.shape[2] * images.shape[3], images.shape[4], epsilon,
        GROUP=group, RELU=relu, **options,
    )  # fmt: skip
    return output, moments


def run_norm_gradient(
    images: Tensor,
    bias: Tensor,
    scale: Tensor,
    offset: Tensor,
    moments: Tensor,
    gradient: Tensor,
    group: int,
    relu: bool,
    share: Share | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the gradient of a norm's images, and of each image and channel those of bias, scale and offset."""
    from fedcast.training.engines import triton_kernels as kernels

    output, sums = _norm_gradient_shapes(images)
    grid, options = _programs(images, share or norm_share(images, group, backward=True))
    users_first = (tensor.contiguous() for tensor in (images, bias, scale, offset, moments, gradient))
    kernels.norm_gradient[grid](
        *users_first, output, sums, images.shape[1], images.shape[2] * images.shape[3], images.shape[4],
        GROUP=group, RELU=relu, **options,
    )  # fmt: skip
    return output, sums


def _programs(images: Tensor, share: Share) -> tuple[tuple[int], dict[str, int]]:
    """Return the programs of a norm, and what each is compiled for."""
    users, batch, height, width, channels = images.shape
    options = {"PLACES": _power(height * width), "CHANNELS": share.channels, "num_warps": share.warps}
    return (users * batch * (channels // share.channels),), options


_convolve = _define(
    "convolve(Tensor images, Tensor kernel, int[] padding, bool turned) -> Tensor", run_product, _product_shape
)
_kernel_gradient = _define(
    "kernel_gradient(Tensor images, Tensor gradient, int[] taps, int[] padding) -> Tensor",
    run_kernel_gradient,
    _parts_shape,
)
_norm = _define(
    "norm(Tensor images, Tensor bias, Tensor scale, Tensor offset, int group, float epsilon, bool relu)"
    " -> (Tensor, Tensor)",
    run_norm,
    _norm_shapes,
)
_norm_gradient = _define(
    "norm_gradient(Tensor images, Tensor bias, Tensor scale, Tensor offset, Tensor moments, Tensor gradient, int group,"
    " bool relu) -> (Tensor, Tensor)",
    run_norm_gradient,
    _norm_gradient_shapes,
)


# What the layers call.


def convolves(channels: int, outputs: int, taps: int) -> bool:
    """Return whether `convolution` takes so many channels: those of whole 16-byte loads."""
    return channels % 16 == 0 and outputs % 16 == 0 and taps <= _MOST_TAPS


def has_shared_memory(device: torch.device) -> bool:
    """Return whether a GPU has the shared memory of the tiles, as an H100 has and many smaller GPUs have not."""
    properties = torch.cuda.get_device_properties(device)
    # Only NVIDIA's GPUs have it, and PyTorch's declarations of types not at all.
    return int(getattr(properties, "shared_memory_per_block_optin", 0)) >= _SHARED_BYTES


def convolution(images: Tensor, kernel: Tensor, padding: tuple[int, int]) -> Tensor:
    """Convolve [U, B, H, W, C] with [U, O, kh, kw, C] to [U, B, H', W', O], stride 1; padded with zeros."""
    output: Tensor = _TritonConvolution.apply(images, kernel, padding)  # type: ignore[no-untyped-call]
    return output


class _TritonConvolution(torch.autograd.Function):
    @staticmethod
    def forward(images: Tensor, kernel: Tensor, padding: tuple[int, int]) -> Tensor:
        output: Tensor = _convolve(images, kernel, padding, False)
        return output

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG004
        images, kernel, ctx.padding = inputs
        ctx.save_for_backward(images, kernel)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        images, kernel = ctx.saved_tensors
        taps = kernel.shape[2:4]
        parts = _kernel_gradient(images, gradient, taps, ctx.padding)
        kernel_gradient = parts[0] if len(parts) == 1 else parts.sum(0).to(kernel.dtype)
        if not ctx.needs_input_grad[0]:
            return None, kernel_gradient, None
        around = [side - 1 - pad for side, pad in zip(taps, ctx.padding, strict=True)]
        return _convolve(gradient, kernel, around, True), kernel_gradient, None


def normalises(places: int, channels: int, groups: int) -> bool:
    """Return whether `norm` takes images of so many places and channels."""
    group = channels // groups
    return group & (group - 1) == 0 and group * _power(places) <= _MOST_VALUES


def norm(
    images: Tensor, bias: Tensor, scale: Tensor, offset: Tensor, groups: int, epsilon: float, *, relu: bool
) -> Tensor:
    """Add a bias to [U, B, H, W, C], normalise groups of channels, scale and offset, all [U, C], and apply ReLU."""
    group = images.shape[4] // groups
    output: Tensor = _Norm.apply(images, bias, scale, offset, group, epsilon, relu)[0]  # type: ignore[no-untyped-call]
    return output


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(
        images: Tensor, bias: Tensor, scale: Tensor, offset: Tensor, group: int, epsilon: float, relu: bool
    ) -> tuple[Tensor, Tensor]:
        output, moments = _norm(images, bias, scale, offset, group, epsilon, relu)
        return output, moments

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        images, bias, scale, offset, ctx.group, _, ctx.relu = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(images, bias, scale, offset, output[1])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        returned, sums = _norm_gradient(*ctx.saved_tensors, gradient, ctx.group, ctx.relu)
        return returned, *sums.sum(1).unbind(1), None, None, None


# How they are divided.


def product_tile(images: Tensor, columns: int, *, turned: bool) -> Tile:
    """Return the tile of a convolution, or of the gradient of its inputs."""
    users, batch, height, width, depth = images.shape
    known = (_BACKWARD if turned else _FORWARD).get((height, depth, columns))
    if known is not None:
        return known
    places = batch * height * width
    widest = 128 if users * _parts(places, 128) * _parts(columns, 128) >= 128 else 64
    return Tile(128, min(widest, _side(columns)), min(64, _side(depth)))


def gradient_tile(images: Tensor, gradient: Tensor, taps: int) -> Tile:
    """Return the tile of the gradient of a kernel, whose sum over many places is split where the kernel is small."""
    users, batch, height, width, outputs = gradient.shape
    inputs = images.shape[4]
    known = _GRADIENT.get((height, inputs, outputs))
    if known is not None:
        return known
    rows, columns = min(128, _side(outputs)), min(128, _side(taps * inputs))
    programs = users * _parts(outputs, rows) * _parts(taps * inputs, columns)
    splits = max(1, min(_SPLIT_PROGRAMS // programs, batch * height * width // 1024))
    return Tile(rows, columns, 64, splits=splits)


def _side(size: int) -> int:
    """Return the side of a tile that holds so many values; products need 16."""
    return max(16, _power(size))


def _parts(size: int, part: int) -> int:
    return -(-size // part)


def _power(size: int) -> int:
    """Return the power of 2 that is not less."""
    return 1 << (size - 1).bit_length()


def norm_share(images: Tensor, group: int, *, backward: bool) -> Share:
    """Return a norm's share: whole groups, as many as its registers hold."""
    places, channels = images.shape[2] * images.shape[3], images.shape[4]
    known = (_NORM_BACKWARD if backward else _NORM).get((places, channels))
    if known is not None and known.channels % group == 0:
        return known
    held, block = _power(places), group
    while channels % (2 * block) == 0 and 2 * block * held <= _USUAL_VALUES:
        block *= 2
    return Share(block, 4 if block * held <= _USUAL_VALUES // 4 else 8)
