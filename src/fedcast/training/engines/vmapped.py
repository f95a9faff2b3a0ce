"""Run any model for many users at once by `torch.func.vmap`, if the results equal those of single users."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from fedcast.training.model_checks import first_line, without_dropout

Weights = list[Tensor]
Forward = Callable[[Weights, Tensor], Tensor]

_UNSTACKABLE = (nn.RNNBase, nn.RNNCellBase)


class CannotStackError(Exception):
    """Users of a model cannot be stepped at once; the message says why."""


def vmapped(model: nn.Module, sample: Tensor | None) -> Forward:
    """Return the model as a function of weights [U, ...] and inputs [U, B, ...], tested on a sample [1, ...] if given.

    Raises:
        CannotStackError: users stepped at once do not get the results of single users.
    """
    for part in model.modules():
        if isinstance(part, _UNSTACKABLE):
            raise CannotStackError(
                f"nn.{type(part).__name__} takes one user's weights; fedcast.training.lstm.LSTM takes those of many"
            )
    one = _of_one(model)
    many = torch.func.vmap(one, randomness="different")
    if sample is not None:
        try:
            with without_dropout(model), _without_attention_kernel():
                agree = _gradients_agree(many, one, model, sample)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # PyTorch's limits are not all known, nor of one kind
            raise CannotStackError(first_line(error)) from error
        if not agree:
            raise CannotStackError("in padded batches, users stepped at once do not get the gradients of single users")
    return many


@contextmanager
def _without_attention_kernel() -> Iterator[None]:
    """Switch off PyTorch's fast path of attention in evaluation mode, which has no gradient."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


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
    return all(
        torch.allclose(ours, right, rtol=0.01, atol=0.01 * float(right.abs().max()))
        for ours, right in zip(found, expected, strict=True)
    )
