"""Membership tests by models that are trained on what heads send, and how close samples come back."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fedcast.data import Assignment, dataset_from_arrays
from fedcast.plan import make_world, plan_world
from fedcast.plan.kind_choice import with_kinds
from fedcast.runs import attack_run, prepare_run, run_scenario
from fedcast.runs.attacks import attack_heads
from fedcast.runs.shadow_heads import confidence, shadow_head_scores
from fedcast.scenario import load_scenario
from fedcast.sharing import Held, Target, calibrated, make_raw, play
from fedcast.training import TrainingSettings, train_separately

SETTINGS = TrainingSettings(learning_rate=0.1, batch_size=100, precision="float64", compile="never", device="cpu")
FEW = (
    "data.num_users=12", "clustering.rule=daca", "training.local_epochs=1", "training.rounds=1",
    "allocation.method=fixed", "training.device=cpu", "training.compile=never",
)  # fmt: skip


def data(n=40, seed=0):
    rng = np.random.default_rng(seed)
    inputs, labels = rng.random((n, 1, 4, 4)).astype(np.float32), np.arange(n) % 2
    return dataset_from_arrays(inputs, labels, inputs[:4], labels[:4])


def linear():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 2))


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_each_user_trains_as_if_alone(engine):
    """Full batches, so that the order of samples does not matter: gradient descent by hand."""
    dataset, users = data(), Assignment(np.arange(40), np.array([0, 10, 10, 40]))
    trained = dict(train_separately(dataset, users, linear(), replace(SETTINGS, engine=engine), epochs=3, seed=1))
    assert sorted(trained) == [0, 2], "a user without samples has no model"
    for user, weights in trained.items():
        model = linear().double()
        inputs, labels = torch.from_numpy(dataset.inputs[users.of(user)]).double(), dataset.labels[users.of(user)]
        for _ in range(3):
            model.zero_grad()
            F.cross_entropy(model(inputs), torch.from_numpy(labels)).backward()
            with torch.no_grad():
                for weight in model.parameters():
                    weight -= 0.1 * weight.grad
        for found, expected in zip(weights, model.parameters(), strict=True):
            assert (found - expected).abs().max() < 1e-12


def test_confidence_is_the_logit_of_the_label():
    scores = torch.tensor([[1.0, 3.0, 0.0], [80.0, 0.0, 0.0]]).double()
    p = torch.softmax(scores[0], 0)[1].item()
    found = confidence(scores, np.array([1, 0]))
    assert found[0] == pytest.approx(np.log(p / (1 - p)))
    assert np.isfinite(found[1])


def test_models_tell_who_was_among_raw_samples():
    """A sample with a wrong label: models are sure of it only if they saw it; it is sent in 5 of 6 games."""
    rng, dataset = np.random.default_rng(0), data()
    inputs, labels = rng.random((6, 1, 4, 4), dtype=np.float32) / 4, np.array([0, 1, 0, 1, 0, 1])
    inputs[0], labels[0] = 1.0, 1
    target = Target(Held(inputs, labels, 2), 5, False, 0, np.zeros((1, 4, 4), dtype=np.float32), 0)
    games = play(make_raw, target, None, 100, 0, private=False)
    scores = shadow_head_scores(games, target, dataset, linear(), SETTINGS, 0)
    assert calibrated(scores).auc > 0.85
    assert len(scores.inside) == len(scores.outside) == 100
    shuffled = type(scores)(*np.random.default_rng(1).permutation(
        np.concatenate([scores.inside, scores.outside])).reshape(2, 100))  # fmt: skip
    assert abs(calibrated(shuffled).auc - 0.5) < 0.2, "without the right worlds there is nothing to find"


@pytest.fixture(scope="module")
def attacks(tmp_path_factory):
    store = tmp_path_factory.mktemp("store")
    found = {}
    for kind, more in (("raw", ["allocation.fixed.ratio=0.5", "clustering.sharing_ratio=0.5",
                                "allocation.max_sharing_ratio=1"]), ("synthetic", [])):  # fmt: skip
        folder = run_scenario(load_scenario(base="digits", overrides=[*FEW, f"sharing.kind={kind}", *more]), store)
        found[kind] = attack_run(folder, targets=4, draws=30)
    return found


def test_raw_samples_come_back_and_private_ones_do_not(attacks):
    (raw,), (synthetic,) = attacks["raw"].reconstructions, attacks["synthetic"].reconstructions
    assert 0.2 < raw.recovered < 0.8, "half of its samples are sent as they are"
    assert raw.recovered_without == 0
    assert synthetic.recovered == synthetic.recovered_without == 0
    assert synthetic.distance == pytest.approx(synthetic.distance_without, rel=0.1)


def test_every_kind_has_its_tests(attacks):
    assert [row.test for row in attacks["raw"].tests] == ["nearest sample", "shadow heads"]
    assert [row.test for row in attacks["synthetic"].tests] == ["nearest sample", "shadow heads", "likelihood ratio"]
    for row in attacks["synthetic"].tests:
        assert row.claimed_epsilon == 4
        assert row.proven_epsilon <= 4
        low, high = row.tpr_at_1_percent_interval
        assert low <= row.tpr_at_1_percent <= high


def test_heads_of_different_kinds_are_attacked_by_kind():
    users = 20
    best = ("sharing.kind=best", f"data.num_users={users}", "rounds.fit=mnist", "training.learning_rate=0.1")
    scenario = load_scenario(base="digits", overrides=[*FEW, *best])
    world = make_world(scenario)
    heads = plan_world(with_kinds(world, np.full(users, "raw")), with_curve=False).plan.heads
    chosen = np.full(users, "raw", dtype="<U10")
    chosen[heads[::2]] = "synthetic"
    run = prepare_run(scenario, world=with_kinds(world, chosen))
    found = attack_heads(run, targets=8, draws=8)
    assert {row.kind for row in found.tests} == {"raw", "synthetic"}
    assert {one.kind for one in found.reconstructions} == {"raw", "synthetic"}
    for row in found.tests:
        assert (row.claimed_epsilon is None) == (row.kind == "raw")
