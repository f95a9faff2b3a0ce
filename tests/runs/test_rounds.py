"""The study behind `fedcast fit-rounds`: its settings, its runs, their file, and the fit to them."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedcast.errors import FedcastError
from fedcast.registry import names
from fedcast.rounds import Conditions, load_fit
from fedcast.runs import (
    RunsFile,
    Setting,
    check_same_task,
    check_study,
    design,
    fit_study,
    ladder_of,
    read_runs,
    rounds_study,
    run_study,
    save_runs,
    study_task,
    train_scenario,
)
from fedcast.runs.rounds_design import LEVELS, scenario_of
from fedcast.scenario import with_overrides
from tests.runs.made_up_runs import made_up, rounds_to_085, small

STUDIES = Path(__file__).parents[2] / "studies" / "rounds" / "first"


@pytest.mark.parametrize(("dataset", "target"), [("mnist", 0.95), ("mnist", 0.97), ("digits", 0.85), ("digits", 0.9)])
def test_shipped_fits_come_from_the_stored_runs(dataset, target):
    """The table by hand from the raw accuracies, and the fit's prediction near the runs."""
    folder = STUDIES / dataset
    accuracies = json.loads((folder / "accuracy.json").read_text())
    rows, table = (
        list(csv.DictReader((folder / name).read_text().splitlines())) for name in ("runs.csv", f"table-{target}.csv")
    )
    assert len(table) == len(rows) == len(accuracies)
    for row, entry in zip(rows, table, strict=True):
        met = np.flatnonzero(np.array(accuracies[row["name"]]) >= target)
        assert int(entry["rounds"]) == (met[0] if len(met) else -1)
        assert float(entry["emd"]) == pytest.approx(float(row["emd_b"]))
    fit = load_fit(f"{dataset}-{target}")
    assert fit.runs["rounds"] == [float(entry["rounds"]) for entry in table]
    met = [entry for entry in table if int(entry["rounds"]) > 0 and entry["rule"] == "none"]
    model = fit.model("paper")
    log_error = [np.log(model.rounds(float(entry["emd"])) / int(entry["rounds"])) for entry in met]
    assert np.sqrt(np.mean(np.square(log_error))) < 0.4


# --- the settings


def test_more_runs_keep_those_before_and_fill_the_space():
    scenario = small()
    settings = design(scenario, 200)
    assert design(scenario, 40) == settings[:40]
    assert len({setting.seed for setting in settings}) == 200
    levels = np.array([setting.level for setting in settings])
    assert np.histogram(levels, bins=10, range=(0, 1))[0].min() >= 15, "20 in each tenth"
    assert {setting.local_epochs for setting in settings} == {1, 2, 3, 5, 8}
    assert {setting.learning_rate for setting in settings} == {0.05, 0.1, 0.2}
    own = [setting for setting in settings if (setting.local_epochs, setting.learning_rate) == (5, 0.1)]
    assert 30 <= len(own) <= 50, "for forms of skew alone"
    without = [setting for setting in settings if setting.rule == "none"]
    assert 50 <= len(without) <= 70
    assert all((setting.sharing_ratio == 0) == (setting.rule == "none") for setting in settings)
    shared = [setting.sharing_ratio for setting in settings if setting.sharing_ratio]
    assert min(shared) >= 0.02
    assert max(shared) <= 1
    assert np.median(shared) == pytest.approx(np.sqrt(0.02), rel=0.3), "even in logarithms"


@pytest.mark.parametrize("partition", names("partition"))
def test_every_kind_of_partition_has_valid_settings(partition):
    scenario = small(f"data.partition={partition}")
    for setting in design(scenario, 20, num_classes=4, rates=[0.3], epochs=[2], rules=["daca"]):
        made = scenario_of(scenario, setting)
        assert (made.seed, made.clustering.rule, made.data.partition) == (setting.seed, "daca", partition)
        assert (made.training.local_epochs, made.training.learning_rate) == (2, 0.3)
        assert made.clustering.sharing_ratio == setting.sharing_ratio
        if partition in LEVELS:
            assert getattr(made.data.options("partition"), LEVELS[partition].option) == setting.level
        if partition == "shards":
            assert setting.level <= 4
    assert (setting.level is None) == (partition not in LEVELS)


def test_runs_with_more_epochs_have_fewer_rounds():
    scenario = small("training.rounds=60", "training.local_epochs=4")
    rounds = [scenario_of(scenario, Setting(0.5, "none", 0, epochs, 0.1, 0)).training.rounds for epochs in (1, 4, 16)]
    assert rounds == [120, 60, 30]


def test_a_ladder_has_the_target_and_others_around_it():
    assert ladder_of(0.85) == (0.55, 0.662, 0.745, 0.805, 0.85, 0.88)
    for target in (0.05, 0.3, 0.5, 0.999):
        ladder = ladder_of(target)
        assert target in ladder
        assert list(ladder) == sorted(set(ladder))
        assert 0 < ladder[0] < ladder[-1] < 1


# --- training


def test_a_run_of_the_study_is_the_run_that_training_a_plan_gives():
    scenario, setting = small(), Setting(0.6, "blend", 0.3, 2, 0.15, 9)
    (run,) = run_study(scenario, [setting], top=1.0)
    fixed = {"allocation.method": "fixed", "allocation.fixed.ratio": 0.3, "allocation.max_sharing_ratio": 0.3}
    trained = train_scenario(with_overrides(scenario_of(scenario, setting), fixed))
    theirs = trained.history.column("accuracy")
    assert len(theirs) == 8, "4 rounds at 5 epochs are 7 at 2, and the untrained model"
    np.testing.assert_allclose(run.accuracies, theirs, atol=1e-5)
    assert run.emd == pytest.approx(trained.plan.emd_after)
    assert run.js == pytest.approx(trained.plan.js_after)
    own, after = trained.world.population.sizes, trained.shared.assignment.sizes
    assert run.steps == pytest.approx(sum(n * 2 * (m / 10 + 0.5) for n, m in zip(own, after, strict=True)) / own.sum())


def test_a_run_ends_when_it_meets_the_highest_target_and_one_that_fails_ends_no_other():
    settings = [Setting(0.2, "none", 0, 5, rate, 3) for rate in (0.2, 1e10, 0.1)]
    seen = []
    runs = run_study(small(), settings, top=0.3, finished=lambda setting, run: seen.append((setting, run)))
    assert [run.setting for run in runs] == [settings[0], settings[2]]
    assert [setting for setting, _ in seen] == settings
    assert "diverged" in seen[1][1]
    for run in runs:
        assert run.accuracies[-1] >= 0.3 > max(run.accuracies[:-1])
        assert run.rounds_to(0.3) == (len(run.accuracies) - 1, True)
        assert run.rounds_to(0.99) == (len(run.accuracies) - 1, False)


def test_what_cannot_be_trained_is_an_error_before_any_run():
    with pytest.raises(FedcastError, match="no samples to load"):
        check_study(small("data.dataset=synthetic"))
    with pytest.raises(FedcastError, match="at least 16×16"):
        check_study(small("training.model=cnn"))


# --- the fit


def test_the_fit_finds_the_law_and_counts_runs_that_did_not_meet_the_target_as_censored(monkeypatch):
    monkeypatch.setattr(rounds_study, "_BOOTSTRAP", 2)
    scenario = small()
    runs = [made_up(setting, noise=0.05, rounds=25) for setting in design(scenario, 120)]
    made = fit_study(runs, scenario, {"data.dataset": "digits"}, ladder_of(0.85), "mine")
    met = sum(max(run.accuracies) >= 0.85 for run in runs)
    assert made.met[0.85] == met
    assert 60 < met < 110, "some are censored"
    law = made.fit.law(0.85)
    at = Conditions([0.2, 1.0, 1.4], [24.0, 40.0, 64.0], [0.2, 0.1, 0.05])
    truth = [rounds_to_085(*point) for point in zip(*at[:3], strict=True)]
    np.testing.assert_allclose(law.rounds(at), truth, rtol=0.1)
    # Beyond the end of all runs: only censored ones say that it takes longer.
    slow = 1.2, 16.0, 0.1
    assert rounds_to_085(*slow) > 40
    alone = fit_study([run for run in runs if run.rounds_to(0.85)[1]], scenario, {}, ladder_of(0.85), "x").fit.law(0.85)
    assert alone.rounds(Conditions(*slow)) < 0.95 * law.rounds(Conditions(*slow)) < rounds_to_085(*slow)
    assert made.held_out.median < 0.1
    assert made.fit.domain.values["training.local_epochs"] == (1, 2, 3, 5, 8)
    assert made.fit.runs["rounds_to_0.85"].count(-1.0) == len(runs) - met
    assert set(made.fit.models) == {"paper", "theory", "extended"}
    own = [run for run in runs if (run.setting.local_epochs, run.setting.learning_rate) == (5, 0.1)]
    assert made.fit.models["theory"].skew_range[1] == max(run.emd for run in own if run.rounds_to(0.85)[1])


def test_too_few_points_are_refused_with_what_there_is(monkeypatch):
    monkeypatch.setattr(rounds_study, "_BOOTSTRAP", 2)
    scenario = small()
    settings = design(scenario, 300)
    own = [setting for setting in settings if (setting.local_epochs, setting.learning_rate) == (5, 0.1)]
    with pytest.raises(
        FedcastError, match=r"0.85 for rounds.target_accuracy: 7 of 8 runs met it .*expected 13 at least"
    ):
        fit_study([made_up(setting) for setting in settings[:8]], scenario, {}, ladder_of(0.85), "x")
    never = [replace(made_up(setting), accuracies=(0.1, 0.4)) for setting in settings[:20]]
    with pytest.raises(FedcastError, match=r"0 of 20 runs met it \(best 0.400\); lower it, add runs"):
        fit_study(never, scenario, {}, ladder_of(0.85), "x")
    # Five runs at the scenario's own epochs and rate, many others.
    few = [*own[:5], *(setting for setting in settings if setting not in own)]
    made = fit_study([made_up(setting) for setting in few], scenario, {}, ladder_of(0.85), "x")
    assert set(made.fit.models) == {"theory"}
    assert "at 5 different skews, form 'paper' has 3 parameters; expected 6" in made.left_out["paper"]


def test_runs_out_and_in(tmp_path):
    settings = design(small("data.partition=natural"), 5)
    content = RunsFile({"data.dataset": "digits"}, 0.9, tuple(made_up(setting) for setting in settings))
    save_runs(content, tmp_path / "new" / "runs.json")
    assert read_runs(tmp_path / "new" / "runs.json") == content
    for text in ("single_class_share,rule\n0,none\n", "[]", '{"version": 1}', '{"version": 0}'):
        (tmp_path / "old.csv").write_text(text)
        with pytest.raises(FedcastError, match=r"old.csv: not a file of runs of this version of `fedcast fit-rounds`"):
            read_runs(tmp_path / "old.csv")


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("training.batch_size=20", "training.batch_size is 10, here 20"),
        ("training.model=small_cnn", "training.model is mlp, here small_cnn"),
        ("training.momentum=0.5", "training.momentum is default, here 0.5"),
        ("data.partition=dirichlet", "data.partition is label_skew, here dirichlet"),
        ("data.num_users=30", "data.num_users is 12, here 30"),
    ],
)
def test_runs_of_another_task_are_an_error_that_names_what_differs(tmp_path, change, fault):
    dataset = check_study(small())
    made = RunsFile(study_task(small(), dataset), 0.88, ())
    # What runs vary is no difference.
    same = small("training.learning_rate=0.4", "training.local_epochs=2", "data.label_skew.single_class_share=0.1")
    check_same_task(made, study_task(same, dataset), 0.85, tmp_path)
    with pytest.raises(FedcastError, match=f"made for another task: {fault}; name another file of runs"):
        check_same_task(made, study_task(small(change), dataset), 0.85, tmp_path)
    with pytest.raises(FedcastError, match=r"its runs end at an accuracy of 0.88, here the highest target is 0.9"):
        check_same_task(made, study_task(small(), dataset), 0.9, tmp_path)
    other = replace(dataset, labels=dataset.labels[::-1].copy())
    with pytest.raises(FedcastError, match=r"SHA-256 of the dataset is \w{12}…, here \w{12}…"):
        check_same_task(made, study_task(small(), other), 0.85, tmp_path)
