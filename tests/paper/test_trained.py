"""Runs as figures need them: found in the archive, in the store, or trained, and never twice."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from fedcast.errors import FedcastError
from fedcast.runs import load_run, run_folder, run_scenario
from fedcast.scenario import load_scenario
from fedcast_paper import Job
from fedcast_paper.over_seeds import curve_rows, differences, mean_loss, mean_of
from fedcast_paper.trained import (
    CURVES,
    Trained,
    failures,
    finished,
    load_trained,
    save_trained,
    trained_runs,
    unfinished,
)
from tests.paper.given import FACTS

TINY = ["data.num_users=8", "training.rounds=2", "training.model=mlp", "allocation.method=fixed"]


def scenarios(*seeds):
    return [load_scenario(base="digits", overrides=[*TINY, f"seed={seed}"]) for seed in seeds]


def run_of(accuracies, seed=0, **facts):
    scenario = load_scenario(overrides=[f"seed={seed}"])
    known = {"sharing_s": 5.0, "download_s": 1.0, "compute_s": 2.0, "upload_s": 3.0, **facts}
    losses = [1 - value for value in accuracies]
    local = [None, *losses[1:]]
    return Trained(scenario, known, {"accuracy": accuracies, "test_loss": losses, "train_loss": local})


def test_what_is_missing_is_trained_kept_and_found_again(tmp_path, monkeypatch):
    job = Job("full", store=tmp_path / "runs", archive=tmp_path / "archive")
    asked = scenarios(0, 1, 0)
    first = trained_runs(job, asked)
    assert [run.seed for run in first] == [0, 1]
    home = load_run(run_scenario(asked[0], tmp_path / "runs"))
    assert first[0].curve("accuracy") == pytest.approx(home.history.column("accuracy"), rel=1e-5)
    assert first[0].facts["emd_after"] == pytest.approx(home.facts.emd_after, rel=1e-5)
    monkeypatch.setattr("fedcast_paper.trained._train", lambda *_: pytest.fail("it was trained again"))
    from_archive = trained_runs(replace(job, store=tmp_path / "elsewhere"), asked)
    assert [run.curves for run in from_archive] == [run.curves for run in first]
    assert trained_runs(replace(job, archive=None), asked[:1])[0].curves == first[0].curves


def test_finished_runs_only(tmp_path):
    job = Job("full", store=tmp_path / "runs", only_finished=True)
    asked = scenarios(0, 1)
    run_scenario(asked[1], tmp_path / "runs")
    assert [run.seed for run in trained_runs(job, asked)] == [1]
    assert unfinished(job, asked * 2) == asked[:1]
    assert finished(job, asked * 2) == asked[1:]
    assert trained_runs(job, asked[:1], some=False) == []
    with pytest.raises(FedcastError, match=f"no training run of this result is finished in {job.store}; omit"):
        trained_runs(job, asked[:1])


def test_a_run_that_fails_is_left_out_and_its_reason_kept(tmp_path):
    job = Job("full", store=tmp_path / "runs", archive=tmp_path / "archive")
    good, other = scenarios(0, 1)
    large = ("clustering.rule=none", "training.learning_rate=1e10")
    bad = load_scenario(base="digits", overrides=[*TINY, *large])
    assert [run.scenario for run in trained_runs(job, [good, bad])] == [good]
    (failure,) = failures(job, [good, bad, other, bad])
    assert failure.scenario == bad
    assert "training diverged" in failure.reason
    # The archive is enough, and a run that finishes later is no failure any longer.
    away = replace(job, store=tmp_path / "elsewhere", only_finished=True)
    assert failures(away, [bad]) == [failure]
    assert trained_runs(away, [good, bad])[0].scenario == good
    name = run_folder(tmp_path, bad).name
    for broken in ("", "{}", "[]", "\x00"):
        (tmp_path / "archive" / "failed" / f"{name}.json").write_text(broken)
        with pytest.raises(FedcastError, match=f"failed/{name}.json: invalid file of a failed run"):
            failures(away, [bad])
    (tmp_path / "archive" / f"{name}.json").write_text("{}")
    assert failures(away, [bad]) == []


def test_progress_counts_rounds_over_all_runs(tmp_path):
    seen = []
    trained_runs(Job("full", store=tmp_path, progress=lambda *state: seen.append(state)), scenarios(0, 1))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_small_file_says_what_was_run(tmp_path):
    job = Job("full", store=tmp_path / "runs", archive=tmp_path / "archive")
    (scenario,) = scenarios(3)
    trained_runs(job, [scenario])
    path = tmp_path / "archive" / f"{run_folder(tmp_path, scenario).name}.json"
    content = json.loads(path.read_text())
    changes = ["seed=3", "data.num_users=8", "training.model=mlp", "training.rounds=2"]
    assert {f"{name}={value}" for name, value in content["changes"].items()} >= set(changes)
    assert content["made_by"]["torch"]
    assert path.stat().st_size < 4000


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (dict.clear, "KeyError: 'facts'"),
        (lambda run: run.update(curves=[]), "TypeError"),
        (lambda run: run["changes"].update(seed=4), "of another run: seed is 4, expected 3"),
        (lambda run: run["changes"].pop("data.num_users"), "of another run: data.num_users is not set, expected 8"),
        (
            lambda run: run["changes"].update({"training.momentum": 0.9}),
            "of another run: training.momentum is 0.9, expected not",
        ),
        (lambda run: run["facts"].pop("upload_s"), "KeyError: 'upload_s'"),
        (lambda run: run["facts"].update(upload_s=math.nan), "facts.upload_s is nan, expected a number"),
        (lambda run: run["facts"].update(upload_s=-5), "facts.upload_s is -5, expected a number of 0 or more"),
        (lambda run: run["facts"].update(upload_s=10**400), "OverflowError"),
        (lambda run: run["facts"].update(local_epochs="5"), "facts.local_epochs is '5', expected a number"),
        (lambda run: run.update(made_by=["torch"]), "AttributeError"),
        (lambda run: run.update(made_by={"torch": 2}), "made_by is {'torch': 2}, expected names with texts"),
        (lambda run: run["curves"].update(noisy_accuracy=[0.5, 0.6, 70]), "curves.noisy_accuracy has a value outside"),
        (
            lambda run: run["curves"].update(worst_accuracy=[0.5, -0.1, 0.7]),
            "curves.worst_accuracy has a value outside",
        ),
        (lambda run: run["facts"].update(heads=True), "facts.heads is True, expected a number"),
        (lambda run: run["curves"]["accuracy"].pop(), "curves.accuracy has 2 values, expected 3"),
        (lambda run: run["curves"]["accuracy"].__setitem__(2, 97.5), "curves.accuracy has a value outside of 0 to 1"),
        (lambda run: run["curves"]["test_loss"].__setitem__(1, None), "curves.test_loss has an unknown value"),
        (lambda run: run["curves"]["drift"].__setitem__(1, "0.5"), "curves.drift has a value that is neither a number"),
    ],
)
def test_a_damaged_run_file_is_named_with_the_reason(tmp_path, spoil, reason):
    job = Job("full", store=tmp_path / "runs", archive=tmp_path / "archive")
    (scenario,) = scenarios(3)
    path = tmp_path / "archive" / f"{run_folder(tmp_path, scenario).name}.json"
    save_trained(Trained(scenario, FACTS, {name: [0.5, 0.6, 0.7] for name in CURVES}), path)
    content = json.loads(path.read_text())
    assert trained_runs(job, [scenario])[0].curve("accuracy") == [0.5, 0.6, 0.7]
    spoil(content)
    path.write_text(json.dumps(content))
    expected = f"{path}: invalid run file ({reason}"
    with pytest.raises(FedcastError, match=re.escape(expected) + ".*; restore it, for example by git, or delete it"):
        trained_runs(job, [scenario])


def test_a_run_file_of_any_nesting_is_named(tmp_path):
    path = tmp_path / "run.json"
    path.write_text("[" * 200_000)
    with pytest.raises(FedcastError, match=r"run.json: invalid run file \(RecursionError"):
        load_trained(path, scenarios(3)[0])


def test_a_run_file_with_former_names_of_parameters_is_read(tmp_path):
    alpha = ["data.partition=dirichlet", "data.dirichlet.alpha=0.5"]
    job = Job("full", store=tmp_path / "runs", archive=tmp_path / "archive")
    scenario = load_scenario(base="digits", overrides=[*TINY, *alpha])
    path = tmp_path / "archive" / f"{run_folder(tmp_path, scenario).name}.json"
    save_trained(Trained(scenario, FACTS, {name: [0.5, 0.6, 0.7] for name in CURVES}), path)
    path.write_text(path.read_text().replace("data.dirichlet.alpha", "data.alpha"))
    assert trained_runs(job, [scenario])[0].accuracy == 0.7
    path.write_text(path.read_text().replace('"data.alpha": 0.5', '"data.alpha": 0.6'))
    with pytest.raises(FedcastError, match="of another run: data.dirichlet.alpha is 0.6, expected 0.5"):
        trained_runs(job, [scenario])


def test_rounds_and_seconds_to_a_target():
    run = run_of([0.1, 0.5, 0.9, 0.8, 0.9])
    assert (run.rounds_to(0.9), run.seconds_to(0.9)) == (2, 5.0 + 2 * 6.0)
    assert (run.rounds_to(0.95), run.seconds_to(0.95)) == (None, None)
    assert run.accuracy == 0.9
    assert mean_loss(run) == pytest.approx((0.5 + 0.1 + 0.2 + 0.1) / 4)


def test_intervals_are_those_of_scipy():
    values = [0.91, 0.94, 0.90, 0.93, 0.95]
    low, high = stats.t.interval(0.95, 4, loc=np.mean(values), scale=stats.sem(values))
    found = mean_of(values)
    assert (found.mean - found.half_width, found.mean + found.half_width) == pytest.approx((low, high))
    assert mean_of([1.0]).half_width is None


def test_differences_are_of_the_same_seed():
    first = [run_of([0.0, 0.5], seed=0), run_of([0.0, 0.7], seed=1), run_of([0.0, 0.2], seed=4)]
    second = [run_of([0.0, 0.6], seed=1), run_of([0.0, 0.1], seed=0)]
    assert differences(first, second, lambda run: run.accuracy) == pytest.approx([0.4, 0.1])
    assert differences(first, second, lambda run: run.rounds_to(0.55)) == pytest.approx([0.0])


def test_courses_are_means_over_runs_and_thinned():
    runs = [run_of([0.0, *np.linspace(0.1, top, 100).tolist()], seed=seed) for seed, top in enumerate((0.8, 0.9))]
    rows = curve_rows(runs, rule="daca")
    assert [row["round"] for row in rows] == list(range(0, 101, 2))
    assert rows[0]["local_loss"] is None
    assert rows[-1]["accuracy"] == pytest.approx(0.85)
    assert rows[-1]["loss"] == rows[-1]["local_loss"] == pytest.approx(0.15)
