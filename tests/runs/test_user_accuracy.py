"""Accuracies of users in run folders, comparisons, reports and packs."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from fedcast.cli.app import app
from fedcast.data import scaled
from fedcast.errors import FedcastError
from fedcast.report import export_report, write_report
from fedcast.runs import (
    compare,
    comparison_table,
    load_run,
    prepare_run,
    run_scenario,
    runs_table,
    train_scenario,
    user_scores,
)
from fedcast.runs.packing import pack, unpack
from fedcast.runs.store import run_key
from fedcast.runs.trackers import results
from fedcast.runs.user_accuracy import FINE_TUNED
from fedcast.scenario import load_scenario, with_overrides
from fedcast.training.packed import train_pack

SMALL = [
    "data.num_users=12", "training.model=mlp", "training.rounds=3", "training.local_epochs=1", "training.device=cpu",
    "clustering.rule=gain", "allocation.jfvo.steps=3", "training.fine_tune_epochs=2",
]  # fmt: skip


def scenario(*changes):
    return load_scenario(base="digits", overrides=[*SMALL, *changes])


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """With and without sharing, fine-tuned and not."""
    store = tmp_path_factory.mktemp("tuned")
    wanted = {
        (rule, epochs): scenario(f"clustering.rule={rule}", f"training.fine_tune_epochs={epochs}")
        for rule in ("gain", "none")
        for epochs in (2, 0)
    }
    return {key: load_run(run_scenario(one, store)) for key, one in wanted.items()}


def test_fine_tuning_leaves_the_rounds_as_they_are(runs):
    tuned, plain = runs["gain", 2], runs["gain", 0]
    assert tuned.history.records == plain.history.records
    assert user_scores(tuned)["own_accuracy"] == pytest.approx(user_scores(plain)["own_accuracy"], abs=1e-12)
    assert list(user_scores(plain)) == ["user", "own_accuracy"]


def test_own_accuracy_weighs_classes_as_the_user_holds_them(runs):
    """User by user and class by class, in plain Python."""
    run = runs["gain", 0]
    last, classes = run.history.records[-1], run.tables["classes"]
    for user, found in enumerate(user_scores(run)["own_accuracy"]):
        held = [classes[f"before_{label}"][user] for label in range(10)]
        right = sum(count * accuracy for count, accuracy in zip(held, last.class_accuracy, strict=True))
        assert found == pytest.approx(right / sum(held))
    assert np.mean(user_scores(run)["own_accuracy"]) == pytest.approx(last.user_accuracy)


def test_a_data_frame_of_users(runs):
    frame = runs["gain", 2].users_to_pandas()
    assert frame.shape == (12, 3)
    assert frame.index.name == "user"
    assert frame["own_accuracy"].mean() == pytest.approx(runs["gain", 2].history.records[-1].user_accuracy)
    # What a user fine-tunes for is its own labels, and it forgets others.
    assert frame["fine_tuned_own_accuracy"].mean() > frame["own_accuracy"].mean()
    assert frame["fine_tuned_accuracy"].mean() < frame["fine_tuned_own_accuracy"].mean()


def test_users_without_samples_have_no_accuracy(runs):
    run = runs["gain", 0]
    table = run.tables["classes"]
    nobody = {name: [0, *values[1:]] if name.startswith("before_") else values for name, values in table.items()}
    bare = replace(run)
    bare.__dict__["tables"] = run.tables | {"classes": nobody}
    assert user_scores(bare)["own_accuracy"][0] is None
    assert user_scores(bare)["own_accuracy"][1:] == user_scores(run)["own_accuracy"][1:]
    older = replace(run, history=replace(run.history, records=[replace(run.history.records[-1], class_accuracy=())]))
    assert list(user_scores(older)) == ["user"]


def test_comparisons_have_means_and_the_worst_tenth(runs):
    tuned = [runs["none", 2], runs["gain", 2]]
    rows, table = compare(tuned), comparison_table(compare(tuned))
    for run, row, place in zip(tuned, rows, range(2), strict=True):
        frame = run.users_to_pandas()
        own = frame["fine_tuned_own_accuracy"]
        expected = own.mean(), own.min(), frame["fine_tuned_accuracy"].mean()  # one of twelve is the worst tenth
        assert [row.measures[name].mean for name in FINE_TUNED] == pytest.approx(expected)
        assert [table[name][place] for name in FINE_TUNED] == pytest.approx(expected)
        assert table["user_accuracy"][place] == pytest.approx(frame["own_accuracy"].mean())
        assert results(run)["score/fine_tuned_accuracy"] == pytest.approx(expected[2])
    assert runs_table(tuned)["fine_tuned_accuracy"] == pytest.approx(table["fine_tuned_accuracy"])
    plain = [runs["none", 0], runs["gain", 0]]
    assert not {*FINE_TUNED} & {*comparison_table(compare(plain)), *runs_table(plain)}


def test_reports_draw_the_distribution_over_users(runs, tmp_path):
    page = write_report([runs["none", 2], runs["gain", 2]], tmp_path / "tuned.html").read_text(encoding="utf-8")
    titles = ("own labels", "own labels, after fine-tuning", "all labels, after fine-tuning")
    for text in (*(f"Accuracy of users, {title}<" for title in titles), ">fine-tuned worst<"):
        assert text in page
    plain = write_report([runs["none", 0], runs["gain", 0]], tmp_path / "plain.html").read_text(encoding="utf-8")
    assert "Accuracy of users, own labels" in plain
    assert "fine-tuning" not in plain
    files = export_report([runs["none", 2], runs["gain", 2]], tmp_path / "export", ["csv", "svg"])
    assert {f"users_{name}.svg" for name in list(user_scores(runs["gain", 2]))[1:]} <= {file.name for file in files}
    head = (tmp_path / "export" / "users.csv").read_text(encoding="utf-8").splitlines()[0]
    assert head.endswith("own_accuracy,fine_tuned_own_accuracy,fine_tuned_accuracy")


def test_a_packed_run_fine_tunes_too(runs, tmp_path):
    (name,) = pack([runs["gain", 2].scenario], tmp_path / "store", tmp_path / "pack")
    assert train_pack(tmp_path / "pack", tmp_path / "done")
    assert unpack(tmp_path / "done", tmp_path / "store") == [name]
    assert load_run(tmp_path / "store" / name).history == runs["gain", 2].history


@pytest.fixture(scope="module")
def natural(tmp_path_factory):
    """Images of six owners, a fifth of them for the test."""
    rng, file = np.random.default_rng(0), tmp_path_factory.mktemp("owners") / "mine.npz"
    labels, owners = rng.integers(0, 3, 240), rng.integers(0, 6, 240)
    images = rng.random((240, 8, 8)).astype(np.float32) * 0.3 + labels[:, None, None] / 4
    np.savez_compressed(file, inputs=images, labels=labels, groups=owners)
    # User k is the k-th of five owners; the sixth is left out.
    data = ["data.dataset=file", f"data.file={file}", "data.partition=natural", "data.num_users=5"]
    return [
        *data,
        "training.bits_per_weight=32",
        "clustering.rule=none",
        "rounds.target_accuracy=0.95",
        "rounds.fit=mnist",
    ]


@pytest.mark.parametrize("users", [5, 2])
def test_natural_owners_are_scored_on_their_own_test_samples(natural, users, tmp_path):
    """Five of six owners, or all six joined to two users."""
    joined = ["data.num_users=2", "data.natural.join=true"] if users == 2 else []
    run = train_scenario(scenario(*natural, *joined, "training.user_test=own", "training.fine_tune_epochs=0"))
    dataset, held = run.world.population.dataset, run.world.population.assignment
    inputs = torch.from_numpy(scaled(dataset.test_inputs, dataset.scale))
    right = run.model(inputs).argmax(1).numpy() == dataset.test_labels
    found = run.history.users["own_accuracy"]
    for user in range(users):
        owners = np.unique(dataset.groups[held.of(user)])
        assert len(owners) == (3 if joined else 1)
        assert found[user] == pytest.approx(right[np.isin(dataset.test_groups, owners)].mean())
    (name,) = pack([run.world.scenario], tmp_path / "store", tmp_path / "pack")
    assert train_pack(tmp_path / "pack", tmp_path / "done")
    unpack(tmp_path / "done", tmp_path / "store")
    stored = load_run(tmp_path / "store" / name)
    assert stored.history == run.history
    assert user_scores(stored)["own_accuracy"] == found
    page = write_report(stored, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "the accuracy on the user&#x27;s own test samples" in page or "the user's own test samples" in page


def test_users_without_owners_cannot_be_scored_so():
    with pytest.raises(FedcastError, match="invalid value 'own' for training.user_test: expected data.partition = nat"):
        prepare_run(scenario("training.user_test=own"))


def test_only_fine_tuning_that_is_done_decides_a_run():
    plain = scenario("training.fine_tune_epochs=0")
    assert run_key(with_overrides(plain, {"training.fine_tune_learning_rate": 0.5})) == run_key(plain)
    tuned = {run_key(scenario(f"training.fine_tune_learning_rate={rate}")) for rate in ("unset", 0.1, 0.2)}
    assert len(tuned | {run_key(plain)}) == 4


def test_train_says_what_fine_tuning_brought(runs):
    run = runs["gain", 2]
    changes = [word for change in SMALL for word in ("--set", change)]
    said = CliRunner().invoke(app, ["train", "--preset", "digits", *changes, "--out", str(run.folder.parent)])
    assert said.exit_code == 0, said.output
    own = run.users_to_pandas()["fine_tuned_own_accuracy"].mean()
    assert f"after fine-tuning for 2 epochs {own:.4f} (worst tenth" in said.output
