import csv
import json
from pathlib import Path

import numpy as np
import pytest

from fedcast.cli.app import run
from fedcast.errors import FedcastError
from fedcast.rounds import load_fit
from fedcast.runs.rounds_study import RoundsRun, fit_runs, load_rounds_runs, run_rounds_grid, save_rounds_runs
from fedcast.scenario import load_scenario

STUDIES = Path(__file__).parents[2] / "studies" / "rounds" / "first"


@pytest.mark.parametrize(("dataset", "target"), [("mnist", 0.95), ("mnist", 0.97), ("digits", 0.85), ("digits", 0.9)])
def test_shipped_fits_come_from_the_stored_runs(dataset, target):
    """The table by hand from the raw accuracies, and the fit's prediction near the runs."""
    folder = STUDIES / dataset
    accuracies = json.loads((folder / "accuracy.json").read_text())
    table = load_rounds_runs(folder / f"table-{target}.csv")
    with (folder / "runs.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(table) == len(rows) == len(accuracies)
    for row, entry in zip(rows, table, strict=True):
        met = np.flatnonzero(np.array(accuracies[row["name"]]) >= target)
        assert entry.rounds == (met[0] if len(met) else -1)
        assert entry.emd == pytest.approx(float(row["emd_b"]))
    fit = load_fit(f"{dataset}-{target}")
    assert fit.runs["rounds"] == [float(entry.rounds) for entry in table]
    met = [entry for entry in table if entry.rounds > 0 and entry.rule == "none"]
    model = fit.model("paper")
    log_error = [np.log(model.rounds(entry.emd) / entry.rounds) for entry in met]
    assert np.sqrt(np.mean(np.square(log_error))) < 0.4


def runs(count=12, scale=20.0):
    skews = np.linspace(0.2, 1.5, count)
    return [
        RoundsRun(0.5, "none", 0.0, 0, skew, skew / 4, 0.0, round(scale / (3 - skew**2)), 0.98 - 0.02 * skew)
        for skew in skews
    ]


def test_runs_out_and_in(tmp_path):
    path = save_rounds_runs(runs(), tmp_path / "new" / "runs.csv")
    assert load_rounds_runs(path) == runs()


def test_the_grid_trains_at_every_share_of_users_with_one_class():
    scenario = load_scenario(base="digits", overrides=["data.num_users=10", "training.rounds=1"])
    even, single = run_rounds_grid(scenario, [0.0, 1.0], ["none"], [0])
    assert even.emd < 0.5 < 1.5 < single.emd


def test_a_target_that_is_not_met_is_refused():
    never = [RoundsRun(0.5, "none", 0.0, 0, 1.0, 0.2, 0.0, -1, 0.8)] * 6
    with pytest.raises(FedcastError, match=r"0 of 6 runs met it \(best 0.800\)"):
        fit_runs(never, 0.95, "x", dataset="mnist")


def test_fit_rounds_from_training_to_plan(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    common = ["--set", "data.num_users=20", "--set", "rounds.target_accuracy=0.8", "--set", "training.device=cpu"]
    common += ["--set", "allocation.method=fixed"]
    changes = ["model=mlp", "rounds=20", "local_epochs=3", "learning_rate=0.2"]
    training = [word for change in changes for word in ("--set", f"training.{change}")]
    words = ["fit-rounds", *common, *training, "--shares", "0,0.4,0.6,0.8", "--seeds", "1", "--runs", "runs.csv"]
    assert run([*words, "--out", "mine.json"]) == 0
    out = capsys.readouterr().out
    assert "share 0.8, daca" in out
    assert "paper: NMSE" in out
    assert len(load_rounds_runs(tmp_path / "runs.csv")) == 8
    assert run([*words, "--out", "again.json"]) == 0, "stored runs are read, not trained again"
    assert "share 0.8" not in capsys.readouterr().out
    assert (
        run(["plan", *common, "--set", "rounds.fit=mine.json", "--set", "data.label_skew.single_class_share=0.6"]) == 0
    )
    assert "fit mine.json" in " ".join(capsys.readouterr().out.split())


def test_bad_shares(capsys):
    assert run(["fit-rounds", "--shares", "0,x"]) == 2
    assert run(["fit-rounds", "--shares", "0,1.5"]) == 2
    assert "expected numbers from 0 to 1" in capsys.readouterr().err
