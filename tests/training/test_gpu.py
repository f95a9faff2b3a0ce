"""Test code that only a GPU runs: recorded steps for each number of lanes, compiled steps and fused cells."""

import pytest
import torch

from fedcast.training import build_model, train
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
