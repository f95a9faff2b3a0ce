from dataclasses import dataclass

import pytest
import torch
from torch import nn

from fedcast import registry, training
from fedcast.cost import model_bits
from fedcast.errors import FedcastError
from fedcast.scenario import Scenario, Training
from fedcast.training import MODELS, Model, build_model, check_model, count_weights, with_weights
from fedcast.training.lstm import LSTM

SHAPES = {
    "mlp": (1, 8, 8),
    "small_cnn": (1, 8, 8),
    "cnn": (1, 28, 28),
    "lenet5": (1, 28, 28),
    "vgg16": (3, 32, 32),
    "resnet18": (3, 32, 32),
    "lstm": (80,),
    "transformer": (80,),
}
TEXT = ("lstm", "transformer")


@pytest.mark.parametrize("name", MODELS)
def test_weights_are_those_that_plans_count_on(name):
    model = build_model(name, SHAPES[name], 80 if name in TEXT else 10)
    found = sum(weight.numel() for weight in model.parameters())
    assert found == registry.find("model", name).value.weights


IMAGES = [(1, 8, 8), (1, 28, 28), (3, 32, 32), (2, 17, 35), (4, 64, 33)]


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        *(("mlp", shape) for shape in [*IMAGES, (7,), (80,)]),
        *(("small_cnn", shape) for shape in IMAGES),
        *((name, shape) for name in ("cnn", "lenet5") for shape in IMAGES[1:]),
        *(("vgg16", shape) for shape in (IMAGES[2], IMAGES[4])),
        *(("resnet18", shape) for shape in IMAGES[:3]),
        *((name, shape) for name in TEXT for shape in [(80,), (5,)]),
    ],
)
def test_weights_are_counted_as_pytorch_counts_them(name, shape):
    for classes in (10, 3, 62):
        # Large ones without memory; the first LSTM there takes seconds.
        with torch.device("meta" if name in ("vgg16", "resnet18", "transformer") else "cpu"):
            model = build_model(name, shape, classes)
        assert count_weights(name, shape, classes) == sum(weight.numel() for weight in model.parameters())


def test_lstm_equals_that_of_pytorch():
    torch.manual_seed(0)
    theirs = nn.LSTM(5, 7, num_layers=2, batch_first=True).double()
    ours = LSTM(5, 7, 2).double()
    ours.load_state_dict(theirs.state_dict())
    inputs = torch.randn(3, 11, 5, dtype=torch.float64, requires_grad=True)
    expected, _ = theirs(inputs)
    found = ours(inputs)
    assert torch.allclose(found, expected, atol=1e-12)
    weighing = torch.randn_like(expected)
    theirs_grad = torch.autograd.grad((expected * weighing).sum(), [inputs, *theirs.parameters()])
    ours_grad = torch.autograd.grad((found * weighing).sum(), [inputs, *ours.parameters()])
    for a, b in zip(ours_grad, theirs_grad, strict=True):
        assert torch.allclose(a, b, atol=1e-10)


class PlainBlock(nn.Module):
    """A residual block written out, with PyTorch's layers."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.GroupNorm(32, outputs)
        self.conv2, self.norm2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.GroupNorm(32, outputs)
        self.projection = self.norm3 = None
        if stride != 1:
            self.projection, self.norm3 = nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.GroupNorm(32, outputs)

    def forward(self, x):
        out = self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x)))))
        return torch.relu(out + (x if self.projection is None else self.norm3(self.projection(x))))


class PlainResNet18(nn.Module):
    def __init__(self, channels, num_classes):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(channels, 64, 3, 1, 1, bias=False), nn.GroupNorm(32, 64)
        widths = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2)]
        self.blocks = nn.ModuleList(PlainBlock(*width) for width in [*widths, (512, 512, 1)])
        self.classes = nn.Linear(512, num_classes)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        for block in self.blocks:
            x = block(x)
        return self.classes(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


def assert_same_gradients(scores, expected, weights, theirs):
    weighing = torch.randn_like(expected)
    found, wanted = (
        torch.autograd.grad((of * weighing).sum(), at) for of, at in ((scores, weights), (expected, theirs))
    )
    for a, b in zip(found, wanted, strict=True):
        assert torch.allclose(a, b, atol=1e-9)


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 20, 9)])
def test_resnet18_equals_plain_pytorch(shape):
    ours, theirs = build_model("resnet18", shape, 10, seed=1).double(), PlainResNet18(shape[0], 10).double()
    # Parameters have the same order: those of a block's projection come last.
    with_weights(theirs, list(ours.parameters()))
    inputs = torch.rand(2, *shape, dtype=torch.float64)
    found, expected = ours(inputs), theirs(inputs)
    assert torch.allclose(found, expected, atol=1e-9)
    assert_same_gradients(found, expected, list(ours.parameters()), list(theirs.parameters()))


def test_transformer_equals_that_of_pytorch():
    ours = build_model("transformer", (30,), 80, seed=1).double()
    embedding, positions, *blocks, norm, _, scores = ours
    codes = torch.randint(0, 80, (3, 30))
    angle = torch.arange(30.0, dtype=torch.float64)[:, None] / 10_000 ** (torch.arange(64, dtype=torch.float64) / 64)
    encoding = torch.zeros(30, 128, dtype=torch.float64)
    encoding[:, 0::2], encoding[:, 1::2] = angle.sin(), angle.cos()
    steps = embedding(codes) + encoding
    assert torch.allclose(positions(embedding(codes)), steps, atol=1e-12)
    mask, layers = nn.Transformer.generate_square_subsequent_mask(30, dtype=torch.float64), []
    for block in blocks:
        layer = nn.TransformerEncoderLayer(
            128, 4, 512, dropout=0.0, activation="gelu", batch_first=True, norm_first=True, dtype=torch.float64
        )
        first, _, second = block.layers
        own = {
            "self_attn.in_proj_": block.queries_keys_values, "self_attn.out_proj.": block.mixed, "linear1.": first,
            "linear2.": second, "norm1.": block.before_attention, "norm2.": block.before_layers,
        }  # fmt: skip
        layer.load_state_dict(
            {f"{name}{kind}": getattr(of, kind) for name, of in own.items() for kind in ("weight", "bias")}
        )
        steps = layer(steps, src_mask=mask)
        layers.append(layer)
    expected, found = scores(norm(steps)[:, -1]), ours(codes)
    assert torch.allclose(found, expected, atol=1e-9)
    shared = [embedding.weight, scores.weight]
    theirs = [*shared, layers[0].self_attn.in_proj_weight, layers[1].linear1.weight]
    of_ours = [*shared, blocks[0].queries_keys_values.weight, blocks[1].layers[0].weight]
    assert_same_gradients(found, expected, of_ours, theirs)


def test_first_weights_come_from_the_seed_alone():
    before = torch.random.get_rng_state()
    first = build_model("mlp", (1, 8, 8), 10, seed=5)
    torch.manual_seed(99)
    second = build_model("mlp", (1, 8, 8), 10, seed=5)
    third = build_model("mlp", (1, 8, 8), 10, seed=6)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first.parameters(), third.parameters(), strict=True))
    torch.random.set_rng_state(before)


def test_batch_norm_is_refused_or_replaced():
    def model():
        return nn.Sequential(nn.Conv2d(1, 12, 3), nn.BatchNorm2d(12), nn.Sequential(nn.BatchNorm2d(12)))

    with pytest.raises(FedcastError, match=r"model layer '1' is BatchNorm2d.*replace_batch_norm=True"):
        check_model(model())
    replaced = check_model(model(), replace_batch_norm=True)
    assert isinstance(replaced[1], nn.GroupNorm)
    assert isinstance(replaced[2][0], nn.GroupNorm)
    assert replaced(torch.rand(2, 1, 8, 8)).shape == (2, 12, 6, 6)


def test_other_state_is_refused():
    model = nn.Linear(2, 2)
    model.register_buffer("counter", torch.zeros(1))
    with pytest.raises(FedcastError, match="model buffer 'counter'"):
        check_model(model)


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("cnn", (1, 8, 8), "at least 16×16"),
        ("vgg16", (1, 28, 28), "at least 32×32"),
        ("lstm", (1, 8, 8), "sequences of characters"),
        ("transformer", (1, 8, 8), "transformer: inputs have shape .* sequences of characters"),
        ("resnet18", (3, 7, 9), "images of at least 8×8"),
        ("resnet", (1, 8, 8), "invalid value 'resnet' for training.model"),
        ("small_cnn", (64,), "it needs images"),
    ],
)
def test_models_that_do_not_fit(name, shape, message):
    with pytest.raises(FedcastError, match=message):
        build_model(name, shape, 10)


@dataclass(frozen=True)
class Width:
    width: int = registry.option(3, "hidden units", ge=1)


def _wide(shape, num_classes, options):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, options.width), nn.Linear(options.width, num_classes))


def test_a_registered_model_has_options_and_declares_its_weights(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    registry.register("model", "wide", Model(_wide, "two linear layers", Width, weights=235))
    assert [weight.numel() for weight in build_model("wide", (1, 8, 8), 10).parameters()] == [192, 3, 30, 10]
    assert len(build_model("wide", (1, 8, 8), 10, options=Width(5))[1].bias) == 5
    assert "wide" in training.MODELS
    assert model_bits(Scenario(training=Training(model="wide"))) == 235 * 32
    tables = {"wide": {"width": 5}}
    counted = 65 * 5 + 60
    assert model_bits(Scenario(training=Training.model_validate({"model": "wide", **tables}))) == counted * 32
