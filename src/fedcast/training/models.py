"""The models that fedcast trains, and what any other model must satisfy."""

from __future__ import annotations

import copy
import runpy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from fedcast.errors import FedcastError
from fedcast.training.lstm import LSTM

_VGG16 = (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0)
_NORM_GROUPS = 32


class LastStep(nn.Module):
    """The last time step of a sequence."""

    def forward(self, sequence: Tensor) -> Tensor:
        """[batch, features] from [batch, time, features]."""
        return sequence[..., -1, :]


def mlp(shape: tuple[int, ...], num_classes: int) -> nn.Module:
    """One hidden layer of 32; 2,410 weights for digits."""
    features = int(torch.tensor(shape).prod())
    return nn.Sequential(nn.Flatten(), nn.Linear(features, 32), nn.ReLU(), nn.Linear(32, num_classes))


def small_cnn(shape: tuple[int, ...], num_classes: int) -> nn.Module:
    """Two 3×3 convolutions of 8 and 16 channels; 1,898 weights for digits."""
    channels, height, width = _image("small_cnn", shape, 4)
    return nn.Sequential(
        nn.Conv2d(channels, 8, 3, padding=1), nn.MaxPool2d(2), nn.ReLU(),
        nn.Conv2d(8, 16, 3, padding=1), nn.MaxPool2d(2), nn.ReLU(),
        nn.Flatten(), nn.Linear(16 * (height // 4) * (width // 4), num_classes),
    )  # fmt: skip


def cnn(shape: tuple[int, ...], num_classes: int) -> nn.Module:
    """conv5×5(10)–pool–conv5×5(20)–pool–50–classes without dropout; 21,840 weights for MNIST."""
    channels, height, width = _image("cnn", shape, 16)
    flat = 20 * (((height - 4) // 2 - 4) // 2) * (((width - 4) // 2 - 4) // 2)
    return nn.Sequential(
        nn.Conv2d(channels, 10, 5), nn.MaxPool2d(2), nn.ReLU(),
        nn.Conv2d(10, 20, 5), nn.MaxPool2d(2), nn.ReLU(),
        nn.Flatten(), nn.Linear(flat, 50), nn.ReLU(), nn.Linear(50, num_classes),
    )  # fmt: skip


def vgg16(shape: tuple[int, ...], num_classes: int) -> nn.Module:
    """VGG-16 with group norm, which unlike batch norm is sound on users of one class; 14.7 M weights for CIFAR-10."""
    channels, height, width = _image("vgg16", shape, 32)
    layers: list[nn.Module] = []
    for width_or_pool in _VGG16:
        if width_or_pool == 0:
            layers.append(nn.MaxPool2d(2))
            continue
        convolution = nn.Conv2d(channels, width_or_pool, 3, padding=1)
        layers += [convolution, nn.GroupNorm(_NORM_GROUPS, width_or_pool), nn.ReLU()]
        channels = width_or_pool
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * (height // 32) * (width // 32), num_classes))


def char_lstm(shape: tuple[int, ...], num_classes: int) -> nn.Module:
    """Embedding of 8, two layers of 256, the last step's state decides; 819,920 weights for 80 characters."""
    if len(shape) != 1:
        raise FedcastError(f"training.model = lstm: inputs have shape {shape}; it needs sequences of characters")
    return nn.Sequential(nn.Embedding(num_classes, 8), LSTM(8, 256, 2), LastStep(), nn.Linear(256, num_classes))


MODELS: dict[str, Callable[[tuple[int, ...], int], nn.Module]] = {
    "mlp": mlp,
    "small_cnn": small_cnn,
    "cnn": cnn,
    "vgg16": vgg16,
    "lstm": char_lstm,
}


def build_model(
    name: str, shape: tuple[int, ...], num_classes: int, seed: int = 0, file: str | Path | None = None
) -> nn.Module:
    """A model for samples of that shape, its first weights drawn from the seed alone.

    Args:
        name: in the table of models, or of a function in `file`.
        shape: of a sample.
        num_classes: scores that it makes.
        seed: of its first weights.
        file: a person's own Python file.

    Example:
        >>> sum(weight.numel() for weight in build_model("cnn", (1, 28, 28), 10).parameters())
        21840
    """
    if file is None and name not in MODELS:
        raise FedcastError(
            f"training.model: unknown model {name!r}; there are {', '.join(MODELS)}, or your own in training.model_file"
        )
    make = MODELS[name] if file is None else _own_function(Path(file), name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make(shape, num_classes)


def _own_function(file: Path, name: str) -> Callable[[tuple[int, ...], int], nn.Module]:
    if not file.is_file():
        raise FedcastError(f"training.model_file = {file}: no such file")
    try:
        defined = runpy.run_path(str(file))
    except Exception as error:  # whatever the file raises
        raise FedcastError(f"training.model_file = {file}: {type(error).__name__}: {error}") from error
    if not callable(defined.get(name)):
        own = ", ".join(word for word, value in defined.items() if callable(value) and not word.startswith("_"))
        raise FedcastError(f"training.model = {name}: no such function in {file}; it has {own or 'none'}")
    function: Callable[[tuple[int, ...], int], nn.Module] = defined[name]
    return function


def check_model(model: nn.Module, *, replace_batch_norm: bool = False) -> nn.Module:
    """A copy of the model, if it can be averaged over users; layers that cannot are refused, or on request replaced.

    Batch norm keeps running statistics that are not weights, and normalises by a batch that on a one-class user says
    nothing of the others: averaged over users it breaks. Group norm with as many groups as fit takes its place.
    """
    if not isinstance(model, nn.Module):
        raise FedcastError(f"model: {model!r} is no torch.nn.Module; give an instance, or name it in training.model")
    for name, weight in model.named_parameters():
        if isinstance(weight, nn.parameter.UninitializedParameter):
            raise FedcastError(f"model weight {name!r}: it has no shape yet; send a sample through the model first")
        if not bool(weight.isfinite().all()):
            raise FedcastError(f"model weight {name!r}: it holds NaN or infinity; training starts from these weights")
    model = copy.deepcopy(model)
    for path, module in list(model.named_modules()):
        if not isinstance(module, nn.modules.batchnorm._BatchNorm):
            continue
        if not replace_batch_norm:
            raise FedcastError(
                f"model layer {path!r} is {type(module).__name__}: its running statistics cannot be averaged over "
                "users of different classes; use group norm, or pass replace_batch_norm=True"
            )
        parent = model.get_submodule(path.rpartition(".")[0])
        groups = next(groups for groups in range(_NORM_GROUPS, 0, -1) if module.num_features % groups == 0)
        setattr(parent, path.rpartition(".")[2], nn.GroupNorm(groups, module.num_features))
    frozen = next((name for name, weight in model.named_parameters() if not weight.requires_grad), None)
    if frozen is not None:
        raise FedcastError(f"model weight {frozen!r}: it does not require a gradient, but all weights are trained here")
    buffer = next((name for name, _ in model.named_buffers()), None)
    if buffer is not None:
        raise FedcastError(f"model buffer {buffer!r}: state that is not a weight is not sent or averaged; remove it")
    return model


def check_scores(model: nn.Module, sample: Tensor, num_classes: int) -> None:
    """Refuse a model that does not make one score for each class of a sample [1, ...]."""
    try:
        with torch.no_grad(), without_dropout(model):
            scores = model(sample)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # whatever the model raises
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise FedcastError(f"model: it cannot take one sample, shape {tuple(sample.shape)}: {reason}") from error
    if not isinstance(scores, Tensor):
        raise FedcastError(f"model: it returns a {type(scores).__name__}; expected a tensor, a score for each class")
    if scores.shape != (1, num_classes):
        raise FedcastError(
            f"model: what it makes of one sample has the shape {tuple(scores.shape)}; expected (1, {num_classes}), "
            f"a score a class"
        )
    if not bool(scores.isfinite().all()):
        raise FedcastError("model: its scores of a sample are not finite before any training")


def with_weights(model: nn.Module, weights: Sequence[Tensor]) -> nn.Module:
    """Put weights into a model, in the order of its parameters; returns it."""
    with torch.no_grad():
        for own, new in zip(model.parameters(), weights, strict=True):
            own.copy_(new)
    return model


def _image(name: str, shape: tuple[int, ...], least: int) -> tuple[int, int, int]:
    if len(shape) != 3 or min(shape[1:]) < least:
        raise FedcastError(
            f"training.model = {name}: inputs have shape {shape}; it needs images of at least {least}×{least}; "
            f"there are {', '.join(MODELS)}"
        )
    return shape


@contextmanager
def without_dropout(model: nn.Module) -> Iterator[None]:
    """The model as it is used: dropout and the like are for training alone."""
    before = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for part, training in before:
            part.training = training
