"""The stacked engine against the plain loop, in double precision, for every model and algorithm."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from fedcast.training import MODELS, build_model, train
from fedcast.training.engines.forward import _CPU_LAYERS, _GPU_LAYERS, _patch_convolution, stacked_forward
from tests.training.conftest import federation, settings, text_federation

CASES = {
    "mlp": ((1, 8, 8), 4),
    "small_cnn": ((1, 8, 8), 4),
    "cnn": ((1, 16, 16), 4),
    "lenet5": ((1, 16, 16), 4),
    "vgg16": ((3, 32, 32), 4),
    "resnet18": ((3, 8, 8), 4),
    "lstm": ((20,), 80),
    "transformer": ((20,), 80),
}
TEXT = ("lstm", "transformer")

FEW = [3, 5, 0, 2]

ALGORITHMS = {
    "fedavg": {},
    "momentum": {"momentum": 0.9, "weight_decay": 0.01},
    "clipped": {"clip_norm": 0.05},
    "fedprox": {"algorithm": "fedprox", "prox_weight": 0.5},
    "scaffold": {"algorithm": "scaffold"},
    "fednova": {"algorithm": "fednova", "momentum": 0.5},
    "server momentum": {"server_optimizer": "momentum", "server_learning_rate": 0.5},
    "feddyn": {"algorithm": "feddyn"},
    "fedyogi": {"algorithm": "fedyogi"},
    "server adam": {"server_optimizer": "adam", "server_learning_rate": 0.05},
    "sampled": {"participation": 0.5, "dropout_probability": 0.3},
    "own weights": {"aggregation": "own", "learning_rate_decay": 0.9},
    "uniform weights": {"aggregation": "uniform"},
}


def both(world, name, model_shape, classes, **changes):
    outcomes = []
    for engine in ("loop", "stacked"):
        model = build_model(name, model_shape, classes, seed=1)
        outcomes.append(train(world, model, settings(engine=engine, **changes), seed=3))
    return outcomes


def assert_equal(loop, stacked, tolerance=1e-9):
    assert (loop.engine, stacked.engine) == ("LoopEngine", "StackedEngine")
    for ours, theirs in zip(stacked.weights, loop.weights, strict=True):
        assert (ours - theirs).abs().max() < tolerance
    for name in ("train_loss", "test_loss", "drift"):
        for ours, theirs in zip(stacked.history.column(name), loop.history.column(name), strict=True):
            assert (ours is None and theirs is None) or abs(ours - theirs) < 1e-7, name
    assert loop.history.column("accuracy") == stacked.history.column("accuracy")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("name", ["mlp", "small_cnn"])
def test_every_algorithm(name, algorithm):
    assert_equal(*both(federation(), name, *CASES[name], **ALGORITHMS[algorithm]))


# The kit in test_model_conformance.py trains the largest, which take seconds, in both engines.
@pytest.mark.parametrize("name", [name for name in MODELS if name not in ("vgg16", "resnet18")])
def test_every_model(name):
    shape, classes = CASES[name]
    world = text_federation(FEW) if name in TEXT else federation(shape, classes)
    assert_equal(*both(world, name, shape, classes, rounds=2))


@pytest.mark.parametrize("algorithm", ["momentum", "scaffold", "fednova"])
def test_heavier_models_with_other_algorithms(algorithm):
    few = {"rounds": 2, "local_epochs": 1, **ALGORITHMS[algorithm]}
    assert_equal(*both(federation((1, 16, 16), sizes=[3, 9, 0, 2]), "cnn", *CASES["cnn"], **few))
    assert_equal(*both(text_federation(FEW), "lstm", *CASES["lstm"], **few))


class Unusual(nn.Module):
    """Not a chain of layers: goes through vmap."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 8)
        self.second = nn.Linear(64, 8)
        self.out = nn.Linear(8, 4, bias=False)

    def forward(self, inputs):
        flat = inputs.flatten(1)
        return self.out(torch.tanh(self.first(flat)) * self.second(flat))


def test_any_module():
    outcomes = []
    for engine in ("loop", "stacked"):
        torch.manual_seed(0)
        outcomes.append(train(federation(), Unusual(), settings(engine=engine), seed=3))
    assert_equal(*outcomes)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("layers", ["cpu", "cuda"])
def test_stacked_forward_of_both_kinds_against_one_user_at_a_time(name, layers, monkeypatch):
    """The GPU's form of convolution and norm is plain tensor code: it is held to the layers of PyTorch here."""
    shape, classes = CASES[name]
    model = build_model(name, shape, classes).double()
    weights = [torch.randn(3, *weight.shape, dtype=torch.float64) * 0.3 for weight in model.parameters()]
    inputs = torch.randint(0, 80, (3, 2, *shape)) if name in TEXT else torch.rand(3, 2, *shape, dtype=torch.float64)
    stacked = stacked_forward(model, torch.device(layers))(weights, inputs)
    names = [key for key, _ in model.named_parameters()]
    for user in range(3):
        own = dict(zip(names, (weight[user] for weight in weights), strict=True))
        expected = torch.func.functional_call(model, own, (inputs[user],))
        assert torch.allclose(stacked[user], expected, rtol=1e-9, atol=1e-9)


def test_layers_with_stride_and_without_bias():
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3, stride=2, padding=1, bias=False), nn.GroupNorm(2, 4), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(16, 3, bias=False),
    ).double()  # fmt: skip
    weights = [torch.randn(2, *weight.shape, dtype=torch.float64) for weight in model.parameters()]
    inputs = torch.rand(2, 5, 2, 8, 8, dtype=torch.float64)
    names = [key for key, _ in model.named_parameters()]
    for device in ("cpu", "cuda"):
        stacked = stacked_forward(model, torch.device(device))(weights, inputs)
        for user in range(2):
            own = dict(zip(names, (weight[user] for weight in weights), strict=True))
            assert torch.allclose(stacked[user], torch.func.functional_call(model, own, (inputs[user],)), atol=1e-9)
    assert set(_CPU_LAYERS) == set(_GPU_LAYERS)


@pytest.mark.parametrize("filling", [1, 2, 512])
@pytest.mark.parametrize(("lanes", "block"), [(1, 1), (2, 2), (1, 5), (2, 5), (3, 4), (5, 5)])
def test_lanes_and_blocks_do_not_change_the_result(lanes, block, filling, monkeypatch):
    monkeypatch.setattr("fedcast.training.engines.stacked.filling_lanes", lambda _: filling)
    monkeypatch.setattr("fedcast.training.engines.stacked.most_lanes", lambda _: lanes)
    monkeypatch.setattr("fedcast.training.engines.stacked.users_of_block", lambda *_: block)
    assert_equal(*both(federation(), "mlp", *CASES["mlp"], momentum=0.9, algorithm="scaffold"))


@pytest.mark.filterwarnings("ignore")  # PyTorch's compiler warns a lot
def test_compiled_step_gives_the_same():
    import shutil

    if not shutil.which("g++"):
        pytest.skip("compiling needs g++")
    loop, compiled = both(federation(), "mlp", *CASES["mlp"], compile="always")
    assert_equal(loop, compiled)


@pytest.mark.parametrize(
    ("size", "padding", "stride"), [(3, 1, 1), ((5, 2), (2, 0), 1), (1, 0, 1), (3, 1, 2), (2, 3, 1)]
)
def test_convolutions_of_many_users_and_their_gradients(size, padding, stride):
    layer = nn.Conv2d(3, 4, size, stride=stride, padding=padding).double()
    weights = [torch.randn(2, *weight.shape, dtype=torch.float64, requires_grad=True) for weight in layer.parameters()]
    hidden = torch.rand(2, 3, 5, 9, 8, dtype=torch.float64, requires_grad=True)  # users, channels, batch, height, width
    ours = _patch_convolution(layer, weights, hidden, 2)
    theirs = torch.stack(
        [
            nn.functional.conv2d(images.transpose(0, 1), kernel, bias, layer.stride, layer.padding).transpose(0, 1)
            for images, kernel, bias in zip(hidden, *weights, strict=True)
        ]
    )
    assert torch.allclose(ours, theirs, rtol=1e-10)
    towards = torch.rand_like(ours)
    for one, other in zip(
        torch.autograd.grad((ours * towards).sum(), [hidden, *weights]),
        torch.autograd.grad((theirs * towards).sum(), [hidden, *weights]),
        strict=True,
    ):
        assert torch.allclose(one, other, rtol=1e-10)


@pytest.mark.parametrize("name", ["mlp", "small_cnn"])
def test_bfloat16_products_train_about_as_well_and_not_the_same(name):
    loop, stacked = both(federation(), name, *CASES[name], precision="bf16")
    exact, _ = both(federation(), name, *CASES[name], precision="float32")
    for outcome in (loop, stacked):
        assert all(weight.dtype == torch.float32 for weight in outcome.weights)
        distance = max(float((a - b).abs().max()) for a, b in zip(outcome.weights, exact.weights, strict=True))
        assert 1e-7 < distance < 0.02


@pytest.mark.filterwarnings("ignore")
def test_gpu_layers_compile_to_the_same():
    import shutil

    if not shutil.which("g++"):
        pytest.skip("compiling needs g++")
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU(), nn.Conv2d(4, 4, (3, 1)), nn.MaxPool2d(2),
        nn.Conv2d(4, 4, 2, stride=2, padding=1), nn.Flatten(), nn.Linear(16, 3),
    )  # fmt: skip
    weights = [torch.randn(2, *weight.shape) for weight in model.parameters()]
    forward = stacked_forward(model, torch.device("cuda"))

    def gradients(at, inputs):
        return torch.func.grad(lambda inner: forward(inner, inputs).square().sum())(at)

    inputs = torch.rand(2, 5, 2, 6, 4)
    for ours, theirs in zip(torch.compile(gradients)(weights, inputs), gradients(weights, inputs), strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("shared_bytes", "enough"), [(232_448, True), (166_912, False), (101_376, False)])
def test_tiles_in_triton_need_the_shared_memory_of_a_large_gpu(monkeypatch, shared_bytes, enough):
    """Use the shared memory of an H100, an A100 and a consumer GPU."""
    from fedcast.training.engines import triton_convolution

    properties = SimpleNamespace(shared_memory_per_block_optin=shared_bytes)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    assert triton_convolution.has_shared_memory(torch.device("cuda")) is enough
