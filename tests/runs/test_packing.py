"""Runs packed, trained by a process that has PyTorch and NumPy alone, and put back: the same bytes as at home."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fedcast
from fedcast.errors import FedcastError
from fedcast.runs.packing import pack, unpack
from fedcast.runs.store import run_folder, run_scenario
from fedcast.runs.stored_run import is_done, load_run
from fedcast.scenario import load_scenario

QUICK = ["training.rounds=2", "training.local_epochs=1", "data.num_users=12", "allocation.method=fixed"]
BARE = """
from importlib.machinery import PathFinder
absent = {"pydantic", "rich", "scipy", "typer", "numba", "sklearn", "tomlkit", "matplotlib", "pyarrow"}
find = PathFinder.find_spec
PathFinder.find_spec = staticmethod(lambda name, *more: None if name.split(".")[0] in absent else find(name, *more))
from fedcast.training.packed import main
main()
"""


def scenarios() -> list:
    changes = [
        ["clustering.rule=none"],
        ["clustering.rule=daca", "seed=1"],
        ["clustering.rule=daca", "data.partition=noise", "data.descriptor=values"],
        ["clustering.rule=central", "data.partition=concept", "data.concept.change=rotation"],
        ["clustering.rule=blend", "training.algorithm=scaffold"],
        ["clustering.rule=blend", "sharing.kind=epochs_control"],
    ]
    return [load_scenario(base="digits", overrides=[*QUICK, *change]) for change in changes]


def train_on_bare_machine(folder: Path, out: Path, *options: str) -> str:
    source = Path(fedcast.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", BARE, str(folder), str(out), *options],
        env={"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "PATH": ""},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_packed_run_equals_one_done_at_home_byte_for_byte(tmp_path: Path) -> None:
    wanted = scenarios()
    names = pack(wanted, tmp_path / "away", tmp_path / "pack")
    said = train_on_bare_machine(tmp_path / "pack", tmp_path / "trained")
    assert unpack(tmp_path / "trained", tmp_path / "away") == sorted(names)
    for scenario, name in zip(wanted, names, strict=True):
        home, away = run_scenario(scenario, tmp_path / "home"), tmp_path / "away" / name
        assert home is not None
        assert name in said
        for file in ("history.json", "history.csv", "facts.json", "tables.json", "ledger.csv", "scenario.toml"):
            assert (away / file).read_bytes() == (home / file).read_bytes(), (name, file)
        assert load_run(away).history == load_run(home).history


def test_a_pack_holds_the_dataset_with_its_options(tmp_path: Path) -> None:
    path, rng = tmp_path / "mine.npz", np.random.default_rng(0)
    np.savez(path, inputs=rng.random((120, 1, 4, 4)), labels=np.arange(120) % 3)
    options = ["data.dataset=file", f"data.file.path={path}", "data.partition=noise", "data.descriptor=values"]
    changes = [*QUICK, *options, "clustering.rule=none", "training.model=mlp"]
    scenario = load_scenario(base="digits", overrides=changes)
    (name,) = pack([scenario], tmp_path / "away", tmp_path / "pack")
    train_on_bare_machine(tmp_path / "pack", tmp_path / "trained")
    unpack(tmp_path / "trained", tmp_path / "away")
    home = run_scenario(scenario, tmp_path / "home")
    assert home is not None
    assert load_run(tmp_path / "away" / name).history == load_run(home).history


def test_two_processes_bring_the_same_as_one(tmp_path: Path) -> None:
    pack(scenarios()[:2], tmp_path / "store", tmp_path / "pack")
    train_on_bare_machine(tmp_path / "pack", tmp_path / "one")
    source = Path(fedcast.__file__).parents[1]
    command = [sys.executable, "-m", "fedcast.training.packed", str(tmp_path / "pack"), str(tmp_path / "two")]
    environment = {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "PATH": ""}
    subprocess.run([*command, "--processes", "2"], env=environment, check=True, capture_output=True)
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert files == sorted(path.name for path in (tmp_path / "two").iterdir())
    assert all((tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes() for name in files)


def test_done_runs_are_not_packed_and_histories_not_put_back_twice(tmp_path: Path) -> None:
    first, second = scenarios()[:2]
    run_scenario(first, tmp_path / "store")
    assert pack([first, second, second], tmp_path / "store", tmp_path / "pack") == [run_folder(Path(), second).name]
    train_on_bare_machine(tmp_path / "pack", tmp_path / "trained")
    assert len(unpack(tmp_path / "trained", tmp_path / "store")) == 1
    assert unpack(tmp_path / "trained", tmp_path / "store") == []
    folder = run_folder(tmp_path / "store", second)
    assert is_done(folder)
    assert json.loads((folder / "machine.json").read_text())["torch"]


def test_a_second_pack_replaces_the_runs_of_the_first(tmp_path: Path) -> None:
    first, second = scenarios()[:2]
    pack([first], tmp_path / "store", tmp_path / "pack")
    (name,) = pack([second], tmp_path / "store", tmp_path / "pack")
    assert [path.stem for path in (tmp_path / "pack" / "runs").iterdir()] == [name]
    assert [run["name"] for run in json.loads((tmp_path / "pack" / "runs.json").read_text())["runs"]] == [name]


def test_histories_of_other_runs_and_unfinished_ones_are_refused(tmp_path: Path) -> None:
    scenario = scenarios()[0]
    pack([scenario], tmp_path / "store", tmp_path / "pack")
    train_on_bare_machine(tmp_path / "pack", tmp_path / "trained")
    with pytest.raises(FedcastError, match="no run of that name in"):
        unpack(tmp_path / "trained", tmp_path / "other")
    path = next(path for path in (tmp_path / "trained").glob("*.json") if path.name != "machine.json")
    content = json.loads(path.read_text())
    content["records"].pop()
    path.write_text(json.dumps(content))
    with pytest.raises(FedcastError, match="ends after round 1 of 2"):
        unpack(tmp_path / "trained", tmp_path / "store")
    with pytest.raises(FedcastError, match=r"no machine\.json"):
        unpack(tmp_path / "pack", tmp_path / "store")
