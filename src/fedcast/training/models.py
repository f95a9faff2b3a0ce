"""The built-in models as values, and `build_model` for these, plug-ins and models in a file.

PyTorch is imported by the functions that build a model: planning counts the weights of built-in models without it.
"""

from __future__ import annotations

import importlib.util
import itertools
import math
import runpy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcast import registry
from fedcast.errors import FedcastError
from fedcast.registry import NoOptions

if TYPE_CHECKING:
    from torch import nn

Shape = tuple[int, ...]

_VGG16 = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
_NORM_GROUPS = 32
RESNET_STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))  # channels and stride of the first of two blocks
TRANSFORMER_WIDTH, TRANSFORMER_HEADS, TRANSFORMER_HIDDEN, TRANSFORMER_BLOCKS = 128, 4, 512, 2


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


def mlp(shape: Shape, num_classes: int) -> nn.Module:
    """Return an MLP with one hidden layer of 32; 2,410 weights for digits."""
    from torch import nn

    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), 32), nn.ReLU(), nn.Linear(32, num_classes))


def small_cnn(shape: Shape, num_classes: int) -> nn.Module:
    """Return a CNN with two 3×3 convolutions of 8 and 16 channels; 1,898 weights for digits."""
    from torch import nn

    channels, height, width = _image("small_cnn", shape, 4)
    return nn.Sequential(
        nn.Conv2d(channels, 8, 3, padding=1), nn.MaxPool2d(2), nn.ReLU(),
        nn.Conv2d(8, 16, 3, padding=1), nn.MaxPool2d(2), nn.ReLU(),
        nn.Flatten(), nn.Linear(16 * (height // 4) * (width // 4), num_classes),
    )  # fmt: skip


def cnn(shape: Shape, num_classes: int) -> nn.Module:
    """Return conv5×5(10)–pool–conv5×5(20)–pool–50–classes without dropout; 21,840 weights for MNIST."""
    from torch import nn

    channels, height, width = _image("cnn", shape, 16)
    flat = 20 * _after_two_pools(height, width)
    return nn.Sequential(
        nn.Conv2d(channels, 10, 5), nn.MaxPool2d(2), nn.ReLU(),
        nn.Conv2d(10, 20, 5), nn.MaxPool2d(2), nn.ReLU(),
        nn.Flatten(), nn.Linear(flat, 50), nn.ReLU(), nn.Linear(50, num_classes),
    )  # fmt: skip


def lenet5(shape: Shape, num_classes: int) -> nn.Module:
    """Return conv5×5(6)–pool–conv5×5(16)–pool–120–84–classes, NIID-Bench's simple-cnn; 44,426 weights for MNIST."""
    from torch import nn

    channels, height, width = _image("lenet5", shape, 16)
    return nn.Sequential(
        nn.Conv2d(channels, 6, 5), nn.MaxPool2d(2), nn.ReLU(),
        nn.Conv2d(6, 16, 5), nn.MaxPool2d(2), nn.ReLU(),
        nn.Flatten(), nn.Linear(16 * _after_two_pools(height, width), 120), nn.ReLU(),
        nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, num_classes),
    )  # fmt: skip


def vgg16(shape: Shape, num_classes: int) -> nn.Module:
    """Return VGG-16 with group norm, since batch norm fails on users of one class; 14.7 M weights for CIFAR-10."""
    from torch import nn

    channels, height, width = _image("vgg16", shape, 32)
    layers: list[nn.Module] = []
    for block in _VGG16:
        for out in block:
            layers += [nn.Conv2d(channels, out, 3, padding=1), nn.GroupNorm(_NORM_GROUPS, out), nn.ReLU()]
            channels = out
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * (height // 32) * (width // 32), num_classes))


def char_lstm(shape: Shape, num_classes: int) -> nn.Module:
    """Return an embedding of 8, two LSTM layers of 256 and a linear layer; 819,920 weights for 80 characters."""
    from torch import nn

    from fedcast.training.lstm import LSTM, LastStep

    _check_text("lstm", shape)
    return nn.Sequential(nn.Embedding(num_classes, 8), LSTM(8, 256, 2), LastStep(), nn.Linear(256, num_classes))


def resnet18(shape: Shape, num_classes: int) -> nn.Module:
    """Return ResNet-18 for small images with group norm; 11.2 M weights for CIFAR-10."""
    from fedcast.training.resnet import resnet18

    return resnet18(*_image("resnet18", shape, 8), num_classes)


def char_transformer(shape: Shape, num_classes: int) -> nn.Module:
    """Return a transformer of two blocks of width 128 with four heads; 417,360 weights for 80 characters."""
    from fedcast.training.transformer import transformer

    _check_text("transformer", shape)
    return transformer(num_classes)


def _after_two_pools(height: int, width: int) -> int:
    """Return the places that two 5×5 convolutions without padding, each with a pooling of 2, leave of an image."""
    return (((height - 4) // 2 - 4) // 2) * (((width - 4) // 2 - 4) // 2)


def _linear(inputs: int, outputs: int) -> int:
    return inputs * outputs + outputs


def _conv(channels: int, out: int, kernel: int) -> int:
    return channels * out * kernel**2 + out


def _count_mlp(shape: Shape, num_classes: int) -> int:
    return _linear(math.prod(shape), 32) + _linear(32, num_classes)


def _count_small_cnn(shape: Shape, num_classes: int) -> int:
    channels, height, width = _image("small_cnn", shape, 4)
    return _conv(channels, 8, 3) + _conv(8, 16, 3) + _linear(16 * (height // 4) * (width // 4), num_classes)


def _count_cnn(shape: Shape, num_classes: int) -> int:
    channels, height, width = _image("cnn", shape, 16)
    flat = 20 * _after_two_pools(height, width)
    return _conv(channels, 10, 5) + _conv(10, 20, 5) + _linear(flat, 50) + _linear(50, num_classes)


def _count_lenet5(shape: Shape, num_classes: int) -> int:
    channels, height, width = _image("lenet5", shape, 16)
    hidden = _linear(16 * _after_two_pools(height, width), 120) + _linear(120, 84)
    return _conv(channels, 6, 5) + _conv(6, 16, 5) + hidden + _linear(84, num_classes)


def _count_vgg16(shape: Shape, num_classes: int) -> int:
    channels, height, width = _image("vgg16", shape, 32)
    total = 0
    for out in itertools.chain(*_VGG16):
        total += _conv(channels, out, 3) + 2 * out
        channels = out
    return total + _linear(channels * (height // 32) * (width // 32), num_classes)


def _count_lstm(shape: Shape, num_classes: int) -> int:
    _check_text("lstm", shape)
    # Four gates; PyTorch has a bias for the inputs and one for the state.
    layers = (4 * 256 * (inputs + 256 + 2) for inputs in (8, 256))
    return 8 * num_classes + sum(layers) + _linear(256, num_classes)


def _count_resnet18(shape: Shape, num_classes: int) -> int:
    channels, _, _ = _image("resnet18", shape, 8)
    total, inputs = _conv(channels, 64, 3) + 64, 64  # a norm has one weight more than the bias of a convolution
    for outputs, stride in RESNET_STAGES:
        total += _conv(inputs, outputs, 3) + 3 * _conv(outputs, outputs, 3) + 4 * outputs
        total += _conv(inputs, outputs, 1) + outputs if stride > 1 else 0
        inputs = outputs
    return total + _linear(inputs, num_classes)


def _count_transformer(shape: Shape, num_classes: int) -> int:
    _check_text("transformer", shape)
    width, hidden = TRANSFORMER_WIDTH, TRANSFORMER_HIDDEN
    block = (
        _linear(width, 3 * width) + _linear(width, width) + _linear(width, hidden) + _linear(hidden, width) + 4 * width
    )
    return num_classes * width + TRANSFORMER_BLOCKS * block + 2 * width + _linear(width, num_classes)


MLP = Model(mlp, "one hidden layer of 32", weights=2_410, count=_count_mlp)
SMALL_CNN = Model(small_cnn, "two 3×3 convolutions of 8 and 16 channels", weights=1_898, count=_count_small_cnn)
CNN = Model(cnn, "two 5×5 convolutions of 10 and 20 channels, a hidden layer of 50", weights=21_840, count=_count_cnn)
LENET5 = Model(
    lenet5,
    "two 5×5 convolutions of 6 and 16 channels, hidden layers 120, 84",
    weights=44_426,
    count=_count_lenet5,
)
VGG16 = Model(vgg16, "VGG-16 with group norm", weights=14_728_266, count=_count_vgg16)
RESNET18 = Model(resnet18, "ResNet-18 for small images, with group norm", weights=11_173_962, count=_count_resnet18)
CHAR_TRANSFORMER = Model(
    char_transformer, "next character: two transformer blocks of width 128", weights=417_360, count=_count_transformer
)
CHAR_LSTM = Model(
    char_lstm, "next character: embedding of 8, two LSTM layers of 256", weights=819_920, count=_count_lstm
)


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
