"""Checks that every model must pass: functions of a model, its options and a dataset.

The dataset should have the shapes of the model's usual one, as `sample_images` or `sample_text` make it; six samples
are enough. A function of a file that `training.model_file` names is checked as ``Model(function, "summary")``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedcast.data import Dataset, TextWindows
from fedcast.testing.common import attempt, check_declaration, federation_of, largest_gap, sample_data
from fedcast.training import (
    CannotStackError,
    Forward,
    Model,
    TrainingSettings,
    check_model,
    check_scores,
    stacked_forward,
    train,
)

# A user without data, one with a single sample, and last batches that are full or not.
_SIZES = (3, 0, 1, 2)
_INPUTS = 4


def declares_itself(model: Model, options: Any, dataset: Dataset) -> None:
    """Check the summary, the options, and that `weights` and `count` give the number of weights on this dataset."""
    check_declaration(model, options)
    found = sum(weight.numel() for weight in _built(model, options, dataset).parameters())
    expected = f"on this dataset the model has {found:,} weights; correct it, or check with the usual dataset"
    assert model.weights in (None, found), f"weights is {model.weights:,}, {expected}"
    counted = model.counted(dataset.sample_shape, dataset.num_classes, options)
    assert counted in (None, found), f"count returns {counted:,}, {expected}"


def is_built_from_the_seed(model: Model, options: Any, dataset: Dataset) -> None:
    """Check that the same seed gives the same weights, another seed others, and every call a module of its own."""
    first, again, other = (_built(model, options, dataset, seed) for seed in (0, 0, 1))
    assert first is not again, "two calls return the same module; expected a new one"
    pairs = list(zip(first.parameters(), again.parameters(), strict=True))
    assert not any(one is two for one, two in pairs), "two calls share a weight; expected new ones"
    assert all(map(torch.equal, first.parameters(), again.parameters())), "the same seed gives different weights"
    same = all(map(torch.equal, first.parameters(), other.parameters()))
    assert not same, "every seed gives the same weights; draw them from PyTorch's generator"


def can_be_averaged(model: Model, options: Any, dataset: Dataset) -> None:
    """Check that the state of the model is finite weights that all can be trained: no buffers, no batch norm."""
    _accepted(check_model, _built(model, options, dataset))


def scores_every_class(model: Model, options: Any, dataset: Dataset) -> None:
    """Check that one sample gives a finite score for each class, and several samples a row for each."""
    module, inputs = _built(model, options, dataset), _inputs(dataset)
    for sample in inputs:
        _accepted(check_scores, module, sample[None], dataset.num_classes)
    expected, found = (len(inputs), dataset.num_classes), tuple(_scores(module.eval(), inputs).shape)
    assert found == expected, f"the scores of {len(inputs)} samples have the shape {found}; expected {expected}"


def repeats_itself(model: Model, options: Any, dataset: Dataset) -> None:
    """Check that in evaluation mode the same inputs give the same scores, whatever the state of the generators."""
    module, inputs = _built(model, options, dataset).eval(), _inputs(dataset)
    assert torch.equal(_scores(module, inputs, 0), _scores(module, inputs, 1)), "the same inputs give different scores"


def keeps_samples_apart(model: Model, options: Any, dataset: Dataset) -> None:
    """Check that the scores of a sample do not depend on the other samples of its batch, in both modes."""
    module, inputs = _built(model, options, dataset), _inputs(dataset)
    others = 2 * inputs[1:] + 1 if inputs.is_floating_point() else (inputs[1:] + 1) % dataset.num_classes
    for mode in (True, False):
        one, two = (_scores(module.train(mode), torch.cat([inputs[:1], rest]))[0] for rest in (inputs[1:], others))
        when = "in training mode" if mode else "in evaluation mode"
        assert _near(one, two), f"{when} the scores of a sample depend on the other samples of its batch"
    alone = torch.cat([_scores(module, sample[None]) for sample in inputs])
    assert _near(_scores(module, inputs), alone), "the scores of a sample depend on the size of its batch"


def trains_every_weight(model: Model, options: Any, dataset: Dataset) -> None:
    """Check that the loss is finite, and that its gradient is finite and reaches every weight."""
    module = _built(model, options, dataset)
    loss = F.cross_entropy(module(_inputs(dataset)), torch.from_numpy(dataset.labels[:_INPUTS]))
    assert bool(loss.isfinite()), f"the loss before training is {float(loss)}"
    loss.backward()
    for name, weight in module.named_parameters():
        assert weight.grad is not None, f"weight {name!r}: no gradient reaches it; use it, or remove it"
        assert bool(weight.grad.to_dense().isfinite().all()), f"weight {name!r}: its gradient is not finite"
        assert bool(weight.grad.to_dense().any()), f"weight {name!r}: its gradient is zero for every sample"


def stacks_as_alone(model: Model, options: Any, dataset: Dataset) -> None:
    """Check that users stepped at once get the scores of single users, if the model can be stacked."""
    modules, inputs = [_built(model, options, dataset, seed).eval() for seed in range(2)], _inputs(dataset)
    stacked = _stacked(modules[0], inputs)
    if stacked is None:
        return
    weights = [torch.stack(each) for each in zip(*(module.parameters() for module in modules), strict=True)]
    with torch.no_grad():
        found = stacked(weights, torch.stack([inputs] * len(modules)))
    for module, scores in zip(modules, found, strict=True):
        assert _near(scores, _scores(module, inputs)), "users stepped at once do not get the scores of single users"


def engines_agree(model: Model, options: Any, dataset: Dataset) -> None:
    """Check that both engines give the same weights to 1e-9 in float64, with finite losses; dropout is switched off.

    A model that cannot be stacked must train in the engine ``auto``.
    """
    module, outcomes = _built(model, options, dataset).eval(), []
    for engine in ("loop", "stacked" if _stacked(module, _inputs(dataset)) else "auto"):
        settings = TrainingSettings(rounds=1, batch_size=2, precision="float64", device="cpu", engine=engine)
        outcomes.append(_accepted(train, federation_of(dataset, _SIZES), module, settings))
        assert np.isfinite(outcomes[-1].history.column("test_loss")).all(), "a loss is not finite"
    gap = largest_gap(*(outcome.weights for outcome in outcomes))
    assert gap < 1e-9, f"the engines differ by {gap:.2g}; expected less than 1e-9"


CHECKS = (
    declares_itself, is_built_from_the_seed, can_be_averaged, scores_every_class, repeats_itself, keeps_samples_apart,
    trains_every_weight, stacks_as_alone, engines_agree,
)  # fmt: skip


def sample_images(shape: tuple[int, ...] = (1, 8, 8), num_classes: int = 10) -> Dataset:
    """Return a few random images [channels, height, width], or vectors [features], of all classes.

    Example:
        >>> sample_images((3, 32, 32)).sample_shape
        (3, 32, 32)
    """
    return sample_data(np.arange(max(num_classes, sum(_SIZES)))[::-1] % num_classes, shape)


def sample_text(length: int = 20, characters: int = 80) -> Dataset:
    """Return a few sequences of a random text, each with the character that follows it.

    Example:
        >>> sample_text().sample_shape, sample_text().num_classes
        ((20,), 80)
    """
    text = np.random.default_rng(0).integers(0, characters, 3 * sum(_SIZES) + length, dtype=np.uint8)
    starts = 3 * np.arange(sum(_SIZES))
    windows, labels = TextWindows(text, starts, length), text[starts + length].astype(np.int64)
    few = TextWindows(text, starts[:_INPUTS], length)
    return Dataset("text", windows, labels, few, labels[:_INPUTS], characters, bits_per_sample=0.0, scale=None)


def _accepted(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a call; any error is a failure."""
    result, error = attempt("the model", "no error", function, *arguments)
    assert not error, error
    return result


def _built(model: Model, options: Any, dataset: Dataset, seed: int = 0) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return model(dataset.sample_shape, dataset.num_classes, options).double()


def _inputs(dataset: Dataset) -> Tensor:
    values = torch.from_numpy(dataset.features(np.arange(_INPUTS)))
    return values.long() if dataset.is_text else values.double()


def _scores(module: nn.Module, inputs: Tensor, seed: int = 0) -> Tensor:
    """Return the scores of a batch, with dropout drawn from a seed."""
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        scores: Tensor = module(inputs)
    return scores


def _near(ones: Tensor, others: Tensor) -> bool:
    return torch.allclose(ones, others, rtol=1e-9, atol=1e-9)


def _stacked(module: nn.Module, inputs: Tensor) -> Forward | None:
    """Return the model for many users at once, or None if it cannot be stacked."""
    try:
        return stacked_forward(module, torch.device("cpu"), inputs[:1])
    except CannotStackError:
        return None
