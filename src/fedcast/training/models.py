"""The built-in models as values, and `build_model` for these, plug-ins and models in a file.

A built-in model is a function of layers (argument `nn`), the shape of a sample and the number of classes. PyTorch is
imported when one is built: planning counts the weights of built-in models without it.
"""

from __future__ import annotations

import importlib.util
import math
import runpy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from fedcast import registry
from fedcast.errors import FedcastError
from fedcast.registry import NoOptions

if TYPE_CHECKING:
    from torch import nn

Shape = tuple[int, ...]

_VGG16 = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
_NORM_GROUPS = 32
_RESNET_STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))  # channels and stride of the first of two blocks


@dataclass(frozen=True)
class Model:
    """A model that scenarios can name.

    Delay and energy follow from the number of its weights, see `count_weights`. `options` is a frozen dataclass, see
    `fedcast.registry.option`.
    """

    build: Callable[..., nn.Module]  #: (shape of a sample, number of classes[, options]) → the module
    summary: str  #: its layers in one line
    options: type[Any] = NoOptions
    weights: int | None = None  #: number of weights on its usual dataset, for plans without samples
    #: as `build`, but returns the number of weights, so that planning does not need PyTorch
    count: Callable[..., int] | None = None

    def __call__(self, shape: Shape, num_classes: int, options: Any = None) -> nn.Module:
        """Build the module; options default to those of the dataclass."""
        return self.build(*self._arguments(shape, num_classes, options))

    def counted(self, shape: Shape, num_classes: int, options: Any = None) -> int | None:
        """Return the number of weights by `count`; None: it has none."""
        return None if self.count is None else self.count(*self._arguments(shape, num_classes, options))

    def _arguments(self, shape: Shape, num_classes: int, options: Any) -> tuple[Any, ...]:
        own = () if self.options is NoOptions else (self.options() if options is None else options,)
        return (shape, num_classes, *own)


MODELS: registry.Values[Model] = registry.Values("model")


def mlp(nn: Any, shape: Shape, num_classes: int) -> Any:
    """Return an MLP with one hidden layer of 32; 2,410 weights for digits."""
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), 32), nn.ReLU(), nn.Linear(32, num_classes))


def small_cnn(nn: Any, shape: Shape, num_classes: int) -> Any:
    """Return a CNN with two 3×3 convolutions of 8 and 16 channels; 1,898 weights for digits."""
    channels, height, width = _image("small_cnn", shape, 4)
    return nn.Sequential(
        nn.Conv2d(channels, 8, 3, padding=1), nn.MaxPool2d(2), nn.ReLU(),
        nn.Conv2d(8, 16, 3, padding=1), nn.MaxPool2d(2), nn.ReLU(),
        nn.Flatten(), nn.Linear(16 * (height // 4) * (width // 4), num_classes),
    )  # fmt: skip


def cnn(nn: Any, shape: Shape, num_classes: int) -> Any:
    """Return conv5×5(10)–pool–conv5×5(20)–pool–50–classes without dropout; 21,840 weights for MNIST."""
    channels, height, width = _image("cnn", shape, 16)
    return nn.Sequential(
        nn.Conv2d(channels, 10, 5), nn.MaxPool2d(2), nn.ReLU(),
        nn.Conv2d(10, 20, 5), nn.MaxPool2d(2), nn.ReLU(),
        nn.Flatten(), nn.Linear(20 * _after_two_pools(height, width), 50), nn.ReLU(), nn.Linear(50, num_classes),
    )  # fmt: skip


def lenet5(nn: Any, shape: Shape, num_classes: int) -> Any:
    """Return conv5×5(6)–pool–conv5×5(16)–pool–120–84–classes, NIID-Bench's simple-cnn; 44,426 weights for MNIST."""
    channels, height, width = _image("lenet5", shape, 16)
    return nn.Sequential(
        nn.Conv2d(channels, 6, 5), nn.MaxPool2d(2), nn.ReLU(),
        nn.Conv2d(6, 16, 5), nn.MaxPool2d(2), nn.ReLU(),
        nn.Flatten(), nn.Linear(16 * _after_two_pools(height, width), 120), nn.ReLU(),
        nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, num_classes),
    )  # fmt: skip


def vgg16(nn: Any, shape: Shape, num_classes: int) -> Any:
    """Return VGG-16 with group norm, since batch norm fails on users of one class; 14.7 M weights for CIFAR-10."""
    channels, height, width = _image("vgg16", shape, 32)
    layers = []
    for block in _VGG16:
        for out in block:
            layers += [nn.Conv2d(channels, out, 3, padding=1), nn.GroupNorm(_NORM_GROUPS, out), nn.ReLU()]
            channels = out
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * (height // 32) * (width // 32), num_classes))


def resnet18(nn: Any, shape: Shape, num_classes: int) -> Any:
    """Return ResNet-18 (He et al. 2016) for small images with group norm; 11.2 M weights for CIFAR-10.

    The first convolution is 3×3 with stride 1, as usual for CIFAR.
    """
    channels, height, width = _image("resnet18", shape, 8)
    layers, inputs = [*_convolution(nn, channels, 64, 3, 1), nn.ReLU()], 64
    for outputs, stride in _RESNET_STAGES:
        layers += [_residual(nn, inputs, outputs, stride), _residual(nn, outputs, outputs, 1)]
        inputs = outputs
    pooled = nn.AvgPool2d((-(-height // 8), -(-width // 8)))
    return nn.Sequential(*layers, pooled, nn.Flatten(), nn.Linear(inputs, num_classes))


def _residual(nn: Any, inputs: int, outputs: int, stride: int) -> Any:
    first, second = _convolution(nn, inputs, outputs, 3, stride), _convolution(nn, outputs, outputs, 3, 1)
    shortcut = _convolution(nn, inputs, outputs, 1, stride) if stride > 1 else []
    return nn.Residual(nn.Sequential(*first, nn.ReLU(), *second), nn.Sequential(*shortcut))


def _convolution(nn: Any, inputs: int, outputs: int, kernel: int, stride: int) -> list[Any]:
    """Return a convolution without bias and the norm that follows it."""
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
    return [convolution, nn.GroupNorm(_NORM_GROUPS, outputs)]


def char_lstm(nn: Any, shape: Shape, num_classes: int) -> Any:
    """Return an embedding of 8, two LSTM layers of 256 and a linear layer; 819,920 weights for 80 characters."""
    _check_text("lstm", shape)
    return nn.Sequential(nn.Embedding(num_classes, 8), nn.LSTM(8, 256, 2), nn.LastStep(), nn.Linear(256, num_classes))


def char_transformer(nn: Any, shape: Shape, num_classes: int) -> Any:
    """Return a transformer of two blocks of width 128 with four heads; 417,360 weights for 80 characters."""
    _check_text("transformer", shape)
    blocks = [nn.Block(128, 4, 512) for _ in range(2)]
    scores = nn.LayerNorm(128), nn.LastStep(), nn.Linear(128, num_classes)
    return nn.Sequential(nn.Embedding(num_classes, 128), nn.Positions(), *blocks, *scores)


def _after_two_pools(height: int, width: int) -> int:
    """Return the places that two 5×5 convolutions without padding, each with a pooling of 2, leave of an image."""
    return (((height - 4) // 2 - 4) // 2) * (((width - 4) // 2 - 4) // 2)


@cache
def _layers() -> SimpleNamespace:
    """Return the layers of PyTorch and those of fedcast."""
    from torch import nn

    from fedcast.training.lstm import LSTM, LastStep
    from fedcast.training.resnet import Residual
    from fedcast.training.transformer import Block, Positions

    own = {layer.__name__: layer for layer in (LSTM, LastStep, Residual, Block, Positions)}
    return SimpleNamespace(**vars(nn) | own)


def _linear(inputs: int, outputs: int) -> int:
    return inputs * outputs + outputs


# The same layers as numbers of weights, with which what builds a model counts it.
_COUNTS = SimpleNamespace(
    **dict.fromkeys(("AvgPool2d", "Flatten", "LastStep", "MaxPool2d", "Positions", "ReLU"), lambda *_: 0),
    Linear=_linear,
    Conv2d=lambda inputs, outputs, kernel, *_, bias=True, **__: (inputs * kernel**2 + bias) * outputs,
    Embedding=lambda count, size: count * size,
    GroupNorm=lambda _, channels: 2 * channels,
    LayerNorm=lambda width: 2 * width,
    # Four gates; PyTorch has a bias for the inputs and one for the state.
    LSTM=lambda inputs, size, layers: sum(4 * size * (into + size + 2) for into in (inputs, *[size] * (layers - 1))),
    Block=lambda width, _, hidden: (
        _linear(width, 3 * width) + _linear(width, width) + _linear(width, hidden) + _linear(hidden, width) + 4 * width
    ),
    Residual=lambda body, shortcut: body + shortcut,
    Sequential=lambda *layers: sum(layers),
)


def _built_in(layers: Callable[[Any, Shape, int], Any], summary: str, weights: int) -> Model:
    """Return a model that is written once, as a function of layers, and built and counted by it."""
    return Model(lambda *of: layers(_layers(), *of), summary, weights=weights, count=lambda *of: layers(_COUNTS, *of))


MLP = _built_in(mlp, "one hidden layer of 32", 2_410)
SMALL_CNN = _built_in(small_cnn, "two 3×3 convolutions of 8 and 16 channels", 1_898)
CNN = _built_in(cnn, "two 5×5 convolutions of 10 and 20 channels, a hidden layer of 50", 21_840)
LENET5 = _built_in(lenet5, "two 5×5 convolutions of 6 and 16 channels, hidden layers 120, 84", 44_426)
VGG16 = _built_in(vgg16, "VGG-16 with group norm", 14_728_266)
RESNET18 = _built_in(resnet18, "ResNet-18 for small images, with group norm", 11_173_962)
CHAR_TRANSFORMER = _built_in(char_transformer, "next character: two transformer blocks of width 128", 417_360)
CHAR_LSTM = _built_in(char_lstm, "next character: embedding of 8, two LSTM layers of 256", 819_920)


def build_model(
    name: str, shape: Shape, num_classes: int, seed: int = 0, file: str | Path | None = None, options: Any = None
) -> nn.Module:
    """Build a model for samples of that shape; its first weights are drawn from the seed alone.

    Args:
        name: name of a registered model, or of a function in `file`.
        shape: shape of a sample.
        num_classes: number of scores that the model returns.
        seed: seed of its first weights.
        file: Python file that defines the model.
        options: options of a registered model; None: its defaults.

    Example:
        >>> sum(weight.numel() for weight in build_model("cnn", (1, 28, 28), 10).parameters())
        21840
    """
    import torch

    model = _find(name, file)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            return model(shape, num_classes, options)
        except (Exception, SystemExit) as error:
            if file is None or isinstance(error, FedcastError):
                raise
            raise FedcastError(f"training.model_file = {file}: {name}: {type(error).__name__}: {error}") from error


def count_weights(
    name: str, shape: Shape, num_classes: int, file: str | Path | None = None, options: Any = None
) -> int | None:
    """Return the number of weights of the model that `build_model` builds.

    A model without `Model.count` is built without memory for its weights (on PyTorch's device ``meta``), or as it is
    where its code needs values. None: that needs PyTorch, which is not installed.

    Example:
        >>> count_weights("mlp", (1, 28, 28), 10)
        25450
    """
    model = _find(name, file)
    counted = model.counted(shape, num_classes, options)
    if counted is not None or importlib.util.find_spec("torch") is None:
        return counted
    import torch
    from torch.nn.parameter import UninitializedParameter

    try:
        with torch.random.fork_rng(devices=[]), torch.device("meta"):
            module = model(shape, num_classes, options)
    except Exception:
        module = build_model(name, shape, num_classes, file=file, options=options)
    # What is no model, or has weights without a shape, is an error of `check_model`.
    weights = list(module.parameters()) if isinstance(module, torch.nn.Module) else []
    lazy = any(isinstance(weight, UninitializedParameter) for weight in weights)
    return None if lazy or not weights else sum(weight.numel() for weight in weights)


def _find(name: str, file: str | Path | None) -> Model:
    if file is not None:
        return Model(_function_of(Path(file), name), name)
    model: Model = registry.find("model", name).value
    return model


def _function_of(file: Path, name: str) -> Callable[..., nn.Module]:
    if not file.is_file():
        raise FedcastError(f"training.model_file = {file}: no such file")
    try:
        defined = runpy.run_path(str(file), run_name=registry.MODEL_FILE_MODULE)
    except (Exception, SystemExit) as error:  # whatever the file raises
        raise FedcastError(f"training.model_file = {file}: {type(error).__name__}: {error}") from error
    if not callable(defined.get(name)):
        own = ", ".join(word for word, value in defined.items() if callable(value) and not word.startswith("_"))
        raise FedcastError(f"training.model = {name}: no such function in {file}; it has {own or 'none'}")
    function: Callable[..., nn.Module] = defined[name]
    return function


def _check_text(name: str, shape: Shape) -> None:
    if len(shape) != 1:
        raise FedcastError(f"training.model = {name}: inputs have shape {shape}; it needs sequences of characters")


def _image(name: str, shape: Shape, least: int) -> tuple[int, int, int]:
    if len(shape) != 3 or min(shape[1:]) < least:
        raise FedcastError(
            f"training.model = {name}: inputs have shape {shape}; it needs images of at least {least}×{least}; "
            f"there are {', '.join(registry.names('model'))}"
        )
    return shape
