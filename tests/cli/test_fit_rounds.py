"""The command `fedcast fit-rounds`."""

import pytest
from tests.runs.made_up_runs import SMALL, made_up, small

from fedcast.cli import INTERRUPTED
from fedcast.rounds import load_fit
from fedcast.runs import RunsFile, check_study, ladder_of, read_runs, rounds_study, save_runs, study_task


@pytest.fixture
def without_training(monkeypatch):
    """Runs are made up instead of trained, and counted."""
    trained = []

    def fake(_content, setting, _top, _data_dir):
        trained.append(setting)
        return made_up(setting, noise=0.05)

    monkeypatch.setattr(rounds_study, "_train", fake)
    monkeypatch.setattr(rounds_study, "_BOOTSTRAP", 2)
    return trained


def words(*more):
    return ["fit-rounds", "--preset", "digits", *(part for word in SMALL for part in ("--set", word)), *more]


def test_the_command_trains_only_what_is_missing_and_says_what_it_found(
    fedcast, without_training, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    code, out, _ = fedcast(*words("--count", "40", "--out", "mine.json"))
    assert code == 0
    assert len(without_training) == 40
    said = " ".join(out.split())
    assert "runs in partition label_skew, to 0.55, 0.662, 0.745, 0.805, 0.85, 0.88" in said
    assert "40 runs to train; 0 runs in" in said
    assert "1 of 40, about 0 s left" in said
    assert "of 40 runs met 0.85; the others count as censored" in said
    assert "rounds of runs that were left out of the fit: median error" in said
    assert "the fit is for digits in partition label_skew, average EMD" in said
    code, out, _ = fedcast(*words("--count", "50", "--out", "mine.json"))
    assert (code, len(without_training)) == (0, 50), "ten more"
    assert len(read_runs(tmp_path / "mine.runs.json").runs) == 50
    fit = load_fit(tmp_path / "mine.json")
    assert len(fit.runs["emd"]) == 50
    assert fit.targets == ladder_of(0.85)
    assert fit.domain.values["training.model"] == ("mlp",)
    code, out, _ = fedcast(
        *words("--count", "50", "--out", "few.json", "--runs", "mine.runs.json", "--learning-rates", "0.1,0.2")
    )
    rates = load_fit(tmp_path / "few.json").domain.values["training.learning_rate"]
    assert (code, rates) == (0, (0.1, 0.2))


def test_an_interrupted_command_keeps_finished_runs(fedcast, without_training, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fake = rounds_study._train

    def interrupted(*arguments):
        if len(without_training) == 3:
            raise KeyboardInterrupt
        return fake(*arguments)

    monkeypatch.setattr(rounds_study, "_train", interrupted)
    code, _, err = fedcast(*words("--count", "20", "--out", "mine.json"))
    assert code == INTERRUPTED
    assert "what is finished is kept" in err
    assert not (tmp_path / "mine.json").exists()
    assert [run.setting for run in read_runs(tmp_path / "mine.runs.json").runs] == without_training
    monkeypatch.setattr(rounds_study, "_train", fake)
    assert fedcast(*words("--count", "20", "--out", "mine.json"))[0] == 0
    assert len(without_training) == 20


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        (["--targets", "0.7,0.8"], "expected two or more, from below to above rounds.target_accuracy = 0.85"),
        (["--targets", "0.8,1.5"], "invalid value '0.8,1.5' for --targets: expected numbers > 0 and < 1"),
        (["--epochs", "1,2.5"], "invalid value '1,2.5' for --epochs: expected whole numbers > 0"),
        (["--learning-rates", "0,1"], "invalid value '0,1' for --learning-rates: expected numbers > 0"),
        (["--count", "5000"], "invalid value 5000 for --count: expected 1 to 1024"),
        (["--rules", "none,dacca"], "'dacca' for clustering.rule"),
        (["--runs", "runs.csv"], "--runs runs.csv: JSON is no table"),
        (["--runs", "other.json", "--set", "training.batch_size=7"], "training.batch_size is 10, here 7"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_trained(
    fedcast, without_training, tmp_path, monkeypatch, changes, fault
):
    monkeypatch.chdir(tmp_path)
    save_runs(RunsFile(study_task(small(), check_study(small())), 0.9, ()), tmp_path / "other.json")
    code, _, err = fedcast(*words(*changes))
    assert (code, fault in err) == (2, True), err
    assert not without_training


def test_fit_rounds_from_training_to_plan(fedcast, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rounds_study, "_BOOTSTRAP", 10)
    common = [part for word in SMALL[:3] for part in ("--set", word)]
    training = [
        "--set",
        "training.rounds=10",
        "--set",
        "rounds.target_accuracy=0.6",
        "--set",
        "training.local_epochs=5",
    ]
    study = ["--count", "14", "--epochs", "5", "--targets", "0.5,0.65", "--workers", "2", "--out", "mine.json"]
    code, out, err = fedcast("fit-rounds", "--preset", "digits", *common, *training, *study)
    assert code == 0, err
    assert "of 14 runs met 0.6;" in out
    law = ["--set", "rounds.fit=mine.json", "--set", "rounds.form=law"]
    law += ["--set", "clustering.rule=none"]
    code, out, err = fedcast("plan", "--preset", "digits", *common, *training, *law)
    assert code == 0, err
    said = " ".join(out.split())
    assert "fit mine.json, form law" in said
    assert "was made for another task" not in said
    other = ["--set", "training.batch_size=20"]
    code, _, err = fedcast("validate", "--preset", "digits", *common, *training, *law, *other)
    assert code == 0
    assert "fit mine was made for another task: training.batch_size = 20, its runs have 10" in err
