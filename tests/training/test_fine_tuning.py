"""Per-user accuracies and personalisation against a plain PyTorch loop."""

import copy
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fedcast.data import Assignment
from fedcast.errors import FedcastError, ScenarioError
from fedcast.scenario import load_scenario
from fedcast.training import RemoteUsers, TrainingSettings, build_model, load_history, train_remotely
from fedcast.training.engines.schedule import batches_of
from fedcast.training.history import mean_and_worst
from tests.training.conftest import federation, run

TUNED = {"fine_tune_epochs": 3, "fine_tune_learning_rate": 0.07, "rounds": 4}


def trained_model(outcome):
    model = build_model("mlp", (1, 8, 8), 4).double()
    with torch.no_grad():
        for weight, value in zip(model.parameters(), outcome.weights, strict=True):
            weight.copy_(value)
    return model


def accuracies(model, world, user):
    """On the user's own label distribution before sharing, and on the whole test set."""
    right = model(torch.from_numpy(world.dataset.test_inputs).double()).argmax(1).numpy() == world.dataset.test_labels
    labels = world.dataset.test_labels
    # A weight for every test sample, so that classes count as they do among the user's samples.
    weight = np.array([world.distributions[user, label] / (labels == label).sum() for label in labels])
    return float((weight * right).sum() / weight.sum()), float(right.mean())


@pytest.mark.parametrize("engine", ["loop", "stacked"])
@pytest.mark.parametrize("changes", [{}, {"momentum": 0.5, "weight_decay": 0.01, "clip_norm": 0.5}])
def test_against_a_plain_loop(engine, changes):
    """SGD on what each user held before sharing; user 3 received samples, which it does not use here."""
    world = federation()
    outcome = run(world, engine=engine, seed=5, **TUNED, **changes)
    first, found = trained_model(outcome), outcome.history.users
    own = replace(world.users, samples=world.users.samples, offsets=world.users.offsets)
    for user, size in enumerate(world.own_sizes.tolist()):
        if not size:
            assert [column[user] for column in found.values()] == [None] * 3
            continue
        assert found["own_accuracy"][user] == pytest.approx(accuracies(first, world, user)[0], abs=1e-12)
        model = copy.deepcopy(first)
        optimizer = torch.optim.SGD(
            model.parameters(), 0.07, momentum=changes.get("momentum", 0), weight_decay=changes.get("weight_decay", 0)
        )
        held = own.of(user)[:size]
        alone = replace(own, samples=held, offsets=np.where(np.arange(len(world.own_sizes) + 1) > user, size, 0))
        samples, shares = batches_of(alone, np.array([user]), 4, 3, seed=5, round_number=5)
        for batch, share in zip(samples[:, 0], shares[:, 0], strict=True):
            chosen = batch[share > 0]
            assert set(chosen) <= set(held)
            optimizer.zero_grad()
            inputs = torch.from_numpy(world.dataset.inputs[chosen]).double()
            F.cross_entropy(model(inputs), torch.from_numpy(world.dataset.labels[chosen])).backward()
            if "clip_norm" in changes:
                torch.nn.utils.clip_grad_norm_(model.parameters(), changes["clip_norm"])
            optimizer.step()
        expected = accuracies(model, world, user)
        assert found["fine_tuned_own_accuracy"][user] == pytest.approx(expected[0], abs=1e-12)
        assert found["fine_tuned_accuracy"][user] == pytest.approx(expected[1], abs=1e-12)
    assert found["fine_tuned_own_accuracy"] != found["own_accuracy"]


def test_users_with_test_samples_of_their_own_are_scored_by_these():
    """Users 0, 1 and 3 have some; the others are scored by their labels."""
    world = federation()
    tests = Assignment(np.array([4, 7, 0, 1, 19]), np.array([0, 2, 3, 3, 5, 5, 5]))
    outcome = run(replace(world, own_tests=tests), **TUNED)
    by_labels, model = run(world, **TUNED), trained_model(outcome)
    right = model(torch.from_numpy(world.dataset.test_inputs).double()).argmax(1).numpy() == world.dataset.test_labels
    expected = list(by_labels.history.users["own_accuracy"])
    expected[0], expected[1], expected[3] = right[[4, 7]].mean(), right[[0]].mean(), right[[1, 19]].mean()
    assert outcome.history.users["own_accuracy"] == pytest.approx(expected)
    assert outcome.history.users["fine_tuned_accuracy"] == by_labels.history.users["fine_tuned_accuracy"]
    tuned, other = (one.history.users["fine_tuned_own_accuracy"] for one in (outcome, by_labels))
    assert [tuned[4], tuned[5]] == [other[4], other[5]]
    assert {tuned[0], tuned[3]} <= {0.0, 0.5, 1.0}
    known, last = np.array([value for value in expected if value is not None]), outcome.history.records[-1]
    assert (last.user_accuracy, last.worst_accuracy) == pytest.approx((known.mean(), known.min()))
    # Without fine-tuning, too.
    assert run(replace(world, own_tests=tests), rounds=4).history.users == {"own_accuracy": pytest.approx(expected)}


@pytest.mark.parametrize("algorithm", ["fedprox", "scaffold", "fedadam"])
def test_engines_agree_and_training_is_as_without(algorithm):
    plain = run(algorithm=algorithm, rounds=4)
    loop, stacked = (run(algorithm=algorithm, engine=engine, **TUNED) for engine in ("loop", "stacked"))
    assert plain.history.records == stacked.history.records
    assert not plain.history.users
    for name, column in loop.history.users.items():
        pairs = [pair for pair in zip(column, stacked.history.users[name], strict=True) if None not in pair]
        assert len(pairs) == 5
        np.testing.assert_allclose(*zip(*pairs, strict=True), rtol=0, atol=1e-9)


def test_fine_tuning_is_local_sgd_whatever_the_algorithm_sends():
    """Of the same weights it makes the same models: no proximal term, no compression, no server optimiser."""
    one = run(rounds=1, learning_rate=1e-12, fine_tune_epochs=2, fine_tune_learning_rate=0.2)
    more = {"algorithm": "fedprox", "prox_weight": 50.0, "server_optimizer": "adam", "server_learning_rate": 1e-12}
    other = run(rounds=1, learning_rate=1e-12, fine_tune_epochs=2, fine_tune_learning_rate=0.2, upload="top_k", **more)
    assert one.history.users == other.history.users


def test_mean_and_worst_tenth_are_those_of_the_last_round():
    history = run(**TUNED).history
    known = np.array([value for value in history.users["own_accuracy"] if value is not None])
    assert mean_and_worst(known) == pytest.approx(
        (history.records[-1].user_accuracy, history.records[-1].worst_accuracy)
    )


def test_a_resumed_run_and_a_stored_history_have_them(tmp_path):
    file, whole = tmp_path / "checkpoint.pt", run(**TUNED).history
    stopped = run(checkpoint=file, should_stop=iter([False, True]).__next__, **TUNED)
    assert not stopped.history.users
    # A checkpoint does not know what comes after the last round.
    assert not run(checkpoint=file, rounds=4).history.users
    assert run(checkpoint=file, **TUNED).history == whole == load_history(whole.save(tmp_path / "history.json"))
    assert "users" not in json.loads(run(rounds=1).history.to_json())
    (tmp_path / "bad.json").write_text(json.dumps({"version": 1, "records": [], "users": {"a": [1], "b": ["x"]}}))
    with pytest.raises(FedcastError, match=r"bad.json: not a history written by fedcast \(users are not columns"):
        load_history(tmp_path / "bad.json")


def test_the_step_size_is_that_of_the_last_round_unless_given():
    decayed = {"learning_rate": 0.2, "learning_rate_decay": 0.5, "rounds": 3, "fine_tune_epochs": 2}
    assert run(**decayed).history == run(**decayed, fine_tune_learning_rate=0.05).history
    assert run(**decayed).history.users != run(**decayed, fine_tune_learning_rate=0.2).history.users


def test_a_fine_tuned_model_that_diverges_is_an_error():
    with pytest.raises(FedcastError, match="fine-tuning diverged at user .: .*training.fine_tune_learning_rate"):
        run(rounds=1, precision="float32", weight_decay=1.0, fine_tune_epochs=9, fine_tune_learning_rate=1e14)


@pytest.mark.parametrize("value", [-1, 1.5, 1001])
def test_epochs_that_are_no_number_of_epochs_are_an_error(value):
    with pytest.raises(ScenarioError, match="training.fine_tune_epochs"):
        load_scenario(base="digits", overrides={"training.fine_tune_epochs": value})


def test_devices_do_not_fine_tune():
    world = federation()
    users = RemoteUsers(world.users.sizes, world.own_sizes, world.distributions)
    given = TrainingSettings(fine_tune_epochs=1, device="cpu")
    with pytest.raises(FedcastError, match="invalid value 1 for training.fine_tune_epochs: devices do not"):
        train_remotely(lambda *_: {}, users, world.dataset, build_model("mlp", (1, 8, 8), 4), given)
