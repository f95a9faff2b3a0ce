"""Code that repeats the training of an exported run without fedcast: a plain PyTorch script and a Flower app."""

from __future__ import annotations

import json
from dataclasses import fields
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import tomlkit
import torch as pytorch
from torch import Tensor, nn

from fedcast.errors import FedcastError
from fedcast.io import write_file
from fedcast.participation import attend
from fedcast.runs.checks import dropouts
from fedcast.runs.prepare import PreparedRun
from fedcast.training import History, TrainingSettings

# Settings of training that the code reads from task.json, ...
_FOLLOWED = (
    "local_epochs", "batch_size", "learning_rate", "learning_rate_decay", "momentum", "weight_decay", "clip_norm",
)  # fmt: skip
# ... those that decide who takes part with which weight, ...
_TURNED_INTO_USERS = (
    "rounds", "aggregation", "participation", "dropout_probability", "over_selection", "deadline_s",
)  # fmt: skip
# ... and those that change nothing but rounding. Any other setting must have its default value.
_WITHOUT_EFFECT = (
    "engine", "device", "compile", "checkpoint_every", "fine_tune_epochs", "fine_tune_learning_rate",
)  # fmt: skip
_PRECISIONS = ("float32", "float64")
_APP = "fedcast_app"


def check_repeatable(prepared: PreparedRun, model: nn.Module) -> None:
    """Raise an error if the code would not find the accuracy of a run."""
    usual = TrainingSettings()
    for name in (field.name for field in fields(TrainingSettings)):
        value, expected = getattr(prepared.training, name), getattr(usual, name)
        if name in _FOLLOWED + _TURNED_INTO_USERS + _WITHOUT_EFFECT or value == expected:
            continue
        if name == "precision" and value in _PRECISIONS:
            continue
        raise FedcastError(
            f"--torch, --flower: invalid value {value!r} for training.{name}: expected {expected!r}, since the code "
            "repeats plain FedAvg alone; export the run without these options"
        )
    drawing = [part for part in model.modules() if isinstance(part, nn.modules.dropout._DropoutNd) and part.p > 0]
    if drawing:
        raise FedcastError(
            f"--torch, --flower: the model has {drawing[0]}, whose draws the code cannot repeat; "
            "export the run without these options"
        )


def task_of(prepared: PreparedRun, history: History) -> dict[str, Any]:
    """Return the settings of training as plain values, with the users of each round and their weights."""
    settings, scenario = prepared.training, prepared.world.scenario
    population, sizes = prepared.world.population, prepared.shared.assignment.sizes
    weights = {"shared": sizes, "own": population.sizes, "uniform": np.ones_like(sizes)}[settings.aggregation]
    drawn = (np.flatnonzero(sizes), settings.attendance, dropouts(scenario), np.array(prepared.clock.user_s))
    rounds = range(1, len(history))
    chosen = [attend(*drawn, seed=scenario.seed, round_number=number).users.tolist() for number in rounds]
    if [len(users) for users in chosen] != history.column("participants")[1:]:
        raise FedcastError("--torch, --flower: who took part in each round is not known; export without these options")
    everybody = all(len(users) == np.count_nonzero(sizes) for users in chosen)
    return {
        "seed": scenario.seed,
        "rounds": len(rounds),
        "dtype": settings.precision,
        **{name: getattr(settings, name) for name in _FOLLOWED},
        "test_samples": len(prepared.dataset.test_labels),
        "user_weights": weights.tolist(),
        "participants": None if everybody else chosen,
    }


def write_code(
    model: nn.Module, inputs: Tensor, task: dict[str, Any], place: Path, folder: Path, *, torch: bool, flower: bool
) -> dict[str, str]:
    """Write settings, model and code into `place`, which becomes `folder`; return what each file is.

    `inputs` are those of a few samples.
    """
    write_file(place / "task.json", json.dumps(task))
    found = {"task.json": "settings of training and who took part in each round, for the code"}
    source = _model_source(model)
    if source is None:
        _write_program(model, inputs, place / "model.pt2")
        found["model.pt2"] = "the model as torch.export saves it"
        source = _template("model.py")
    if torch:
        _write_templates(place / "pytorch", source, "task.py", "train.py")
        found["pytorch/"] = "plain PyTorch script that repeats the training"
    if flower:
        app = place / "flower"
        _write_templates(app / _APP, source, "task.py", "client_app.py", "server_app.py")
        write_file(app / _APP / "__init__.py", '"""A run of fedcast as a Flower app."""\n')
        project: Any = tomlkit.parse(_template("pyproject.toml"))
        project["tool"]["flwr"]["app"]["config"].update({"folder": str(folder), "num-server-rounds": task["rounds"]})
        write_file(app / "pyproject.toml", tomlkit.dumps(project))
        found["flower/"] = "Flower app that repeats the training"
    return found


def how_to_run(num_users: int, *, torch: bool, flower: bool) -> list[str]:
    """Return the lines of a README that say how to run the code."""
    if not (torch or flower):
        return []
    lines = ["", "## Repeat the training", "", "The code needs PyTorch and NumPy, not fedcast.", "", "```bash"]
    if torch:
        lines += ["python pytorch/train.py  # writes history_pytorch.csv"]
    if flower:
        options = f'--stream --federation-config "num-supernodes={num_users} client-resources-num-cpus=1"'
        lines += [
            'pip install "flwr[simulation]==1.41.*" torch',
            "export FLWR_TELEMETRY_ENABLED=0 RAY_USAGE_STATS_ENABLED=0",
            f"flwr run flower {options}  # writes history_flower.csv",
        ]
    lines += [
        "```",
        "",
        "Weights, batches and users of each round are those of fedcast, and so is the accuracy after each round: to "
        'the last sample with `training.precision = "float64"`; with `float32`, rounding may change some.',
    ]
    if flower:
        lines += ["", "If you move this folder, run the app with `--run-config \"folder='/new/place'\"`."]
    return lines


def _template(name: str) -> str:
    return (files("fedcast.runs") / "templates" / name).read_text(encoding="utf-8")


def _write_templates(folder: Path, model: str, *names: str) -> None:
    write_file(folder / "model.py", model)
    for name in names:
        write_file(folder / name, _template(name))


def _model_source(model: nn.Module) -> str | None:
    """Return Python source that builds a chain of PyTorch's layers; None: the model is something else.

    The text of a layer is the call that makes it, with the options that PyTorch shows. Whether these are all is found
    by comparing the layers that the source builds.
    """
    if type(model) is not nn.Sequential or not all(type(layer).__module__.startswith("torch.nn.") for layer in model):
        return None
    layers = "".join(f"        nn.{layer!r},\n" for layer in model)
    head = '"""The model of the run."""\n\nfrom torch import nn\n\n\ndef build(_=None):\n    """Return the model."""'
    source = f"{head}\n    return nn.Sequential(\n{layers}    )\n"
    made: dict[str, Any] = {}
    try:
        exec(source, made)  # names of PyTorch's layers and numbers
        built = made["build"]()
    except (SyntaxError, TypeError, NameError, AttributeError):  # a text that is no such call
        return None
    return source if [_options(layer) for layer in built] == [_options(layer) for layer in model] else None


def _options(layer: nn.Module) -> dict[str, Any]:
    """Return all that decides what a layer computes, but the values of its weights."""
    weights = {name: tuple(weight.shape) for name, weight in layer.named_parameters()}
    own = {name: value for name, value in vars(layer).items() if name not in ("_parameters", "_buffers", "_modules")}
    return {"type": type(layer), "weights": weights, "hooks": bool(layer._forward_hooks), **own}


def _write_program(model: nn.Module, inputs: Tensor, path: Path) -> None:
    """Write a model of any kind with `torch.export`, for batches of any size."""
    try:
        program = pytorch.export.export(model, (inputs,), dynamic_shapes=({0: pytorch.export.Dim("batch")},))
        pytorch.export.save(program, path)
    except Exception as error:  # whatever torch.export cannot do
        reason = str(error).strip().partition("\n")[0]
        raise FedcastError(f"--torch, --flower: torch.export cannot save the model: {reason}") from error
