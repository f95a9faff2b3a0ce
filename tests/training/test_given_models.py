"""Test which models are accepted, the errors of those that are not, and that a given model is not changed."""

import numpy as np
import pytest
import torch
from torch import nn

from fedcast.errors import FedcastError
from fedcast.training import build_model, train
from tests.training.conftest import federation, settings


def test_frozen_weights_and_wrong_scores_are_refused():
    frozen = nn.Sequential(nn.Flatten(), nn.Linear(64, 4))
    frozen[1].bias.requires_grad_(False)
    with pytest.raises(FedcastError, match=r"'1\.bias': it does not require a gradient"):
        train(federation(), frozen, settings())
    with pytest.raises(FedcastError, match=r"shape \(1, 1, 8, 4\); expected \(1, 4\)"):
        train(federation(), nn.Linear(8, 4), settings())


class Returns(nn.Module):
    """A linear model whose answer is changed."""

    def __init__(self, change, features=64, classes=4):
        super().__init__()
        self.linear, self.change = nn.Linear(features, classes), change

    def forward(self, images):
        return self.change(self.linear(images.flatten(1)))


def spoilt():
    model = Returns(lambda scores: scores)
    with torch.no_grad():
        model.linear.bias[1] = float("nan")
    return model


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (Returns(lambda scores: scores, features=60), r"model: it cannot take one sample, shape \(1, 1, 8, 8\): mat1"),
        (Returns(lambda scores: (scores, scores)), "model: it returns a tuple; expected a tensor"),
        (Returns(lambda scores: scores, classes=6), r"has the shape \(1, 6\); expected \(1, 4\)"),
        (Returns(lambda scores: scores / 0 * 0), "scores of a sample are not finite"),
        (spoilt(), "model weight 'linear.bias': it holds NaN or infinity"),
        (nn.Sequential(nn.Flatten(), nn.LazyLinear(4)), "model weight '1.weight': it has no shape yet"),
        (Returns, "is no torch.nn.Module; give an instance"),
        ("mlp", "model: 'mlp' is no torch.nn.Module; .* training.model"),
    ],
)
def test_models_that_cannot_be_trained_are_refused_in_one_line(model, words):
    with pytest.raises(FedcastError, match=words):
        train(federation(), model, settings())


def test_the_given_model_is_left_as_it_is_and_the_trained_one_comes_back():
    model = build_model("mlp", (1, 8, 8), 4)
    before = [weight.detach().clone() for weight in model.parameters()]
    outcome = train(federation(), model, settings())
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    world = federation()
    scores = outcome.model(torch.from_numpy(world.dataset.test_inputs.astype(np.float64)))
    right = scores.argmax(1).numpy() == world.dataset.test_labels
    assert outcome.history.records[-1].accuracy == right.mean()


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_a_single_number_is_a_weight_too(engine):
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.scale = nn.Linear(64, 4), nn.Parameter(torch.tensor(2.0))

        def forward(self, images):
            return self.scale * self.linear(images.flatten(1))

    outcome = train(federation(), Scaled(), settings(engine=engine, clip_norm=1.0))
    assert outcome.model.scale.shape == ()
    assert outcome.model.scale.detach().item() != 2.0
