"""Engine and compiling are chosen by the size of the task, which is counted as PyTorch counts it."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from fedcast.data.assignment import Assignment
from fedcast.training import TrainingSettings, build_model
from fedcast.training.device_data import DeviceData
from fedcast.training.engines import Task
from fedcast.training.engines import choose as choosing
from fedcast.training.engines.choose import choose_engine, worth_compiling
from fedcast.training.engines.engine_protocol import multiplications
from fedcast.training.engines.stacked import compiled

MODELS = {
    "mlp": (1, 8, 8),
    "small_cnn": (1, 8, 8),
    "cnn": (1, 28, 28),
    "vgg16": (3, 32, 32),
    "resnet18": (3, 8, 8),
    "lstm": (80,),
}


def images(shape):
    labels = torch.zeros(1, dtype=torch.int64)
    if len(shape) == 1:
        return DeviceData(torch.zeros(100, dtype=torch.uint8), labels, None, torch.float32, labels, shape[0])
    return DeviceData(torch.zeros(1, *shape), labels, None, torch.float32)


def equal_users(count, size):
    return Assignment(np.zeros(count * size, dtype=np.int64), np.arange(count + 1) * size)


@pytest.mark.parametrize("name", MODELS)
def test_multiplications_are_those_that_pytorch_counts(name):
    model, data = build_model(name, MODELS[name], 80 if name == "lstm" else 10), images(MODELS[name])
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(data.pick(torch.zeros(1, dtype=torch.int64))[0])
    assert multiplications(model, data) == counter.get_total_flops() / 2


@pytest.mark.parametrize(
    ("name", "sizes", "rounds", "expected"),
    [("cnn", (100, 600), 100, True), ("cnn", (100, 600), 2, False), ("mlp", (100, 14), 100, False),
     ("lstm", (100, 600), 100, False)],
)  # fmt: skip
def test_long_runs_are_compiled_and_recurrences_never(name, sizes, rounds, expected, monkeypatch):
    monkeypatch.setattr(choosing, "compiler_available", lambda: True)
    model, users = build_model(name, MODELS[name], 80 if name == "lstm" else 10), equal_users(*sizes)
    auto, always = (TrainingSettings(compile=when, rounds=rounds, local_epochs=2) for when in ("auto", "always"))
    assert worth_compiling(model, images(MODELS[name]), users, auto) is expected
    monkeypatch.setattr(choosing, "compiler_available", lambda: False)
    assert not worth_compiling(model, images(MODELS[name]), users, auto)
    assert worth_compiling(model, images(MODELS[name]), users, always)


@pytest.mark.parametrize(
    ("name", "batch_size", "is_compiled", "expected"),
    [("cnn", 32, False, "LoopEngine"), ("cnn", 32, True, "StackedEngine"), ("cnn", 10, False, "StackedEngine"),
     ("mlp", 256, False, "StackedEngine"), ("vgg16", 2, True, "LoopEngine")],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore")  # importing PyTorch's compiler warns
def test_users_are_stacked_where_it_pays(name, batch_size, is_compiled, expected):
    users = equal_users(4, 8)
    settings = TrainingSettings(batch_size=batch_size)
    task = Task(build_model(name, MODELS[name], 10), images(MODELS[name]), users, settings, 0, is_compiled)
    assert type(choose_engine("auto", task)).__name__ == expected
    assert type(choose_engine("stacked", task)).__name__ == "StackedEngine"


def test_a_step_that_cannot_be_compiled_is_taken_as_it_is(monkeypatch, caplog):
    def refuse(step, dynamic):
        def call(*arguments):
            raise RuntimeError("no Python.h\nlong trace")

        return call

    monkeypatch.setattr(torch, "compile", refuse)
    taken = []
    step = compiled(taken.append)
    step(1), step(2)
    assert taken == [1, 2]
    assert [record.getMessage() for record in caplog.records] == [
        "compiling the training step failed, it runs uncompiled: no Python.h"
    ]


def test_an_error_of_a_compiled_step_is_not_hidden(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda step, dynamic: step)
    step = compiled(lambda number: nn.Linear(number, 1) and 1 / (number - 2))
    step(1)
    with pytest.raises(ZeroDivisionError):
        step(2)
