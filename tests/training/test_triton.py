"""Convolutions and norms in Triton's interpreter against those of PyTorch, one user at a time, in float32."""

import os
import shutil
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

if torch.cuda.is_available() or ("triton" in sys.modules and "TRITON_INTERPRET" not in os.environ):
    pytest.skip("Triton is needed, or was imported, for a GPU", allow_module_level=True)
os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported
pytest.importorskip("triton")

from fedcast.training.engines import channels_last, forward, triton_convolution
from fedcast.training.engines.triton_convolution import Tile

pytestmark = pytest.mark.filterwarnings("ignore:Conversion of an array:DeprecationWarning")  # of the interpreter
CPU = torch.device("cpu")


def rand(*shape):
    return torch.rand(*shape) - 0.5


def near(ours, theirs, rounding=1e-5):
    return (ours - theirs).abs().max() <= rounding * theirs.abs().max()


SHAPES = {  # batch, height, width, channels, outputs, taps, padding
    "same": (3, 5, 7, 16, 32, (3, 3), (1, 1)),
    "whole images at once": (5, 4, 4, 32, 16, (3, 3), (1, 1)),
    "whole rows at once": (2, 16, 16, 16, 16, (3, 3), (1, 1)),
    "part of a block": (2, 8, 8, 48, 80, (3, 3), (1, 1)),
    "smaller outputs": (3, 6, 5, 16, 16, (3, 2), (0, 1)),
    "one tap": (3, 5, 5, 32, 16, (1, 1), (0, 0)),
    "large taps": (2, 6, 6, 16, 16, (5, 5), (2, 2)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_convolutions_and_their_gradients(name):
    batch, height, width, channels, outputs, taps, padding = SHAPES[name]
    images = rand(2, batch, height, width, channels).requires_grad_()
    kernel = rand(2, outputs, *taps, channels).requires_grad_()
    ours = triton_convolution.convolution(images, kernel, padding)
    theirs = torch.stack([by_torch(*pair, padding) for pair in zip(images, kernel, strict=True)])
    assert ours.shape == theirs.shape
    assert near(ours, theirs)
    towards = rand(*ours.shape)
    for one, other in zip(
        torch.autograd.grad(ours, [images, kernel], towards),
        torch.autograd.grad(theirs, [images, kernel], towards),
        strict=True,
    ):
        assert near(one, other)


def by_torch(images, kernel, padding):
    return F.conv2d(images.permute(0, 3, 1, 2), kernel.permute(0, 3, 1, 2), padding=padding).permute(0, 2, 3, 1)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("tile", [Tile(16, 16, 16, by_place=True), Tile(64, 32, 32, by_place=True), Tile(32, 64, 16)])
def test_tiles_do_not_change_a_convolution(tile, turned):
    images, kernel = rand(2, 5, 4, 4, 32), rand(2, 32, 3, 3, 32)
    usual = triton_convolution.run_product(images, kernel, (1, 1), turned=turned)
    assert near(triton_convolution.run_product(images, kernel, (1, 1), turned=turned, tile=tile), usual)


@pytest.mark.parametrize("tile", [Tile(16, 32, 16, splits=3), Tile(32, 64, 64, splits=2), Tile(16, 16, 32)])
@pytest.mark.parametrize("side", [3, 4, 8])
def test_tiles_do_not_change_the_gradient_of_a_kernel(tile, side):
    images, gradient = rand(2, 5, side, side, 32), rand(2, 5, side, side, 48)
    usual = triton_convolution.run_kernel_gradient(images, gradient, (3, 3), (1, 1))
    parts = triton_convolution.run_kernel_gradient(images, gradient, (3, 3), (1, 1), tile)
    assert len(parts) == tile.splits
    assert near(parts.sum(0), usual.sum(0))


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize(("side", "channels", "groups"), [(3, 32, 8), (4, 64, 32), (8, 16, 2), (2, 48, 3)])
def test_norms_and_their_gradients(side, channels, groups, relu):
    images = (rand(2, 3, side, side, channels) * 3 + 1).requires_grad_()
    weights = [rand(2, channels).requires_grad_() for _ in range(3)]
    ours = triton_convolution.norm(images, *weights, groups, 1e-5, relu=relu)
    each = [
        F.group_norm((part + bias).permute(0, 3, 1, 2), groups, scale, offset).permute(0, 2, 3, 1)
        for part, bias, scale, offset in zip(images, *weights, strict=True)
    ]
    theirs = torch.stack(each).relu() if relu else torch.stack(each)
    assert near(ours, theirs)
    towards = rand(*ours.shape)
    ours, theirs = (torch.autograd.grad(value, [images, *weights], towards) for value in (ours, theirs))
    assert near(ours[0], theirs[0], 1e-4)
    # That of a bias is what the norm leaves of it: sums of values that nearly cancel.
    assert (ours[1] - theirs[1]).abs().max() < 1e-5 * float(theirs[0].abs().sum(dim=(1, 2, 3)).max())
    assert all(map(near, ours[2:], theirs[2:], [1e-4] * 2))


MODELS = {
    "like vgg16": nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.GroupNorm(8, 32, affine=False), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 4, 5),
    ),
    "without norms": nn.Sequential(
        nn.Conv2d(1, 16, 5), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(16, 16, 3, padding=1), nn.Tanh(), nn.Flatten(),
        nn.Linear(64, 5),
    ),
    "norms of 3 channels": nn.Sequential(
        nn.Conv2d(2, 48, 3), nn.GroupNorm(16, 48), nn.ReLU(), nn.GroupNorm(12, 48), nn.MaxPool2d(4), nn.ReLU(),
        nn.Flatten(), nn.Linear(48, 5),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_chains_against_one_user_at_a_time(name, monkeypatch):
    monkeypatch.setattr(channels_last, "works", lambda _: True)  # the interpreter does not multiply in bfloat16
    model = MODELS[name]
    weights = [rand(2, *weight.shape).requires_grad_() for weight in model.parameters()]
    inputs = rand(2, 3, model[0].in_channels, 8, 8)
    chain = forward._channels_last_forward(model, CPU)
    ours = chain(weights, inputs)
    names = [key for key, _ in model.named_parameters()]
    own = [dict(zip(names, user, strict=True)) for user in zip(*weights, strict=True)]
    theirs = torch.stack([torch.func.functional_call(model, *pair) for pair in zip(own, inputs, strict=True)])
    assert near(ours, theirs, 1e-4)
    for one, other in zip(
        torch.autograd.grad(ours.logsumexp(2).sum(), weights),
        torch.autograd.grad(theirs.logsumexp(2).sum(), weights),
        strict=True,
    ):
        assert (one - other).abs().max() <= 1e-3 * max(float(other.abs().max()), 1e-2)


@pytest.mark.parametrize(
    "layers",
    [
        [nn.Conv2d(3, 16, 3, stride=2)],
        [nn.Conv2d(3, 10, 3)],
        [nn.Conv2d(3, 16, 3), nn.Conv2d(16, 16, 3, padding=3)],
        [nn.Flatten(), nn.Linear(12, 4)],
    ],
)
def test_chains_that_go_another_way(layers):
    assert channels_last.stages(layers) is None


@pytest.mark.filterwarnings("ignore")  # PyTorch's compiler warns a lot
def test_chains_compile_to_the_same(monkeypatch):
    if not shutil.which("g++"):
        pytest.skip("compiling needs g++")
    monkeypatch.setattr(channels_last, "works", lambda _: True)
    model = MODELS["like vgg16"]
    weights = [rand(2, *weight.shape) for weight in model.parameters()]
    chain = forward._channels_last_forward(model, CPU)

    def gradients(at, inputs):
        return torch.func.grad(lambda inner: chain(inner, inputs).logsumexp(2).sum())(at)

    inputs = rand(2, 3, 3, 8, 8)
    for ours, theirs in zip(torch.compile(gradients)(weights, inputs), gradients(weights, inputs), strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-4)
