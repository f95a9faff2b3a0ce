"""An algorithm, a model, a partition and a rule from files: compared, resumed, reported, packed and run on Ray."""

import re
import shutil
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from fedcast import registry
from fedcast.cli.app import app
from fedcast.errors import FedcastError
from fedcast.runs.comparison import compare
from fedcast.runs.packing import pack, unpack
from fedcast.runs.store import run_folder, run_scenario
from fedcast.runs.stored_run import load_run, load_runs
from fedcast.runs.sweeps import grid, sweep
from fedcast.scenario import load_scenario
from tests.runs.test_packing import train_on_bare_machine

FEDDYN = Path(__file__).parents[2] / "examples" / "feddyn_plugin.py"
MINE = """
from dataclasses import dataclass

import numpy as np

from fedcast.data import Partition
from fedcast.registry import option, register
from fedcast.training import Model


@dataclass(frozen=True)
class Width:
    width: int = option(16, "units of the hidden layer", ge=1)


def build(shape, num_classes, options):
    from torch import nn

    return nn.Sequential(nn.Flatten(), nn.Linear(64, options.width), nn.ReLU(), nn.Linear(options.width, num_classes))


@dataclass(frozen=True)
class Classes:
    classes: int = option(1, "classes of a user", ge=1)


def counts(class_sizes, num_users, options, seed):
    held = (np.arange(num_users)[:, None] - np.arange(len(class_sizes))) % len(class_sizes) < options.classes
    return held * (class_sizes // num_users)


register("model", "my_mlp", Model(build, "one hidden layer", Width))
register("partition", "my_classes", Partition("classes in turn", counts=counts, complete=False, options=Classes))
"""
RULE = """
import numpy as np

from fedcast.clustering import Clustering, Rule
from fedcast.registry import register


def nobody(problem, _):
    return Clustering(problem, np.full(problem.num_users, -1))


register("clustering", "my_none", Rule(nobody, "nobody shares", why="is my_none"))
"""
SCENARIO = """
plugins = ["feddyn_plugin.py", "mine.py"]
[data]
num_users = 12
partition = "my_classes"
[data.my_classes]
classes = 2
[allocation]
method = "fixed"
[training]
model = "my_mlp"
model_weights = 910
rounds = 2
local_epochs = 1
[training.my_mlp]
width = 12
[training.my_feddyn]
alpha = 0.2
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a scenario and its plug-in files; what they register is forgotten afterwards."""
    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.setattr(registry, "_loaded_files", {})
    made = tmp_path / "made"
    made.mkdir()
    shutil.copy(FEDDYN, made)
    (made / "mine.py").write_text(MINE)
    (made / "rule.py").write_text(RULE)
    (made / "scenario.toml").write_text(SCENARIO)
    return made


def scenario(folder, **changes):
    return load_scenario(
        folder / "scenario.toml", base="digits", overrides={"training.algorithm": "my_feddyn", **changes}
    )


def files(folder):
    return {
        name: (folder / name).read_bytes() for name in ("history.json", "facts.json", "scenario.toml", "ledger.csv")
    }


def test_the_command_compares_them_on_workers_resumes_and_reports(folder, monkeypatch):
    monkeypatch.chdir(folder)
    words = ["compare", "scenario.toml", "--rules", "none,blend", "--algorithms", "fedavg,my_feddyn", "--seeds", "2"]
    first = CliRunner().invoke(app, [*words, "--workers", "2", "--out", "out"])
    assert first.exit_code == 0, first.output
    assert "my_feddyn" in (folder / "out" / "comparison.csv").read_text()
    page = (folder / "out" / "report.html").read_text()
    for shown in ("my_feddyn", "training.my_feddyn.alpha", "data.my_classes.classes", "feddyn_plugin.py"):
        assert shown in page
    before = {path: path.stat().st_mtime_ns for path in (folder / "out").rglob("history.json")}
    assert len(before) == 8
    (folder / "moved").mkdir()
    for file in ("feddyn_plugin.py", "mine.py", "scenario.toml"):
        (folder / file).rename(folder / "moved" / file)
    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.setattr(registry, "_loaded_files", {})
    report = CliRunner().invoke(app, ["report", "out", "--out", "again.html"])  # without any plug-in
    assert report.exit_code == 0, report.output
    page = (folder / "again.html").read_text()
    row = page.partition(">training.my_mlp.width</th>")[2].partition("</tr>")[0]
    assert re.findall(r">([^<]+)<", row) == ["12", "16", "units of the hidden layer"]
    assert "unknown" not in page.partition('id="scenario"')[2].partition("<pre>")[0]
    words[1] = "moved/scenario.toml"
    again = CliRunner().invoke(app, [*words, "--workers", "1", "--out", "out"])
    assert again.exit_code == 0, again.output
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_runs_with_default_options_are_comparable_without_the_plug_in(folder, tmp_path, monkeypatch):
    text = SCENARIO.partition("[training.my_feddyn]")[0]
    (folder / "scenario.toml").write_text(text)
    for algorithm in ("fedavg", "my_feddyn"):
        run_scenario(scenario(folder, **{"training.algorithm": algorithm}), tmp_path / "runs")
    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.setattr(registry, "_loaded_files", {})
    found = compare(load_runs(tmp_path / "runs"))
    assert [row.strategy.algorithm for row in found] == ["fedavg", "my_feddyn"]


def test_a_run_is_resumed_where_its_plug_in_files_have_moved(folder, tmp_path, monkeypatch):
    whole = run_scenario(scenario(folder), tmp_path / "whole")
    stops = iter([True]).__next__
    assert run_scenario(scenario(folder), tmp_path / "runs", should_stop=stops) is None
    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.setattr(registry, "_loaded_files", {})
    moved = scenario(folder.rename(tmp_path / "elsewhere"))
    assert files(run_scenario(moved, tmp_path / "runs"))["history.json"] == files(whole)["history.json"]


def test_options_of_model_algorithm_and_partition_are_used(folder, tmp_path):
    run = load_run(run_scenario(scenario(folder), tmp_path))
    weights = torch.load(run.folder / "checkpoint.pt", weights_only=True)["weights"]
    assert weights[0].shape == (12, 64)
    assert run.history.records[0].user_accuracy != run.history.records[-1].user_accuracy
    assert run_folder(tmp_path, scenario(folder, **{"training.my_feddyn.alpha": 0.3})) != run.folder


def test_a_rule_from_a_file_runs_on_workers(folder, tmp_path):
    mine = scenario(folder, plugins=[str(folder / name) for name in ("feddyn_plugin.py", "mine.py", "rule.py")])
    made = sweep(grid(mine, ["my_none"], seeds=[0, 1]), tmp_path, workers=2)
    plain = sweep(grid(scenario(folder), ["none"], seeds=[0, 1]), tmp_path)
    assert [files(one)["history.json"] for one in made] == [files(one)["history.json"] for one in plain]


def test_what_a_plug_in_raises_on_a_worker_is_its_error(folder, tmp_path):
    (folder / "rule.py").write_text(RULE.replace("np.full", "np.fill"))
    mine = scenario(folder, plugins=[str(folder / name) for name in ("feddyn_plugin.py", "mine.py", "rule.py")])
    expected = rf"plug-in clustering rule 'my_none': AttributeError: .*\(in nobody, {folder}/rule.py, line 9\)"
    with pytest.raises(FedcastError, match=expected):
        sweep(grid(mine, ["my_none"], seeds=[0, 1]), tmp_path, workers=2)
    assert "failed: plug-in" in next(tmp_path.glob("*/log.txt")).read_text()


def test_workers_have_the_environment_of_their_sweep(folder, tmp_path, monkeypatch):
    """Also where the process from which they are forked was started before a variable was set."""
    (folder / "rule.py").write_text(RULE.replace("return", "import os; raise ValueError(os.environ['WORD']); return"))
    mine = scenario(folder, plugins=[str(folder / name) for name in ("feddyn_plugin.py", "mine.py", "rule.py")])
    for word in ("first", "second"):
        monkeypatch.setenv("WORD", word)
        with pytest.raises(FedcastError, match=f"ValueError: {word}"):
            sweep(grid(mine, ["my_none"], seeds=[0, 1]), tmp_path / word, workers=2)


def test_they_travel_in_a_pack(folder, tmp_path):
    wanted = [scenario(folder), scenario(folder, **{"training.algorithm": "fedavg"})]
    names = pack(wanted, tmp_path / "away", tmp_path / "pack")
    train_on_bare_machine(tmp_path / "pack", tmp_path / "trained")
    assert unpack(tmp_path / "trained", tmp_path / "away") == sorted(names)
    for one, name in zip(wanted, names, strict=True):
        assert files(tmp_path / "away" / name) == files(run_scenario(one, tmp_path / "home"))


@pytest.mark.filterwarnings("ignore::Warning")
def test_ray_workers_get_the_content_of_the_files(folder, tmp_path):
    pytest.importorskip("ray")
    from fedcast.runs.executors import _run_on_worker, _sent

    mine = scenario(folder)
    sent, home = _sent(mine), run_scenario(mine, tmp_path / "home")
    shutil.rmtree(folder)
    registry._registered.clear()
    registry._loaded_files.clear()
    name, returned = _run_on_worker(*sent, None)
    assert name == home.name
    assert {file: returned[file] for file in files(home)} == files(home)
