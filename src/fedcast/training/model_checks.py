"""Checks of models before training, and helpers for their weights."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from fedcast.errors import FedcastError

_NORM_GROUPS = 32


def check_model(model: nn.Module, *, replace_batch_norm: bool = False) -> nn.Module:
    """Return a copy of the model if its weights can be averaged over users.

    Batch norm keeps running statistics that are not weights, and on a user of one class they say nothing about the
    others: a model with batch norm is an error, or with `replace_batch_norm` gets group norm in its place.
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
    for name, weight in model.named_parameters():
        if not weight.requires_grad:
            raise FedcastError(f"model weight {name!r}: it does not require a gradient, but all weights are trained")
    for name, _ in model.named_buffers():
        raise FedcastError(f"model buffer {name!r}: state that is not a weight is not sent or averaged; remove it")
    return model


def check_scores(model: nn.Module, sample: Tensor, num_classes: int) -> None:
    """Check that the model returns one finite score for each class of a sample [1, ...]."""
    try:
        with torch.no_grad(), without_dropout(model):
            scores = model(sample)
    except torch.OutOfMemoryError:
        raise
    except (Exception, SystemExit) as error:  # whatever the model raises
        message = f"model: it cannot take one sample, shape {tuple(sample.shape)}: {first_line(error)}"
        raise FedcastError(message) from error
    if not isinstance(scores, Tensor):
        raise FedcastError(f"model: it returns a {type(scores).__name__}; expected a tensor, a score for each class")
    if scores.shape != (1, num_classes):
        expected = f"expected (1, {num_classes}), a score a class"
        raise FedcastError(f"model: what it makes of one sample has the shape {tuple(scores.shape)}; {expected}")
    if not bool(scores.isfinite().all()):
        raise FedcastError("model: its scores of a sample are not finite before any training")


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the name of its class."""
    said = str(error).strip()
    return said.splitlines()[0] if said and not isinstance(error, SystemExit) else repr(error)


def with_weights(model: nn.Module, weights: Sequence[Tensor]) -> nn.Module:
    """Copy weights into a model, in the order of its parameters, and return it."""
    with torch.no_grad():
        for own, new in zip(model.parameters(), weights, strict=True):
            own.copy_(new)
    return model


@contextmanager
def without_dropout(model: nn.Module) -> Iterator[None]:
    """Put the model into evaluation mode, without dropout, and restore its mode afterwards."""
    before = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for part, training in before:
            part.training = training
