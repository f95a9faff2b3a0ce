"""`fedcast run`, `compare` and `train` as a person uses them."""

import csv
import itertools
import os
import re
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from fedcast import load_scenario
from fedcast.cli.app import app
from fedcast.cli.progress import StudyProgress
from fedcast.errors import FedcastError
from fedcast.runs import FailedRun, grid, prepare_run, run_folder, store_run
from fedcast.training import History, Record

SMALL = [
    "--set", "data.num_users=20", "--set", "training.model=mlp", "--set", "training.local_epochs=1",
    "--set", "training.rounds=3", "--set", "allocation.method=fixed",
]  # fmt: skip
COMMANDS = sorted(command.name or command.callback.__name__.replace("_", "-") for command in app.registered_commands)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_fits_a_screen(fedcast, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = fedcast(command, "--help")
    assert code == 0
    # The many options of plan are in groups.
    assert len(out.splitlines()) <= (60 if command == "plan" else 42)
    assert max(len(line) for line in out.splitlines()) <= 80


def test_run_compares_and_writes_a_report(fedcast, tmp_path):
    code, out, _ = fedcast("run", *SMALL, "--workers", 1, "--out", tmp_path)
    assert code == 0
    assert [
        word for word in ("FedAvg", "daca", "best", "rounds to 85 %", "speed-up over FedAvg") if word not in out
    ] == []
    page = (tmp_path / "report.html").read_bytes()
    assert page.startswith(b"<!doctype html>")
    folders = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert len(folders) == 3
    code, _, err = fedcast("run", *SMALL, "--workers", 1, "--out", tmp_path)
    assert code == 0
    assert "3 of 3 runs are finished and are reused" in err
    assert (tmp_path / "report.html").read_bytes() == page
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == folders


def test_compare_over_seeds_writes_its_table(fedcast, tmp_path):
    code, out, _ = fedcast("compare", *SMALL, "--rules", "none,daca", "--seeds", 3, "--workers", 2, "--out", tmp_path)
    assert code == 0
    assert "seeds that reached the target" in out
    with (tmp_path / "comparison.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["strategy"] for row in rows] == ["FedAvg", "daca fixed"]
    assert {row["seeds"] for row in rows} == {"3"}
    assert 0 <= float(rows[1]["accuracy_p_value"]) <= 1
    assert (tmp_path / "report.html").exists()


@pytest.mark.parametrize("words", [("run", "--seeds"), ("compare", "--seeds"), ("compare", "--tune-on")])
def test_too_many_seeds_are_refused_before_the_grid_is_made(fedcast, tmp_path, words):
    code, _, err = fedcast(*words, 1_000_000_000, "--out", tmp_path / "out")
    assert code == 2
    assert "expected a number of seeds from 1 to 10,000" in err
    assert not (tmp_path / "out").exists()


def test_another_target_trains_nothing_again(fedcast, tmp_path):
    words = ("compare", *SMALL, "--rules", "none,daca", "--seeds", 1, "--workers", 1, "--out", tmp_path)
    code, out, _ = fedcast(*words)
    assert (code, "not trained" in out) == (0, False)
    code, out, _ = fedcast(*words, "--set", "rounds.target_accuracy=0.8")
    assert code == 0
    assert "2 of 2 runs not trained: finished runs have the same training" in out
    assert "rounds to 80 %" in out
    assert "not trained: as none-fixed-fedavg-0-" in (tmp_path / "report.html").read_text()


STUDY = """
preset = "digits"
[data]
num_users = 8
partition = "dirichlet"
[training]
model = "mlp"
local_epochs = 1
rounds = 1
[allocation]
method = "fixed"
[study]
rules = ["none", "daca"]
seeds = 1
tune_on = 1
[study.vary]
training.learning_rate = [0.1, 0.4]
data.dirichlet.alpha = [0.1, 1.0]
"""


def test_a_study_in_a_file_and_on_the_command_line(fedcast, tmp_path):
    """Both do the same runs: the second finds all of them finished."""
    (tmp_path / "study.toml").write_text(STUDY)
    code, out, err = fedcast("compare", "--spec", tmp_path / "study.toml", "--workers", 1, "--out", tmp_path)
    assert code == 0
    assert "8 runs for tuning on 1 process, then 4 with the best settings" in err
    assert fedcast("validate", tmp_path / "study.toml")[0] == 0
    assert re.search(r"the first run took .*s; about .*s for the 7 left", err)
    assert [line for line in out.splitlines() if line.startswith("data.")] == [
        f"data.dirichlet.alpha = {alpha}" for alpha in ("0.1", "1")
    ]
    with (tmp_path / "comparison.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["data.dirichlet.alpha"], row["strategy"]) for row in rows] == [
        ("0.1", "FedAvg"), ("0.1", "daca fixed"), ("1.0", "FedAvg"), ("1.0", "daca fixed"),
    ]  # fmt: skip
    with (tmp_path / "tuning.csv").open() as stream:
        assert len(list(csv.DictReader(stream))) == 8
    table = (tmp_path / "comparison.csv").read_bytes()
    scenario = STUDY.partition("[study]")[0]
    (tmp_path / "scenario.toml").write_text(scenario)
    code, _, err = fedcast(
        "compare", tmp_path / "scenario.toml", "--rules", "none,daca", "--seeds", 1, "--tune-on", 1, "--vary",
        "training.learning_rate=0.1,0.4", "--vary", "data.alpha=0.1,1.0", "--workers", 1, "--out", tmp_path,
    )  # fmt: skip
    assert code == 0
    assert "8 of 8 runs for tuning are finished and are reused" in err
    assert (tmp_path / "comparison.csv").read_bytes() == table


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("seeds = 1", "seeds = nan"), "study.seeds: invalid value nan: expected a whole number >= 1"),
        (("[0.1, 0.4]", "[0.1, nan]"), "[study]: training.learning_rate: invalid value nan: expected a number"),
        (("tune_on = 1", "tune = 1"), "study.tune: unknown key"),
    ],
)
def test_validate_finds_what_compare_would_say_of_a_study(fedcast, tmp_path, change, message):
    (tmp_path / "study.toml").write_text(STUDY.replace(*change))
    code, _, err = fedcast("validate", tmp_path / "study.toml")
    assert (code, message in err) == (2, True)
    code, _, said = fedcast("compare", tmp_path / "study.toml", "--out", tmp_path / "out")
    assert (code, message.removeprefix("[study]: ") in said) == (2, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--vary", "training.learning_rate"], "--vary training.learning_rate: expected KEY=V,…"),
        (["--vary", "clustering.rule=daca"], "vary: clustering.rule makes a strategy or a seed; use rules"),
        (["--vary", "training.learning_rate=-1"], "training.learning_rate: invalid value -1: expected a number"),
        (["--vary", "data.alpha=1"], "vary: data.alpha changes nothing"),
        (["--vary", "training.learning_rate="], "--vary training.learning_rate=: expected KEY=V,…"),
        (["--vary", "training.learning_rate=0.1,nan"], "training.learning_rate: invalid value nan: expected a number"),
        (["--vary", "training.momentum=0", "--vary", "training.momentum=0.9"], "training.momentum is given twice"),
        (["--tune-on", "2"], "tune_on: there is nothing to tune"),
        (["one.toml", "--spec", "two.toml"], "--spec two.toml: is a scenario file too; give one of them"),
    ],
)
def test_what_cannot_vary_is_one_line(fedcast, tmp_path, words, message):
    code, _, err = fedcast("compare", *SMALL, "--out", tmp_path / "out", *words)
    assert (code, message in err, len(err.strip().splitlines())) == (2, True, 1)
    assert not (tmp_path / "out").exists()


def test_compare_with_controls_says_where_the_gain_comes_from(fedcast, tmp_path, monkeypatch):
    # As if plans had chosen the local epochs: without sharing, then with.
    chosen = itertools.cycle((8.0, 6.5))
    monkeypatch.setattr("fedcast.runs.gain_parts._epochs", lambda *_: next(chosen))
    target = ("--set", "rounds.target_accuracy=0.15")
    options = ("--rules", "none,daca", "--controls", "work", "--seeds", 1, "--workers", 1, "--out", tmp_path)
    code, out, _ = fedcast("compare", *SMALL, *target, *options)
    assert code == 0
    parts = out[out.index("where the gain comes from") :].splitlines()
    assert parts[1].split("  ")[-1].strip() == "accuracy"
    assert [line.split("  ")[0] or line.split("  ")[1] for line in parts[1:8]] == [
        "daca fixed, work control", "FedAvg", "more work", "less skew", "whole gain", "daca fixed", "seeds",
    ]  # fmt: skip
    differ = "daca fixed has 6.5 local epochs on average, FedAvg 8: more work includes the difference"
    assert differ in " ".join(out.split())
    assert differ in (tmp_path / "report.html").read_text()
    with (tmp_path / "gains.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["strategy"], row["control"], row["measure"]) for row in rows] == [
        ("daca fixed", "work", measure) for measure in ("rounds", "total_s", "accuracy")
    ]
    for row in rows:
        end = sum(float(row[part]) for part in ("without_sharing", "work", "skew"))
        assert end == pytest.approx(float(row["with_sharing"]))
    assert "Where the gain comes from" in (tmp_path / "report.html").read_text()


def test_ten_of_200_runs_fail(fedcast, tmp_path, monkeypatch):
    """Runs are made up, so that there can be many; what fails is an error of the run itself."""
    target = ("--set", "rounds.target_accuracy=0.15", "--set", "data.num_users=4")
    made = prepare_run(load_scenario(base="digits", overrides=[word for word in (*SMALL, *target) if word != "--set"]))

    def run_scenario(scenario, store, **_):
        if scenario.seed % 20 == 7:
            raise FedcastError(f"4 users cannot take part within their energy budget under {scenario.clustering.rule}")
        record = Record(0, None, 2.3, 0.1, 0.1, 0.1, None, 4, 0.0, 0.0, 0.0)
        last = replace(record, round=1, accuracy=0.5 + scenario.seed / 100, seconds=made.clock.round_s)
        prepared = replace(made, world=replace(made.world, scenario=scenario))
        return store_run(run_folder(store, scenario), prepared, History([record, last]), {})

    monkeypatch.setattr("fedcast.runs.executors.run_scenario", run_scenario)
    options = ("--rules", "none,scc,cec,daca,gain", "--seeds", 40, "--workers", 1, "--out", tmp_path)
    start = time.process_time()
    code, out, err = fedcast("compare", *SMALL, *target, *options)
    assert time.process_time() - start < 60
    assert code == 3
    assert err.splitlines()[-1] == f"fedcast: 10 of 200 runs failed; the reasons are in {tmp_path / 'runs.csv'}"
    assert "failed: daca fixed, seed 27: 4 users cannot take part within their energy budget under daca" in err
    assert re.search(r"failed seeds +2 +2 +2 +2", out)
    with (tmp_path / "runs.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["status"] for row in rows].count("finished") == 190
    assert all((row["accuracy"] == "") == (row["status"] == "failed") for row in rows)
    reasons = [row["reason"] for row in rows if row["status"] == "failed"]
    assert len(reasons) == 10
    assert reasons[0].endswith("budget under none")
    with (tmp_path / "comparison.csv").open() as stream:
        assert {(row["seeds"], row["failed"]) for row in csv.DictReader(stream)} == {("38", "2")}
    page = (tmp_path / "report.html").read_text()
    assert "10 of 200 runs failed" in page
    assert "<td>7, 27</td>" in page
    assert len(page) < 3_000_000
    # Later, from the folders alone.
    code, _, _ = fedcast("report", tmp_path, "--out", tmp_path / "again.html")
    assert (code, (tmp_path / "again.html").read_text()) == (0, page)


def test_time_is_measured_on_the_first_run_that_finishes(tmp_path, capsys, monkeypatch):
    """A run that fails may do so at once, and says nothing about the others."""
    scenarios = grid(load_scenario(base="digits", overrides=["training.rounds=2"]), ["none"], seeds=range(4))
    seconds = iter([100.0, 130.0])
    with StudyProgress(tmp_path, 1, 4) as progress:
        monkeypatch.setattr("fedcast.cli.progress.time.monotonic", lambda: next(seconds))
        progress.begin(scenarios, "comparison")
        progress.fail(FailedRun(tmp_path / "run", scenarios[0], "training diverged"))
        progress.show(1, 1, 0.5)
        progress.show(1, 2, 0.6)
        progress.show(2, 2, 0.6)
    said = capsys.readouterr().err.replace("\u00a0", " ").splitlines()
    assert [line for line in said if line.strip()] == [
        "4 runs on 1 process",
        "failed: FedAvg, seed 0: training diverged",
        "the first run took 30 s; about 60 s for the 2 left",
    ]


def test_a_comparison_in_which_every_run_fails(fedcast, tmp_path):
    hungry = ("--set", "devices.energy_budget_j=1e-9", "--rules", "none,daca", "--seeds", 1, "--workers", 1)
    code, _, err = fedcast("compare", *SMALL, *hungry, "--out", tmp_path)
    assert code == 2
    assert "fedcast: all runs failed:" in err.splitlines()
    assert "cannot upload within their budget" in err
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rules", "dacca"], "dacca"),
        (["--rules", ","], "--rules: expected names separated by commas"),
        (["--seeds", "0"], "Invalid value for '--seeds': '0': expected a number of seeds from 1"),
        (["--seeds", "0-4"], "Invalid value for '--seeds': '0-4': expected a number of seeds from 1"),
        (["--log", "wandb"], "invalid value 'wandb' for --log: expected tensorboard or mlflow"),
        (["--set", "training.rounds=0"], "training.rounds: invalid value 0: expected a whole number"),
        (["no.toml"], "no.toml: no such file"),
    ],
)
def test_what_a_person_gets_wrong_is_one_line(fedcast, tmp_path, words, message):
    code, _, err = fedcast("run", *SMALL, "--out", tmp_path / "out", *words)
    assert code == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rules", "daca", "--controls", "work"], "add none to the rules daca"),
        (["--controls", "epoch"], "invalid value 'epoch' for controls: expected work or epochs"),
    ],
)
def test_controls_that_cannot_be_compared_are_one_line(fedcast, tmp_path, words, message):
    code, _, err = fedcast("compare", *SMALL, "--out", tmp_path / "out", *words)
    assert code == 2
    assert message in err
    assert not (tmp_path / "out").exists()


def test_the_old_name_of_methods_still_works(fedcast, tmp_path):
    """An invalid method, so that nothing is run: both names reach the same check."""
    for option, note in (("--methods", False), ("--allocations", True)):
        code, _, err = fedcast("compare", *SMALL, option, "jfvo,none_such", "--out", tmp_path / "out")
        assert code == 2
        assert "none_such" in err
        assert ("--allocations is deprecated; use --methods" in err) == note


def without_notes(err):
    """Lines that are no note about the fit of rounds, and not how many runs there are."""
    return [line for line in err.strip().splitlines() if " fit " not in line and "process" not in line]


def test_a_place_that_cannot_be_written(fedcast, tmp_path):
    (tmp_path / "file").touch()
    code, _, err = fedcast("run", *SMALL, "--out", tmp_path / "file" / "inside")
    assert code == 2
    assert "file: is a file; expected a folder for runs" in err
    assert len(without_notes(err)) == 1


@pytest.fixture
def small_disk(tmp_path):
    """A real file system of 300 kB."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() or not shutil.which("mount"):
        pytest.skip("mounting a small disk takes root")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", place], check=False).returncode:
        pytest.skip("mounting is not allowed here")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def test_a_full_disk_is_one_line_and_nothing_is_lost(fedcast, small_disk, tmp_path):
    words = ["run", *SMALL, "--set", "training.rounds=60", "--workers", 1]
    code, _, err = fedcast(*words, "--out", small_disk)
    assert code == 2
    lines = [line for line in without_notes(err) if line.startswith("fedcast:")]
    assert len(lines) == 1
    assert "No space left on device" in lines[0]
    subprocess.run(["mount", "-o", "remount,size=50m", small_disk], check=True)
    assert fedcast(*words, "--out", small_disk)[0] == 0
    assert fedcast(*words, "--out", tmp_path / "roomy")[0] == 0
    histories = sorted((small_disk / "runs").glob("*/history.json"))
    assert len(histories) == 3
    for path in histories:
        assert path.read_bytes() == (tmp_path / "roomy" / path.relative_to(small_disk)).read_bytes()


def test_train_goes_on_and_starts_anew_when_asked(fedcast, tmp_path):
    code, out, _ = fedcast("train", "--preset", "digits", *SMALL, "--out", tmp_path)
    assert code == 0
    assert "after round 3" in out
    (folder,) = Path(tmp_path).iterdir()
    history = (folder / "history.json").read_bytes()
    assert fedcast("train", "--preset", "digits", *SMALL, "--out", tmp_path, "--no-resume")[0] == 0
    assert (folder / "history.json").read_bytes() == history
    assert (folder / "log.txt").read_text().count("finished") == 2
