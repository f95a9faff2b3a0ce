"""Test code that only a GPU runs: recorded steps for each number of lanes, compiled steps and fused cells."""

import importlib.util

import pytest
import torch

from fedcast.training import build_model, train
from fedcast.training.engines import forward
from tests.training.conftest import federation, settings, text_federation
from tests.training.test_engines import CASES, TEXT, assert_equal

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


def on_gpu(name, **changes):
    shape, classes = CASES[name]
    world = text_federation() if name in TEXT else federation(shape, classes)
    outcomes = []
    for engine in ("loop", "stacked"):
        model = build_model(name, shape, classes, seed=1)
        outcomes.append(train(world, model, settings(engine=engine, device="cuda", **changes), seed=3))
    return outcomes


@pytest.mark.parametrize("name", CASES)
def test_recorded_steps_give_what_the_loop_gives(name):
    assert_equal(*on_gpu(name))


@pytest.mark.parametrize(
    "changes",
    [{"algorithm": "scaffold", "momentum": 0.5}, {"participation": 0.5, "dropout_probability": 0.3, "rounds": 6}],
)
def test_rounds_of_different_users_share_the_memory_of_all_graphs(changes):
    assert_equal(*on_gpu("small_cnn", **changes))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_compiled_steps_give_what_the_loop_gives(name):
    assert_equal(*on_gpu(name, compile="always"))


@pytest.mark.parametrize("name", ["cnn", "lstm"])
def test_bfloat16_stays_near(name):
    for half, whole in zip(on_gpu(name, precision="bf16"), on_gpu(name, precision="float32"), strict=True):
        distance = max(float((a - b).abs().max()) for a, b in zip(half.weights, whole.weights, strict=True))
        assert 0 < distance < 0.02


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_gradients_in_triton_are_near_those_of_patches():
    model, device = build_model("vgg16", (3, 32, 32), 10, seed=1).cuda(), torch.device("cuda")
    weights = [torch.stack([weight.detach() * scale for scale in (1.0, 0.9, 1.1)]) for weight in model.parameters()]
    inputs, labels = torch.rand(3, 8, 3, 32, 32, device=device), torch.arange(24, device=device) % 10

    def gradients(chain):
        def loss(at):
            with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
                return torch.nn.functional.cross_entropy(chain(at, inputs).float().flatten(0, 1), labels)

        return torch.cat([gradient.flatten(1) for gradient in torch.func.grad(loss)(weights)], dim=1)

    ours = gradients(forward._channels_last_forward(model, device))
    theirs = gradients(forward._chain_forward(model, device))
    assert torch.equal(ours, gradients(forward._channels_last_forward(model, device)))
    assert ((ours - theirs).norm(dim=1) < 0.1 * theirs.norm(dim=1)).all()
