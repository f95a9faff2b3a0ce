"""A model of one's own, named by a scenario: trained, stored, swept and found again like any other."""

import pytest
import torch
from torch import nn

from fedcast.cost import model_bits, model_size
from fedcast.errors import FedcastError, ScenarioError
from fedcast.runs.packing import pack
from fedcast.runs.store import former_name, run_folder, run_scenario
from fedcast.runs.stored_run import load_run
from fedcast.runs.sweeps import grid, sweep
from fedcast.scenario import load_scenario
from fedcast.training import with_weights

NET = """
from torch import nn

def net(shape, num_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[1] * shape[2], 6), nn.Tanh(), nn.Linear(6, num_classes))
"""
WEIGHTS = 64 * 6 + 6 + 6 * 10 + 10


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "net.py"
    path.write_text(NET)
    return path


def scenario(file, **changes):
    own = {"training.model_file": str(file), "training.model": "net", "training.model_weights": WEIGHTS}
    small = {"training.rounds": 2, "data.num_users": 20, "clustering.rule": "none", "allocation.method": "fixed"}
    return load_scenario(base="digits", overrides={**own, **small, **changes})


def test_it_trains_and_its_weights_come_back(file, tmp_path):
    run = load_run(run_scenario(scenario(file), tmp_path / "runs"))
    stored = torch.load(run.folder / "checkpoint.pt", weights_only=True)["weights"]
    model = with_weights(nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.Tanh(), nn.Linear(6, 10)), stored)
    assert [weight.shape for weight in model.parameters()] == [weight.shape for weight in stored]
    assert len(run.history) == 3


def test_its_first_weights_are_those_of_the_seed(file, tmp_path):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        drawn = nn.Linear(64, 6).weight.detach().clone()
    settings = scenario(file, **{"seed": 7, "training.learning_rate": 1e-12, "training.rounds": 1})
    run = load_run(run_scenario(settings, tmp_path / "runs"))
    kept = torch.load(run.folder / "checkpoint.pt", weights_only=True)["weights"][0]
    assert torch.allclose(kept, drawn, atol=1e-6)


def test_its_weights_are_counted_without_building_them(file):
    assert model_size(scenario(file, **{"training.model_weights": None})) == (WEIGHTS, WEIGHTS, "")
    file.write_text(NET.replace("nn.Linear(6, num_classes))", "nn.Linear(6, 10**13))"))
    # More weights than any memory holds.
    assert model_size(scenario(file, **{"training.model_weights": None})).weights == 64 * 6 + 6 + 7 * 10**13


def test_a_model_whose_code_needs_values_is_counted_too(file):
    file.write_text(NET.replace("    return", "    assert float(nn.Linear(2, 2).weight.sum()) != 7\n    return"))
    assert model_size(scenario(file, **{"training.model_weights": None})).counted == WEIGHTS


def test_without_pytorch_its_weights_are_asked_for(file, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *_: None)
    with pytest.raises(ScenarioError, match=r"unset; .* weights of training.model_file = .*PyTorch is not inst"):
        model_bits(scenario(file, **{"training.model_weights": None}))


def test_a_changed_file_is_another_run(file, tmp_path):
    before = run_folder(tmp_path, scenario(file))
    file.write_text(NET.replace("Tanh", "ReLU"))
    assert run_folder(tmp_path, scenario(file)) != before


def test_runs_without_one_keep_their_names():
    """Of the digits preset, as they were before scenarios could name a file."""
    former = {
        "clustering.rule": "daca", "rounds.form": "paper", "rounds.fit": "digits-0.85",
        "training.local_epochs": 5, "training.learning_rate": 0.1,
    }  # fmt: skip
    assert former_name(load_scenario(base="digits", overrides=former)).endswith("-b5a8e66c45b0")


def test_it_is_swept_in_other_processes(file, tmp_path):
    runs = sweep(grid(scenario(file), rules=["none", "daca"], seeds=[0]), tmp_path / "runs", workers=2)
    assert [len(load_run(folder).history) for folder in runs] == [3, 3]


@pytest.mark.parametrize(
    ("text", "changes", "words"),
    [
        (NET, {"training.model": "nett"}, "training.model = nett: no such function in .*net.py; it has net"),
        (
            NET,
            {"training.model_weights": 7},
            r"training.model_weights: 7, and the model has 460 weights; set it to 460",
        ),
        ("import nowhere", {}, r"net.py: ModuleNotFoundError: No module named 'nowhere'"),
        ("def net(shape, num_classes):\n    return 3", {}, "model: 3 is no torch.nn.Module"),
        ("def net(shape, num_classes):\n    return 1 / 0\n", {}, "net.py: net: ZeroDivisionError: division by zero"),
    ],
)
def test_what_is_wrong_with_it_is_said(file, tmp_path, text, changes, words):
    file.write_text(text)
    with pytest.raises(FedcastError, match=words):
        run_scenario(scenario(file, **changes), tmp_path / "runs")


def test_it_needs_a_function_and_a_file_and_stays_at_home(file, tmp_path):
    with pytest.raises(ScenarioError, match="set training.model to the name of a function in it"):
        scenario(file, **{"training.model": "auto"})
    with pytest.raises(FedcastError, match="no.py: no such file"):
        run_scenario(scenario(tmp_path / "no.py"), tmp_path / "runs")
    with pytest.raises(FedcastError, match="a pack holds data, not code"):
        pack([scenario(file)], tmp_path / "runs", tmp_path / "pack")
