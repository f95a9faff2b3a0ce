"""Another target or fit trains nothing again; anything that acts on training does."""

import pytest

from fedcast import load_run, run_scenario, with_overrides
from fedcast.runs import reuse, store


@pytest.fixture(scope="module")
def first(small, tmp_path_factory):
    """A finished run, in a store of its own."""
    return run_scenario(small, tmp_path_factory.mktemp("store"))


@pytest.mark.parametrize(
    "changes",
    [
        {"rounds.target_accuracy": 0.8},
        {"rounds.target_accuracy": 0.7, "rounds.fit": "mnist"},
        {"rounds.fit": "paper-0.95", "rounds.form": "paper"},  # not predicted
        {"allocation.max_sharing_ratio": 0.4},  # the fixed ratio is 0.1
        {"training.checkpoint_every": 7, "rounds.target_accuracy": 0.75},
    ],
)
def test_what_acts_on_the_plan_alone_is_not_trained_again(small, first, monkeypatch, changes):
    def train(*_, **__):
        raise AssertionError("trained again")

    monkeypatch.setattr(store, "train_prepared", train)
    told = []
    folder = run_scenario(with_overrides(small, changes), first.parent, progress=told.append)
    assert folder != first
    run = load_run(folder)
    assert run.history == load_run(first).history
    assert told == [run.history.records[-1]]
    for key, value in changes.items():
        section, name = key.split(".")
        assert getattr(getattr(run.scenario, section), name) == value
    assert (folder / "checkpoint.pt").read_bytes() == (first / "checkpoint.pt").read_bytes()
    assert "has the same training" in (folder / "log.txt").read_text()
    assert load_run(first.parent / run.history_from).history == run.history
    assert load_run(first).history_from is None


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1},
        {"training.learning_rate": 0.3},
        {"training.local_epochs": 2},
        {"training.algorithm": "fedprox"},
        {"training.rounds": 3},
        {"allocation.fixed.ratio": 0.3},
        {"devices.cycles_per_sample": 1e5},  # only the clock
        {"sharing.kind": "work_control"},
        {"data.partition": "dirichlet"},
    ],
)
def test_what_acts_on_training_is_trained(small, first, changes):
    prepared = store.prepare_run(with_overrides(small, changes))
    assert reuse.same_training(first.parent, reuse.training_key(prepared), store.versions()) is None


def test_another_version_of_a_package_trains_again(small, first):
    key = reuse.training_key(store.prepare_run(small))
    assert reuse.same_training(first.parent, key, store.versions()) is not None
    assert reuse.same_training(first.parent, key, {**store.versions(), "torch": "1.0"}) is None


def test_whoever_asks_trains_again(small, first, monkeypatch):
    called = []
    monkeypatch.setattr(store, "same_training", lambda *_: called.append(True))
    folder = run_scenario(with_overrides(small, {"rounds.target_accuracy": 0.6}), first.parent, reuse=False)
    assert not called
    assert load_run(folder).history_from is None
