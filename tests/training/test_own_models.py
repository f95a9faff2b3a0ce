"""Models that users bring: options of layers, layers in other orders, and modules that are no chain."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from fedcast.data import Assignment
from fedcast.errors import FedcastError
from fedcast.training import Federation, Upload, build_model, train
from fedcast.training.algorithms import effective_steps
from fedcast.training.algorithms.scaffold import ALGORITHM as SCAFFOLD
from fedcast.training.engines.forward import stacked_forward
from fedcast.training.lstm import LSTM, LastStep
from tests.training.conftest import federation, settings, text_federation


class Residual(nn.Sequential):
    def forward(self, inputs):
        return inputs + super().forward(inputs)


class Wrapped(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, inputs):
        return self.inner(inputs)


class Cells(nn.Module):
    """A recurrence of PyTorch's own cells, which return tuples."""

    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.LSTMCell(8, 6), nn.Linear(6, 4)

    def forward(self, inputs):
        state = None
        for row in inputs.flatten(1, 2).unbind(1):
            state = self.cell(row, state)
        return self.out(state[0])


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two, self.out = nn.Linear(128, 128), nn.Linear(128, 128), nn.Linear(128, 3)
        self.two.weight = self.one.weight

    def forward(self, inputs):
        return self.out(self.two(self.one(inputs.flatten(1)).relu()))


def convolution(**options):
    return nn.Sequential(nn.Conv2d(2, 4, 3, **options), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))


def plain_convolution(width, **options):
    return nn.Sequential(nn.Conv2d(2, 4, 3, **options), nn.Flatten(), nn.Linear(4 * width, 3))


twice = nn.Linear(6, 6)
IMAGES = {
    "dilation": plain_convolution(64, padding=2, dilation=2),
    "groups": plain_convolution(64, padding=1, groups=2),
    "same": plain_convolution(64, padding="same"),
    "valid": plain_convolution(36, padding="valid"),
    "reflect": plain_convolution(64, padding=1, padding_mode="reflect"),
    "circular": plain_convolution(64, padding=1, padding_mode="circular"),
    "unknown layer": convolution(padding=1),
    "residual": nn.Sequential(Residual(nn.Conv2d(2, 2, 3, padding=1), nn.ReLU()), nn.Flatten(), nn.Linear(128, 3)),
    "layer used twice": nn.Sequential(nn.Flatten(), nn.Linear(128, 6), twice, nn.ReLU(), twice, nn.Linear(6, 3)),
    "group norm of features": nn.Sequential(nn.Flatten(), nn.Linear(128, 8), nn.GroupNorm(2, 8), nn.Linear(8, 3)),
    "linear over images": nn.Sequential(nn.Linear(8, 2), nn.Flatten(), nn.Linear(32, 3)),
    "wrapped": Wrapped(plain_convolution(64, padding=1)),
    "weight of two layers": Tied(),
}
TEXTS = {
    "padding index": nn.Sequential(nn.Embedding(11, 5, padding_idx=0), LSTM(5, 6, 2), LastStep(), nn.Linear(6, 3)),
    "no recurrence": nn.Sequential(nn.Embedding(11, 5), nn.Flatten(), nn.Linear(35, 3)),
    "linear over time": nn.Sequential(nn.Embedding(11, 5), LSTM(5, 6, 1), nn.Linear(6, 4), LastStep(), nn.Linear(4, 3)),
    "wrapped": Wrapped(nn.Sequential(nn.Embedding(11, 5), LSTM(5, 6, 2), LastStep(), nn.Linear(6, 3))),
}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(("model", "text"), [(m, False) for m in IMAGES.values()] + [(m, True) for m in TEXTS.values()])
def test_stacked_as_alone_forwards_and_backwards(model, text, device):
    model = copy.deepcopy(model).double()
    inputs = torch.randint(0, 11, (3, 4, 7)) if text else torch.randn(3, 4, 2, 8, 8, dtype=torch.float64)
    weights = [torch.randn(3, *weight.shape, dtype=torch.float64) * 0.3 for weight in model.parameters()]
    forward = stacked_forward(model, torch.device(device), inputs[0, :1])  # the GPU's layers also run on a CPU
    outputs, gradients = (
        forward(weights, inputs),
        torch.func.grad(lambda at: forward(at, inputs).square().sum())(weights),
    )
    for user in range(3):
        alone = copy.deepcopy(model)
        with torch.no_grad():
            for weight, own in zip(alone.parameters(), weights, strict=True):
                weight.copy_(own[user])
        expected = alone(inputs[user])
        expected.square().sum().backward()
        assert torch.allclose(outputs[user], expected, atol=1e-9)
        for ours, weight in zip(gradients, alone.parameters(), strict=True):
            assert torch.allclose(ours[user], weight.grad, atol=1e-8)


def test_layers_that_return_tuples_and_cannot_be_stacked():
    torch.manual_seed(0)
    outcome = train(federation(), Cells(), settings(engine="auto", rounds=2), seed=3)
    assert outcome.engine == "LoopEngine"
    assert outcome.history.records[-1].test_loss < outcome.history.records[0].test_loss
    with pytest.raises(FedcastError, match=r"cannot be stepped at once: nn\.LSTMCell"):
        train(federation(), Cells(), settings(engine="stacked"))


class Doubling(torch.autograd.Function):
    """Written the old way, which `torch.func` refuses."""

    @staticmethod
    def forward(ctx, inputs):
        return inputs * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


class Old(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(64, 4)

    def forward(self, inputs):
        return Doubling.apply(self.out(inputs.flatten(1)))


class Centred(nn.Module):
    """Samples of a batch depend on each other, and so on those that fill it up."""

    def __init__(self, common=lambda flat: 0.5 * flat.mean(0), head=1.0):
        super().__init__()
        self.common, self.out = common, nn.Linear(64, 4)
        with torch.no_grad():
            for weight in self.out.parameters():
                weight.mul_(head)

    def forward(self, inputs):
        flat = inputs.flatten(1)
        return self.out(flat - self.common(flat))


UNSTACKABLE = {
    "sparse": (lambda: text_model(sparse=True), text_federation, "sparse"),
    "frequencies": (lambda: text_model(scale_grad_by_freq=True), text_federation, "of single users"),
    "bounded norms": (lambda: text_model(max_norm=1.0), text_federation, "max_norm"),
    "samples that mix": (Centred, federation, "of single users"),
    "samples that mix under a head of zeros": (lambda: Centred(head=0.0), federation, "of single users"),
    "samples that mix by a maximum": (lambda: Centred(lambda flat: flat.amax(0)), federation, "of single users"),
    "old functions": (Old, federation, "setup_context"),
}


def text_model(**options):
    return nn.Sequential(nn.Embedding(80, 5, **options), nn.Flatten(), nn.Linear(5 * 20, 80))


@pytest.mark.parametrize("case", UNSTACKABLE)
def test_what_cannot_be_stacked_trains_one_after_the_other(case):
    make, world, reason = UNSTACKABLE[case]
    torch.manual_seed(0)
    model = make()
    outcome = train(world(), copy.deepcopy(model), settings(engine="auto", rounds=6), seed=3)
    assert outcome.engine == "LoopEngine"
    losses = outcome.history.column("train_loss")[1:]
    assert losses[-1] < losses[0]
    with pytest.raises(FedcastError, match=f"cannot be stepped at once: .*{reason}.*; use auto or loop"):
        train(world(), model, settings(engine="stacked"))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.out = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), nn.Linear(8, 4)

    def forward(self, inputs):
        return self.out(self.layer(inputs.flatten(1, 2)).mean(1))


def hooked():
    layer = nn.Linear(64, 4)
    layer.register_forward_hook(lambda _, __, output: output.tanh())
    return nn.Sequential(nn.Flatten(), layer)


def at_rest_in_part():
    resting = nn.Dropout(0.5)
    resting.eval()
    return nn.Sequential(nn.Flatten(), resting, nn.Linear(64, 4))


class Unused(nn.Module):
    def __init__(self):
        super().__init__()
        self.out, self.spare = nn.Linear(64, 4), nn.Parameter(torch.ones(3))

    def forward(self, inputs):
        return self.out(inputs.flatten(1))


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("make", [Attention, hooked, at_rest_in_part, Unused])
def test_models_of_many_kinds_are_stepped_side_by_side(make):
    outcomes = []
    for engine in ("loop", "stacked"):
        torch.manual_seed(0)
        outcomes.append(train(federation(), make(), settings(engine=engine, rounds=2, weight_decay=0.1), seed=3))
    loop, stacked = outcomes
    assert stacked.engine == "StackedEngine"
    assert all(torch.allclose(a, b, atol=1e-9) for a, b in zip(loop.weights, stacked.weights, strict=True))


def test_a_round_of_users_that_count_for_nothing_changes_nothing():
    world = federation()
    nothing = Federation(world.dataset, world.users, np.array([0, 0, 0, 0, 0, 9]), world.distributions)
    dropped = {(number, 5) for number in (1, 2)}
    outcome = train(nothing, build_model("mlp", (1, 8, 8), 4), settings(aggregation="own", rounds=2), dropped=dropped)
    assert len(set(outcome.history.column("test_loss"))) == 1


def test_dropout_repeats_after_an_interruption_though_users_change_and_steps_are_made_for_lanes(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "fedcast.training.engines.stacked.compiled", lambda step: step
    )  # as a GPU records, without the wait
    world = federation(sizes=[7, 23, 10, 1, 15, 3, 30, 12, 8, 19, 2, 26, 5, 14])
    asked = settings(engine="stacked", compile="always", rounds=6, participation=0.6, dropout_probability=0.4)

    def trained(**interruption):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 4))
        return train(world, model, asked, seed=3, **interruption)

    whole = trained()
    for rounds in (1, 3, 4):
        checkpoint, left = tmp_path / f"{rounds}.pt", iter([False] * (rounds - 1) + [True])
        trained(checkpoint=checkpoint, should_stop=lambda left=left: next(left))
        rest = trained(checkpoint=checkpoint)
        assert all(torch.equal(a, b) for a, b in zip(whole.weights, rest.weights, strict=True))


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_bfloat16_of_a_recurrence(engine):
    def trained(precision):
        model = build_model("lstm", (20,), 80, seed=1)
        few = text_federation(sizes=[3, 5, 0, 2])
        return train(few, model, settings(engine=engine, precision=precision, rounds=1), seed=3)

    half, whole = trained("bf16"), trained("float32")
    distance = max(float((a - b).abs().max()) for a, b in zip(half.weights, whole.weights, strict=True))
    assert 0 < distance < 0.01


def test_dropout_is_not_scored():
    def first_score(seed):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 4))
        torch.manual_seed(seed)
        return train(federation(), model, settings(rounds=1), seed=3).history.records[0].test_loss

    assert first_score(1) == first_score(2)


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_dropout_repeats_after_an_interruption_and_leaves_the_generator_alone(engine, tmp_path):
    def trained(seed, **interruption):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 4))
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        outcome = train(federation(), model, settings(engine=engine, rounds=4), seed=3, **interruption)
        assert torch.equal(torch.get_rng_state(), before)
        return outcome

    whole = trained(1)
    checkpoint = tmp_path / "run.pt"
    first = trained(2, checkpoint=checkpoint, should_stop=lambda: True)
    assert first.stopped == "stopped after round 1"
    rest = trained(5, checkpoint=checkpoint)
    assert all(torch.equal(a, b) for a, b in zip(whole.weights, rest.weights, strict=True))
    losses = whole.history.column("train_loss")[1:]
    assert len(set(losses)) == len(losses)


def test_nobody_with_data_is_refused():
    world = federation()
    nobody = Assignment(np.zeros(0, dtype=np.int64), np.zeros(7, dtype=np.int64))
    empty = Federation(world.dataset, nobody, np.zeros(6, dtype=np.int64), world.distributions)
    with pytest.raises(FedcastError, match="no user holds a sample"):
        train(empty, build_model("mlp", (1, 8, 8), 4), settings())


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_a_control_variate_is_the_mean_gradient_with_momentum_too(momentum):
    """A constant gradient, stepped by hand."""
    gradient, rate, moved, velocity = torch.tensor([[0.3, -2.0]]), 0.1, torch.zeros(1, 2), torch.zeros(1, 2)
    for _ in range(7):
        velocity = momentum * velocity + gradient
        moved = moved - rate * velocity
    steps, share = effective_steps(torch.tensor([7.0]), momentum), torch.ones(1)
    server, users = {"control": [torch.zeros(2)]}, {"control": [torch.zeros(1, 2)]}
    new, _ = SCAFFOLD.collect(SCAFFOLD.options(), Upload([moved], share, share, steps, rate, server, users))
    assert torch.allclose(new["control"][0], gradient, rtol=1e-5)


def test_scaffold_with_momentum_converges():
    world = federation(sizes=[15, 37, 0, 25, 0, 23, 15, 11, 14, 42, 42, 25, 31])
    changes = {"algorithm": "scaffold", "momentum": 0.9, "learning_rate": 0.02, "rounds": 30}
    outcome = train(world, build_model("mlp", (1, 8, 8), 4, seed=1), settings(engine="stacked", **changes), seed=0)
    assert outcome.history.records[-1].test_loss < 0.5
