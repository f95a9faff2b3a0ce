"""Exported runs: what the files hold, read back by fedcast, and repeated by code that does not have it."""

import ast
import csv
import json
import re
import shutil
import subprocess
import sys
import tomllib
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from fedcast import FedcastError, export_run, load_run, load_scenario, run_scenario
from fedcast.data.partitions.indices import read_indices
from fedcast.runs import prepare_run
from fedcast.runs.export_code import _model_source, check_repeatable
from fedcast.training import TrainingSettings, build_model

SMALL = [
    "data.num_users=12",
    "allocation.method=fixed",
    "clustering.rule=gain",
    "training.model=mlp",
    "training.local_epochs=2",
    "training.rounds=4",
    "training.precision=float64",
]
# Every setting that the code follows, at a value that changes the result.
OTHER = [
    "training.participation=0.7",
    "training.dropout_probability=0.2",
    "training.momentum=0.5",
    "training.weight_decay=0.01",
    "training.clip_norm=1",
    "training.learning_rate_decay=0.9",
    "training.aggregation=own",
    "training.over_selection=0.3",
]
# As if fedcast was not installed.
WITHOUT_FEDCAST = """
import pathlib, runpy, sys
sys.modules["fedcast"] = None
sys.path.insert(0, str(pathlib.Path(sys.argv[1]).parent))
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def small_run(store, *overrides):
    return run_scenario(load_scenario(base="digits", overrides=[*SMALL, *overrides]), store)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def run(store):
    return small_run(store)


@pytest.fixture(scope="module")
def exported(run, tmp_path_factory):
    return export_run(run, tmp_path_factory.mktemp("exports") / "all", torch=True, flower=True)


def read(path):
    return json.loads(path.read_text())


def curve_of(folder, name):
    with (folder / name).open() as stream:
        return np.array([[float(row["accuracy"]), float(row["test_loss"])] for row in csv.DictReader(stream)])


def train_by_script(folder):
    command = [sys.executable, "-c", WITHOUT_FEDCAST, folder / "pytorch/train.py"]
    done = subprocess.run(command, env={"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_partitions_before_and_after_differ_by_the_ledger(run, exported):
    before, after = read(exported / "partition_before.json"), read(exported / "partition_after.json")
    held = prepare_run(load_run(run).scenario).world.population.assignment
    assert before == [held.of(user).tolist() for user in range(12)]
    with (exported / "ledger.csv").open() as stream:
        sent = [(int(row["receiver"]), int(row["sample"])) for row in csv.DictReader(stream)]
    assert sent
    for receiver, sample in sent:
        before[receiver].append(sample)
    assert after == before


def test_weights_are_those_before_and_after_training(run, exported):
    first, last = (torch.load(exported / f"weights_{when}.pt", weights_only=True) for when in ("initial", "final"))
    model = build_model("mlp", (1, 8, 8), 10).double()
    for name, weight in model.named_parameters():
        assert torch.equal(first[name], weight)
    model.load_state_dict(last)
    with np.load(exported / "data.npz") as data:
        inputs, labels = torch.from_numpy(data["test_inputs"]).double() * float(data["scale"]), data["test_labels"]
    accuracy = float((model(inputs).argmax(1).numpy() == labels).mean())
    assert accuracy == load_run(run).history.records[-1].accuracy
    assert accuracy > load_run(run).history.records[0].accuracy


def test_the_readme_lists_every_file(exported):
    listed = re.findall(r"^\| `([^`]+)` \|", (exported / "README.md").read_text(), flags=re.MULTILINE)
    there = {path.name + ("/" if path.is_dir() else "") for path in exported.iterdir()} - {"README.md"}
    assert there - {"history_pytorch.csv", "weights_pytorch.pt"} == set(listed)
    for name in ("scenario.toml", "plan.json", "history.csv"):
        assert (exported / name).stat().st_size


@pytest.mark.parametrize(
    "kind", ["raw", "prototypes", "mixed", "work_control"], ids=["shared", "generated", "soft labels", "repeated"]
)
def test_fedcast_reads_it_back_and_finds_the_same_accuracy(store, tmp_path, kind):
    run = small_run(store, f"sharing.kind={kind}")
    folder = export_run(run, tmp_path / "exported")
    after = read(folder / "partition_after.json")
    number = 1437 if kind in ("raw", "work_control") else len(np.load(folder / "data.npz")["labels"])
    assert number >= 1437
    assert ("soft_labels" in np.load(folder / "data.npz")) == (kind == "mixed")
    assert number == 1437 or number - 1 == max(map(max, after))
    again = read_indices(folder / "partition_after.json", number, 12, shared=True)
    assert [again.of(user).tolist() for user in range(12)] == after
    if kind in ("raw", "work_control"):
        with pytest.raises(FedcastError, match="set data.indices.shared = true"):
            read_indices(folder / "partition_after.json", number)
    replayed = load_run(run_scenario(folder / "replay.toml", tmp_path / "replays"))
    assert replayed.history.column("accuracy") == load_run(run).history.column("accuracy")
    assert replayed.history.column("test_loss") == pytest.approx(load_run(run).history.column("test_loss"), abs=1e-12)


def test_the_plain_script_finds_the_accuracy_of_fedcast(store, tmp_path):
    run = small_run(store, *OTHER, "sharing.kind=mixed")
    folder = export_run(run, tmp_path / "exported", torch=True)
    said = train_by_script(folder)
    assert "largest difference from the accuracy of fedcast in 5 records: 0\n" in said
    found, expected = curve_of(folder, "history_pytorch.csv"), curve_of(folder, "history.csv")
    assert len(set(expected[:, 0])) > 2, "a curve that does not move shows nothing"
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    final, ours = (torch.load(folder / f"weights_{name}.pt", weights_only=True) for name in ("final", "pytorch"))
    for name in final:
        torch.testing.assert_close(ours[name], final[name], rtol=0, atol=1e-9)


def test_the_flower_app_is_complete(exported):
    project = tomllib.loads((exported / "flower/pyproject.toml").read_text())
    app = project["tool"]["flwr"]["app"]
    assert app["config"] == {"folder": str(exported), "num-server-rounds": 4}
    for component in app["components"].values():
        module, _, name = component.partition(":")
        tree = ast.parse((exported / "flower" / f"{module.replace('.', '/')}.py").read_text())
        assert name in {target.id for node in tree.body if isinstance(node, ast.Assign) for target in node.targets}
    same = [(exported / part).read_text() for part in ("pytorch/task.py", "flower/fedcast_app/task.py")]
    assert same[0] == same[1]
    imported = {
        alias.split(".")[0]
        for file in exported.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        for alias in ([node.module] if isinstance(node, ast.ImportFrom) else [])
    }
    assert imported <= {"functools", "pathlib", "torch", "model", "task", "flwr", "fedcast_app"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (TrainingSettings(algorithm="scaffold"), "'scaffold' for training.algorithm: expected 'fedavg'"),
        (TrainingSettings(server_optimizer="adam"), "'adam' for training.server_optimizer: expected 'none'"),
        (TrainingSettings(server_learning_rate=0.5), "0.5 for training.server_learning_rate: expected 1.0"),
        (TrainingSettings(augmentation="crop_flip"), "'crop_flip' for training.augmentation: expected 'none'"),
        (TrainingSettings(buffer_size=3), "3 for training.buffer_size: expected None"),
        (TrainingSettings(precision="bf16"), "'bf16' for training.precision: expected 'float32'"),
    ],
)
def test_code_is_refused_where_it_would_find_another_curve(settings, message):
    with pytest.raises(FedcastError, match=re.escape(message)):
        check_repeatable(SimpleNamespace(training=settings), nn.Linear(1, 1))


def test_a_model_that_draws_is_refused_with_code():
    with pytest.raises(FedcastError, match=r"the model has Dropout\(p=0.5"):
        check_repeatable(SimpleNamespace(training=TrainingSettings()), nn.Sequential(nn.Linear(1, 1), nn.Dropout()))


def test_other_algorithms_are_exported_without_code(store, tmp_path):
    run = small_run(store, "training.algorithm=fedprox")
    with pytest.raises(FedcastError, match="'fedprox' for training.algorithm"):
        export_run(run, tmp_path / "code", torch=True)
    assert not list(tmp_path.iterdir()), "an export that failed leaves nothing"
    folder = export_run(run, tmp_path / "exported")
    assert not (folder / "task.json").exists()
    replayed = load_run(run_scenario(folder / "replay.toml", tmp_path / "replays"))
    assert replayed.history.column("accuracy") == load_run(run).history.column("accuracy")


@pytest.mark.parametrize(
    ("name", "shape", "readable"),
    [("mlp", (1, 8, 8), True), ("cnn", (1, 28, 28), True), ("vgg16", (3, 32, 32), True), ("lstm", (80,), False)],
)
def test_chains_of_layers_are_written_as_source(name, shape, readable):
    model = build_model(name, shape, 10)
    source = _model_source(model)
    assert (source is not None) == readable
    if source is not None:
        made: dict = {}
        exec(source, made)
        again = made["build"]()
        again.load_state_dict(model.state_dict())
        inputs = torch.rand(2, *shape)
        assert torch.equal(again(inputs), model(inputs))


def test_a_layer_with_options_that_its_text_does_not_show_is_not_written_as_source():
    plain = nn.MaxPool2d(2)
    assert _model_source(nn.Sequential(plain)) is not None
    assert _model_source(nn.Sequential(nn.MaxPool2d(2, return_indices=True))) is None
    plain.register_forward_hook(lambda *_: None)
    assert _model_source(nn.Sequential(plain)) is None


def test_any_other_model_is_saved_by_torch_export(store, tmp_path):
    model = tmp_path / "wide.py"
    model.write_text(
        "import torch\n\n\nclass Wide(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.first, self.last = torch.nn.Linear(64, 8), torch.nn.Linear(64 + 8, 10)\n\n"
        "    def forward(self, x):\n        x = x.flatten(1)\n"
        "        return self.last(torch.cat([x, self.first(x).relu()], 1))\n\n\n"
        "def wide(shape, num_classes):\n    return Wide()\n"
    )
    run = small_run(store, "training.model=wide", f"training.model_file={model}", "training.rounds=2")
    folder = export_run(run, tmp_path / "exported", torch=True)
    assert (folder / "model.pt2").exists()
    assert (folder / "files/training.model_file.py").read_text() == model.read_text()
    train_by_script(folder)
    np.testing.assert_allclose(
        curve_of(folder, "history_pytorch.csv"), curve_of(folder, "history.csv"), rtol=0, atol=1e-9
    )


def test_a_folder_that_has_files_is_left_as_it_is(run, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(FedcastError, match="the folder has files; expected a new or an empty one"):
        export_run(run, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    (tmp_path / "empty").mkdir()
    assert (export_run(run, tmp_path / "empty") / "plan.json").exists()


def test_a_run_without_a_checkpoint_has_no_final_weights(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / run.name)
    (copy / "checkpoint.pt").unlink()
    folder = export_run(copy, tmp_path / "exported")
    assert not (folder / "weights_final.pt").exists()
    assert "| `weights_final.pt` | **missing**" in (folder / "README.md").read_text()


def test_a_run_whose_data_changed_is_not_exported(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {"inputs": rng.random((200, 4)), "labels": np.arange(200) % 4}
    np.savez(tmp_path / "mine.npz", **arrays)
    run = small_run(tmp_path / "store", "data.dataset=file", f"data.file={tmp_path}/mine.npz", "training.rounds=1")
    np.savez(tmp_path / "mine.npz", inputs=arrays["inputs"][::-1], labels=arrays["labels"])
    with pytest.raises(FedcastError, match=r"prepared again, it (is another run|shares other samples).*repeat the run"):
        export_run(run, tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


def test_runs_on_devices_are_not_exported(run, tmp_path):
    stored = load_run(run)
    vars(stored)["measured_s"] = {"round 1": 2.0}
    with pytest.raises(FedcastError, match="trained on devices, which keep their samples"):
        export_run(stored, tmp_path / "exported")
