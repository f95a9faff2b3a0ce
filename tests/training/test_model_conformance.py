"""The conformance kit of models: all built-in models pass it, and every check fails on a broken model."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from fedcast import registry
from fedcast.testing import models as kit
from fedcast.testing.models import CHECKS, sample_images, sample_text
from fedcast.training import MODELS, Model

USUAL = {"cnn": (1, 28, 28), "lenet5": (1, 28, 28), "vgg16": (3, 32, 32), "resnet18": (3, 8, 8)}


def test_every_check_is_listed():
    written = re.findall(r"^def ([a-z]\w+)\(model: Model, options", Path(kit.__file__).read_text(), re.MULTILINE)
    assert [check.__name__ for check in CHECKS] == written


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", MODELS)
def test_every_model_passes_every_check(name, check):
    dataset = sample_text() if name in ("lstm", "transformer") else sample_images(USUAL.get(name, (1, 8, 8)))
    check(MODELS[name], MODELS[name].options(), dataset)


class Changed(nn.Module):
    """A linear model whose inputs or scores are changed."""

    def __init__(self, num_classes, inputs=lambda flat: flat, scores=lambda scores: scores):
        super().__init__()
        self.linear, self.inputs, self.scores = nn.Linear(64, num_classes), inputs, scores

    def forward(self, images):
        return self.scores(self.linear(self.inputs(images.flatten(1))))


class Spare(Changed):
    def __init__(self, num_classes):
        super().__init__(num_classes)
        self.spare = nn.Parameter(torch.ones(3))


def drawn_by_numpy(shape, num_classes):
    model = Changed(num_classes)
    nn.init.constant_(model.linear.bias, np.random.default_rng().random())
    return model


def all_zeros(shape, num_classes):
    model = Changed(num_classes)
    for weight in model.parameters():
        nn.init.zeros_(weight)
    return model


def hooked(shape, num_classes):
    """A chain whose hook acts on batches alone, which stacked users do not see."""
    chain = nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes))
    chain.register_forward_pre_hook(lambda _, inputs: inputs[0] * (1 + (len(inputs[0]) > 1)))
    return chain


def normalised(shape, num_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Linear(8, num_classes))


@dataclass
class NotFrozen:
    width: int = registry.option(3, "hidden units", ge=1)


SHARED = Changed(10)
BROKEN = [
    ("declares_itself", Model(lambda shape, classes: Changed(classes), ""), "the summary is empty"),
    ("declares_itself", Model(lambda shape, classes, options: Changed(classes), "x", NotFrozen), "frozen"),
    ("declares_itself", Model(lambda shape, classes: Changed(classes), "x", weights=7), "weights is 7.* has 650"),
    ("is_built_from_the_seed", lambda shape, classes: SHARED, "return the same module"),
    ("is_built_from_the_seed", drawn_by_numpy, "the same seed gives different weights"),
    ("is_built_from_the_seed", all_zeros, "every seed gives the same weights"),
    ("can_be_averaged", normalised, "BatchNorm1d: its running statistics"),
    ("scores_every_class", lambda shape, classes: Changed(classes + 1), r"\(1, 11\); expected \(1, 10\)"),
    ("scores_every_class", lambda shape, classes: Changed(classes, scores=lambda scores: scores / 0), "not finite"),
    ("scores_every_class", lambda shape, classes: Changed(classes, scores=lambda s: s[:1]), r"\(1, 10\); expected \(4"),
    ("repeats_itself", lambda shape, classes: Changed(classes, nn.functional.dropout), "the same inputs give"),
    ("keeps_samples_apart", lambda shape, classes: Changed(classes, lambda flat: flat - flat.mean(0)), "in training"),
    ("keeps_samples_apart", normalised, "in training mode the scores of a sample depend"),
    ("keeps_samples_apart", hooked, "the size of its batch"),
    ("trains_every_weight", lambda shape, classes: Spare(classes), "'spare': no gradient reaches it"),
    ("trains_every_weight", lambda shape, classes: Changed(classes, torch.zeros_like), "its gradient is zero"),
    ("stacks_as_alone", hooked, "do not get the scores of single users"),
    ("engines_agree", hooked, "the engines differ by"),
    ("engines_agree", lambda shape, classes: Changed(classes, scores=lambda s: s * 1e308), "diverged|not finite"),
]  # fmt: skip


@pytest.mark.parametrize(("check", "model", "words"), BROKEN)
def test_a_broken_model_fails(check, model, words):
    model = model if isinstance(model, Model) else Model(model, "a broken model")
    with pytest.raises(AssertionError, match=words):
        getattr(kit, check)(model, model.options(), sample_images())


def test_every_check_is_shown_to_fail():
    assert {name for name, *_ in BROKEN} == {check.__name__ for check in CHECKS}


class Recurrent(nn.Module):
    """PyTorch's own recurrence, which cannot be stacked, with dropout."""

    def __init__(self, num_classes):
        super().__init__()
        self.layer, self.drop, self.out = nn.GRU(8, 6, batch_first=True), nn.Dropout(0.5), nn.Linear(6, num_classes)

    def forward(self, images):
        return self.out(self.drop(self.layer(images.flatten(1, 2))[0][:, -1]))


@pytest.mark.parametrize("check", CHECKS)
def test_a_model_that_cannot_be_stacked_passes(check):
    check(Model(lambda shape, classes: Recurrent(classes), "a recurrence"), registry.NoOptions(), sample_images())
