# ruff: noqa: N803 (constants of a kernel are written in capitals)
# mypy: ignore-errors
"""Kernels in Triton that `triton_convolution` calls; imported where Triton is, which is no dependency.

Images are [U, B, H, W, C], kernels [U, O, kh, kw, C], contiguous each. Sums are taken in float32.
"""

import triton
import triton.language as tl


# One kernel serves images of all sizes.
@triton.jit(do_not_specialize=["batch", "height_in", "width_in", "height", "width", "pad_h", "pad_w"])
def product(
    images, kernel, output, batch, height_in, width_in, height, width, depth, columns, pad_h, pad_w,
    KH: tl.constexpr, KW: tl.constexpr, TURNED: tl.constexpr, BY_PLACE: tl.constexpr, EVEN: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Convolve; or, turned, bring gradients of outputs back to inputs, where taps count backwards."""
    taps: tl.constexpr = KH * KW
    tiles = tl.cdiv(columns, COLUMNS)
    tile_row, tile_column = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    user = tl.program_id(1).to(tl.int64)
    images += user * batch * height_in * width_in * depth
    kernel += user * taps * depth * columns
    output += user * batch * height * width * columns

    # Which output each row is, and which taps of it lie within the image.
    count = batch * height * width
    number = tile_row * ROWS + tl.arange(0, ROWS)
    if BY_PLACE:
        place, image = number // batch, number % batch
    else:
        place, image = number % (height * width), number // (height * width)
    down, along = place // width - pad_h, place % width - pad_w
    bits = tl.zeros((ROWS,), tl.int32)
    for tap in tl.static_range(taps):
        row, column = down + tap // KW, along + tap % KW
        inside = (row >= 0) & (row < height_in) & (column >= 0) & (column < width_in) & (number < count)
        bits |= inside.to(tl.int32) << tap
    first = ((image * height_in + down) * width_in + along) * depth

    # Rows of a kernel that all fall into the padding are left out.
    first_tap, last_tap = 0, taps
    if BY_PLACE:
        top = tile_row * ROWS // batch // width
        bottom = (tl.minimum(tile_row * ROWS + ROWS, count) - 1) // batch // width
        first_tap = tl.maximum(pad_h - bottom, 0) * KW
        last_tap = tl.minimum(height_in + pad_h - top, KH) * KW

    inner = tl.arange(0, DEPTH)
    outer = tile_column * COLUMNS + tl.arange(0, COLUMNS)
    sums = tl.zeros((ROWS, COLUMNS), tl.float32)
    tap, start = first_tap, 0
    for _ in range((last_tap - first_tap) * tl.cdiv(depth, DEPTH)):
        at = start + inner
        valid = ((bits >> tap) & 1)[:, None] != 0
        shift = ((tap // KW) * width_in + tap % KW) * depth
        if not EVEN:
            valid = valid & (at < depth)[None, :]
        values = tl.load(images + (first[:, None] + (shift + at)[None, :]), mask=valid, other=0.0)
        if TURNED:
            weights = kernel + (at[:, None] * (taps * columns) + ((taps - 1 - tap) * columns + outer)[None, :])
            if EVEN:
                factors = tl.load(weights)
            else:
                factors = tl.load(weights, mask=(at < depth)[:, None] & (outer < columns)[None, :], other=0.0)
            sums = tl.dot(values, factors, sums, input_precision="ieee")
        else:
            weights = kernel + (outer[:, None] * (taps * depth) + (tap * depth + at)[None, :])
            if EVEN:
                factors = tl.load(weights)
            else:
                factors = tl.load(weights, mask=(outer < columns)[:, None] & (at < depth)[None, :], other=0.0)
            sums = tl.dot(values, factors.T, sums, input_precision="ieee")
        tap += 1
        over = tap == last_tap
        tap = tl.where(over, first_tap, tap)
        start = tl.where(over, start + DEPTH, start)

    row = image * (height * width) + place
    within = (number < count)[:, None] & (outer < columns)[None, :]
    tl.store(output + (row[:, None] * columns + outer[None, :]), sums.to(output.dtype.element_ty), mask=within)


@triton.jit
def _within(place, side):
    """Return whether 0 ≤ place < side."""
    return place.to(tl.uint32, bitcast=True) < side


@triton.jit(do_not_specialize=["users", "batch", "share"])
def kernel_gradient(
    images, gradient, output, users, batch, share,
    HEIGHT_IN: tl.constexpr, WIDTH_IN: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
    INPUTS: tl.constexpr, OUTPUTS: tl.constexpr, PAD_H: tl.constexpr, PAD_W: tl.constexpr,
    KH: tl.constexpr, KW: tl.constexpr, EVEN: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Sum gradients of outputs times what each tap read, over a share of all places."""
    values: tl.constexpr = KH * KW * INPUTS
    tiles: tl.constexpr = (values + COLUMNS - 1) // COLUMNS
    tile_row, tile_column = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    part, user = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    count = batch * HEIGHT * WIDTH
    images += user * batch * HEIGHT_IN * WIDTH_IN * INPUTS
    gradient += user * count * OUTPUTS
    output += (part * users + user) * OUTPUTS * values

    channel = tile_row * ROWS + tl.arange(0, ROWS)
    value = tile_column * COLUMNS + tl.arange(0, COLUMNS)
    shift = (value // INPUTS // KW * WIDTH_IN + value // INPUTS % KW) * INPUTS + value % INPUTS
    if INPUTS % COLUMNS == 0:  # one tap for all of a program's columns
        tap = tile_column * COLUMNS // INPUTS
        tap_row, tap_column = tap // KW - PAD_H, tap % KW - PAD_W
    else:
        tap_row, tap_column = (value // INPUTS // KW - PAD_H)[None, :], (value // INPUTS % KW - PAD_W)[None, :]
    # Places of a step that are whole images or whole rows of one image lie alike in every step.
    whole: tl.constexpr = DEPTH % (HEIGHT * WIDTH) == 0
    lines: tl.constexpr = (HEIGHT * WIDTH) % DEPTH == 0 and DEPTH % WIDTH == 0
    linear: tl.constexpr = HEIGHT == HEIGHT_IN and WIDTH == WIDTH_IN
    inner = tl.arange(0, DEPTH)
    down, along = inner // WIDTH % HEIGHT, inner % WIDTH
    across = _within(along[:, None] + tap_column, WIDTH_IN)
    sums = tl.zeros((ROWS, COLUMNS), tl.float32)
    begin = tl.program_id(1) * share
    for start in range(begin, tl.minimum(begin + share, count), DEPTH):
        number = start + inner
        if not (whole or lines):
            down, along = number // WIDTH % HEIGHT, number % WIDTH
            across = _within(along[:, None] + tap_column, WIDTH_IN)
        line = start // WIDTH % HEIGHT if lines and not whole else 0
        valid = across & _within(down[:, None] + (line + tap_row), HEIGHT_IN)
        if not EVEN:
            valid = valid & (number < count)[:, None] & (value < values)[None, :]
        if linear:
            first = number - (PAD_H * WIDTH + PAD_W)
        else:
            image, place = number // (HEIGHT * WIDTH), number % (HEIGHT * WIDTH)
            first = (image * HEIGHT_IN + place // WIDTH - PAD_H) * WIDTH_IN + place % WIDTH - PAD_W
        read = tl.load(images + (first[:, None] * INPUTS + shift[None, :]), mask=valid, other=0.0)
        arrived = gradient + (number[:, None] * OUTPUTS + channel[None, :])
        if EVEN:
            given = tl.load(arrived)
        else:
            given = tl.load(arrived, mask=(number < count)[:, None] & (channel < OUTPUTS)[None, :], other=0.0)
        sums = tl.dot(given.T, read, sums, input_precision="ieee")

    within = (channel < OUTPUTS)[:, None] & (value < values)[None, :]
    tl.store(output + (channel[:, None] * values + value[None, :]), sums.to(output.dtype.element_ty), mask=within)


@triton.jit
def _of_groups(sums, GROUP: tl.constexpr, CHANNELS: tl.constexpr):
    """Return for each channel the sum over the channels of its group."""
    grouped = tl.sum(tl.reshape(sums, (CHANNELS // GROUP, GROUP)), axis=1)
    return tl.reshape(tl.broadcast_to(grouped[:, None], (CHANNELS // GROUP, GROUP)), (CHANNELS,))


@triton.jit(do_not_specialize=["batch", "places"])
def norm(
    images, bias, scale, offset, output, moments, batch, places, channels, epsilon,
    GROUP: tl.constexpr, RELU: tl.constexpr, PLACES: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Add a bias, normalise the groups of some channels of one image, scale, offset; keep mean and 1/deviation."""
    blocks = channels // CHANNELS
    image, block = (tl.program_id(0) // blocks).to(tl.int64), tl.program_id(0) % blocks
    channel, place = block * CHANNELS + tl.arange(0, CHANNELS), tl.arange(0, PLACES)
    own = (image // batch) * channels + channel
    at = image * places * channels + (place[:, None] * channels + channel[None, :])
    within = (place < places)[:, None] & (channel < channels)[None, :]
    values = tl.load(images + at, mask=within, other=0.0).to(tl.float32) + tl.load(bias + own)[None, :]
    values = tl.where(within, values, 0.0)
    mean = _of_groups(tl.sum(values, axis=0), GROUP, CHANNELS) / (places * GROUP)
    values = tl.where(within, values - mean[None, :], 0.0)
    variance = _of_groups(tl.sum(values * values, axis=0), GROUP, CHANNELS) / (places * GROUP)
    factor = 1.0 / tl.sqrt(variance + epsilon)
    values = values * (factor * tl.load(scale + own))[None, :] + tl.load(offset + own)[None, :]
    if RELU:
        values = tl.maximum(values, 0.0)
    tl.store(output + at, values.to(output.dtype.element_ty), mask=within)
    tl.store(moments + image * 2 * channels + channel, mean)
    tl.store(moments + (image * 2 + 1) * channels + channel, factor)


@triton.jit(do_not_specialize=["batch", "places"])
def norm_gradient(
    images, bias, scale, offset, moments, gradient, output, sums, batch, places, channels,
    GROUP: tl.constexpr, RELU: tl.constexpr, PLACES: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Bring a gradient back through a norm; sum over the image's places those of bias, scale and offset."""
    blocks = channels // CHANNELS
    image, block = (tl.program_id(0) // blocks).to(tl.int64), tl.program_id(0) % blocks
    channel, place = block * CHANNELS + tl.arange(0, CHANNELS), tl.arange(0, PLACES)
    own = (image // batch) * channels + channel
    at = image * places * channels + (place[:, None] * channels + channel[None, :])
    within = (place < places)[:, None] & (channel < channels)[None, :]
    mean = tl.load(moments + image * 2 * channels + channel)
    factor = tl.load(moments + (image * 2 + 1) * channels + channel)
    scales = tl.load(scale + own)
    values = tl.load(images + at, mask=within, other=0.0).to(tl.float32)
    arrived = tl.load(gradient + at, mask=within, other=0.0).to(tl.float32)
    centred = tl.where(within, values + (tl.load(bias + own) - mean)[None, :], 0.0)
    if RELU:
        shown = centred * (factor * scales)[None, :] + tl.load(offset + own)[None, :]
        arrived = tl.where(shown > 0.0, arrived, 0.0)
    of_offset = tl.sum(arrived, axis=0)
    of_scale = tl.sum(arrived * centred, axis=0) * factor
    count = places * GROUP
    level = _of_groups(of_offset * scales, GROUP, CHANNELS) / count
    slope = _of_groups(of_scale * scales, GROUP, CHANNELS) / count * factor
    returned = (arrived * scales[None, :] - level[None, :] - centred * slope[None, :]) * factor[None, :]
    returned = tl.where(within, returned, 0.0)
    tl.store(output + at, returned.to(output.dtype.element_ty), mask=within)
    total = sums + image * 3 * channels + channel
    tl.store(total, tl.sum(returned, axis=0))
    tl.store(total + channels, of_scale)
    tl.store(total + 2 * channels, of_offset)
